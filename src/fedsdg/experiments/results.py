"""The folder of an experiment: ``experiment.json`` says what was asked, ``results.jsonl`` has one row per answer.

A row is written when it is complete, in one piece, so an interrupted experiment loses only what was being computed. A
last line that was cut off is dropped when the folder is opened again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from fedsdg.errors import ConfigError, DataError
from fedsdg.experiments.cell import Row
from fedsdg.results import to_json

RESULTS, DESCRIPTION, FAILURES = "results.jsonl", "experiment.json", "failures.jsonl"
Key = tuple[str, str, int, int]


def key_of(row: Row) -> Key:
    """Return what a row is the answer to: data set, method, fold, seed."""
    return str(row["dataset"]), str(row["method"]), int(row["fold"]), int(row["seed"])


class ResultsFolder:
    """Where an experiment's rows lie."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, description: Row) -> None:
        """Make the folder, or check that it belongs to the same experiment with the same settings."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; --out needs a folder")
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / DESCRIPTION).is_file():
            before = self.description()
            for name in ("name", "config_hash", "folds"):
                if before.get(name) != description[name]:
                    raise ConfigError(
                        f"{self.path} holds an experiment with {name} = {before.get(name)}, not {description[name]}; "
                        "use another folder"
                    )
            sources = {**before.get("sources", {}), **description.get("sources", {})}
            description = {**description, "started": before.get("started"), "sources": sources}
        elif any(self.path.iterdir()):
            raise ConfigError(f"{self.path} is not empty and holds no experiment; use another folder")
        write_whole(self.path / DESCRIPTION, to_json(description, indent=2) + "\n")
        self._drop_cut_off_line()

    def description(self) -> Row:
        """Return what was asked."""
        path = self.path / DESCRIPTION
        if not path.is_file():
            raise ConfigError(f"{self.path} holds no experiment; `fedsdg experiment run` makes one")
        found: Row = json.loads(path.read_text(encoding="utf-8"))
        return found

    def rows(self) -> list[Row]:
        """Return all complete rows; of several answers to one question the last counts."""
        path = self.path / RESULTS
        if not path.is_file():
            return []
        found: dict[Key, Row] = {}
        content = path.read_text(encoding="utf-8")
        complete = content[: content.rfind("\n") + 1]  # a last line without its end was cut off
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                row = json.loads(line)
                found[key_of(row)] = row
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{path}: line {number} is not a row of results; repair or remove it") from None
        return list(found.values())

    def append(self, row: Row) -> None:
        """Write one row, in one piece, down to the disk."""
        self._append(RESULTS, row)

    def note_failure(self, row: Row) -> None:
        """Note a task that failed; it is tried again when the experiment is resumed."""
        self._append(FAILURES, row)

    def _append(self, name: str, row: Row) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(to_json(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _drop_cut_off_line(self) -> None:
        path = self.path / RESULTS
        if path.is_file():
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) != len(content):
                write_whole(path, whole.decode("utf-8"))


def write_whole(path: Path, content: str) -> None:
    """Replace a file in one step."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(content, encoding="utf-8")
    os.replace(partial, path)


def commit() -> str | None:
    """Return the commit of the source tree that runs, with ``+changes`` if files differ from it; None outside one."""
    git, source = shutil.which("git"), Path(__file__).parents[1]
    if git is None:
        return None

    def ask(*arguments: str) -> Any:
        done = subprocess.run(  # noqa: S603 - fixed arguments, our own folder
            [git, "-C", str(source), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    head = ask("rev-parse", "HEAD")
    if not head:
        return None
    return f"{head}+changes" if ask("status", "--porcelain", "--", str(source)) else str(head)

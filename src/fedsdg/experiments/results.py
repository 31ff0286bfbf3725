"""The folder of an experiment: ``experiment.json`` says what was asked, ``results.jsonl`` has one row per answer.

A row is written when it is complete, in one piece, so an interrupted experiment loses only what was being computed. A
last line that was cut off is moved to ``results.jsonl.cut-off`` when the experiment goes on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedsdg.errors import ConfigError, DataError, StateFileError
from fedsdg.experiments.cell import Row
from fedsdg.experiments.checked_files import read_content, read_json, read_lines, whole_lines
from fedsdg.experiments.forms import Answer, Description, Question
from fedsdg.results import to_json
from fedsdg.state_files import FolderLock

RESULTS, DESCRIPTION, FAILURES = "results.jsonl", "experiment.json", "failures.jsonl"
CUT_OFF = ".cut-off"
"""Behind the name of a file: what a crash left of its last line, should anybody ever want it."""
Key = tuple[str, str, int, int]


def key_of(row: Row) -> Key:
    """Return what a row is the answer to: data set, method, fold, seed."""
    return str(row["dataset"]), str(row["method"]), int(row["fold"]), int(row["seed"])


class ResultsFolder:
    """Where an experiment's rows lie."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: FolderLock | None = None

    @contextmanager
    def prepared(self, description: Row) -> Iterator[None]:
        """Make the folder, or check that it belongs to the same experiment, and keep other processes out of it."""
        try:
            self._prepare(description)
            yield
        finally:
            if self._lock is not None:
                self._lock.release()

    def asked_before(self, description: Row) -> Row | None:
        """Return what was asked in this folder before, if anything; another experiment's folder is refused."""
        if not os.path.lexists(self.path / DESCRIPTION):
            return None
        before = self.description()
        for name in ("name", "config_hash", "folds"):
            if before.get(name) != description[name]:
                found, wanted = _told_apart(name, before, description)
                raise ConfigError(
                    f"{self.path} holds an experiment with {name} = {found}, not {wanted}; use another folder"
                )
        self._refuse_other_data(before.get("sources") or {}, description.get("sources") or {})
        first, end = _seeds_of(before)
        if not first <= int(description.get("first_seed", 0)) <= end:
            raise ConfigError(
                f"{self.path} holds seeds {first} to {end - 1}, and seeds from {description['first_seed']} on would be "
                "averaged with them: use another folder, or go on with the next seed"
            )
        return before

    def _refuse_other_data(self, before: Row, now: Row) -> None:
        """Refuse to put rows of a data set beside those of another one that goes by the same name."""
        for name in set(before) & set(now):
            digests = [(about.get(name) or {}).get("sha256") for about in (before, now)]
            if None not in digests and digests[0] != digests[1]:
                raise ConfigError(
                    f"{self.path} holds rows of {name} with the content {str(digests[0])[:12]}, and what is called "
                    f"{name} today has {str(digests[1])[:12]}: it is another data set; use another folder"
                )

    def _prepare(self, description: Row) -> None:
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise ConfigError(f"{self.path} is a file; --out needs a folder")
        with _clear_errors(self.path, self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        before = self.asked_before(description)
        if before is not None:
            sources = {**(before.get("sources") or {}), **description.get("sources", {})}
            # A part of the grid may have been asked for this time: the folder is about all that was ever asked.
            datasets = list(dict.fromkeys((*(before.get("datasets") or ()), *description.get("datasets", ()))))
            first, end = _seeds_of(before)
            seeds = max(end, _seeds_of(description)[1]) - first
            description = {**description, "started": before.get("started"), "sources": sources}
            description |= {"datasets": datasets, "seeds": seeds, "first_seed": first}
        elif self._holds_something():
            raise ConfigError(f"{self.path} is not empty and holds no experiment; use another folder")
        self._lock = FolderLock(self.path)  # two processes would compute the same rows and mend each other's lines
        for name in (RESULTS, FAILURES):
            self._mend_end(self.path / name)
        write_whole(self.path / DESCRIPTION, (to_json(description, indent=2) + "\n").encode())

    def description(self) -> Row:
        """Return what was asked."""
        path = self.path / DESCRIPTION
        if not os.path.isdir(self.path):
            raise ConfigError(f"there is no folder {self.path}; `fedsdg experiment run` makes one")
        if not os.path.lexists(path):
            raise ConfigError(f"{self.path} holds no experiment; `fedsdg experiment run` makes one")
        return read_json(path, Description, "put back a copy of the file, or use another folder")

    def rows(self) -> list[Row]:
        """Return all complete rows; of several answers to one question the last counts."""
        path = self.path / RESULTS
        if not os.path.lexists(path):
            return []
        rows = read_lines(path, Answer, complete=True, what="a row of results", kind=DataError)
        return list({key_of(row): row for row in rows}.values())

    def failures(self) -> set[Key]:
        """Return the tasks that were noted as failed, whatever became of them since."""
        path = self.path / FAILURES
        if not os.path.lexists(path):
            return set()
        return {key_of(row) for row in read_lines(path, Question, complete=True, what="the note of a failure")}

    def append(self, row: Row) -> None:
        """Write one row, in one piece, down to the disk."""
        self._append(RESULTS, row)

    def note_failure(self, row: Row) -> None:
        """Note a task that failed; it is tried again when the experiment is resumed."""
        self._append(FAILURES, row)

    def _append(self, name: str, row: Row) -> None:
        _append_line(self.path / name, to_json(row).encode())

    def _holds_something(self) -> bool:
        with _clear_errors(self.path, self.path):
            return any(entry.name != FolderLock.NAME for entry in self.path.iterdir())

    @staticmethod
    def _mend_end(path: Path) -> None:
        """See that the next line starts a line: what would be appended to half of one is lost, too."""
        if os.path.lexists(path):
            content = read_content(path)
            whole = whole_lines(content, path)
            if len(whole) < len(content):
                _append_line(path.with_name(path.name + CUT_OFF), content[len(whole) :])
            if whole != content:
                write_whole(path, whole)


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step."""
    partial = path.with_name(f".{path.name}.part")
    with _clear_errors(path, path.parent):
        try:
            partial.write_bytes(content)
            os.replace(partial, path)
        except OSError:
            with suppress(OSError):
                partial.unlink()  # a folder that holds nothing else is still an empty one
            raise


def _append_line(path: Path, line: bytes) -> None:
    """Write one line, in one piece, down to the disk."""
    with _clear_errors(path, path.parent), path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _clear_errors(path: Path, folder: Path) -> Iterator[None]:
    """Turn what the file system says into one clear line, which calms where an experiment's folder has rows."""
    try:
        yield
    except OSError as problem:
        there = " Rows that were written before are still there." if os.path.lexists(folder / RESULTS) else ""
        raise StateFileError(f"Cannot write {path}: {problem.strerror or problem}.{there}") from None


def _seeds_of(about: Row) -> tuple[int, int]:
    """Return the first seed that was asked for, and the one after the last."""
    first = int(about.get("first_seed") or 0)
    return first, first + int(about.get("seeds") or 0)


def _told_apart(name: str, *abouts: Row) -> list[str]:
    """Return a field of descriptions; digests of settings come with their presets, as nobody knows them by heart."""
    presets = [about.get("preset") for about in abouts]
    if name != "config_hash" or None in presets or len(set(presets)) == 1:
        return [str(about.get(name)) for about in abouts]
    return [f"{about.get(name)} (preset {preset})" for about, preset in zip(abouts, presets, strict=True)]


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

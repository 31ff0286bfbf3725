"""The file `metrics.jsonl` of a run: one line per training step, as the server saw it; readable by its owner only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from fedsdg.errors import StateFileError
from fedsdg.results import to_json
from fedsdg.server.run import Update
from fedsdg.state_files import OWNER_ONLY

PHASES = ("gated", "compact")


class StepRecord:
    """A record that is being written: a new one, or that of an interrupted run."""

    NAME = "metrics.jsonl"

    def __init__(self, folder: Path) -> None:
        """Open the record in this folder; what is there stays until the first step."""
        self._folder, self._first = folder, True
        with self._clear_errors():
            descriptor = os.open(folder / self.NAME, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
            self._file = os.fdopen(descriptor, "r+", encoding="utf-8")

    def add(self, update: Update) -> None:
        """Write one step. The first one of a resumed run takes the place of those that were lost."""
        if update.loss is None:
            return
        with self._clear_errors():
            if self._first:
                self._keep_lines_before(update)
                self._first = False
            self._file.write(to_json(asdict(update)) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Stop writing; closing twice does no harm."""
        self._file.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise StateFileError(f"Cannot write to {self._folder}: {problem.strerror or problem}.") from None

    def _keep_lines_before(self, update: Update) -> None:
        """Keep the lines of the steps before this one; a torn last line goes, too."""
        self._file.seek(0)
        kept = []
        for line in self._file:
            try:
                past = json.loads(line)
            except ValueError:
                break
            if (PHASES.index(past["phase"]), past["step"]) >= (PHASES.index(update.phase), update.step):
                break
            kept.append(line)
        self._file.seek(0)
        self._file.truncate()
        self._file.writelines(kept)

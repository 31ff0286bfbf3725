"""How a long run shows itself: a live display, one JSON line per step, or nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedsdg.simulation import Update

TITLES = {
    "gini": "Gini initialisation",
    "gated": "gated training",
    "compact": "compact retraining",
}


def size(count: float) -> str:
    """Return bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


class LiveProgress:
    """Phase, step, ETA, loss, open features and embedding dimensions, bytes."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description:<20}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[details]}"),
            console=console,
            transient=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._open: dict[str, int | None] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, update: Update) -> None:
        """Show one step."""
        if update.phase not in self._tasks:
            if self._tasks:
                last = self._tasks[list(self._tasks)[-1]]
                done = self._progress.tasks[last].completed if "gini" not in self._tasks or len(self._tasks) > 1 else 1
                self._progress.update(last, completed=done, total=done)
            title = TITLES.get(update.phase, update.phase)
            self._tasks[update.phase] = self._progress.add_task(title, total=update.steps, details="")
        if update.open_features is not None:
            self._open[update.phase] = update.open_features
        parts = []
        if update.loss is not None:
            parts.append(f"loss {update.loss:.3f}")
        if self._open.get(update.phase) is not None:
            parts.append(f"{self._open[update.phase]} features open")
        if update.open_embeddings is not None:
            parts.append(f"{update.open_embeddings} dims")
        if update.bytes:
            parts.append(size(update.bytes))
        self._progress.update(self._tasks[update.phase], completed=update.step, details=", ".join(parts))


def json_lines(update: Update) -> None:
    """Write one JSON line per step to standard output."""
    print(json.dumps(asdict(update)), flush=True)


def silent(update: Update) -> None:
    """Show nothing."""


def plain_lines(every: int = 50) -> Callable[[Update], None]:
    """Return a watcher for logs and pipes: a line every so many steps."""

    def show(update: Update) -> None:
        if update.loss is not None and (update.step % every == 0 or update.step == update.steps):
            print(
                f"{update.phase} {update.step}/{update.steps} loss {update.loss:.3f} {size(update.bytes)} "
                f"{duration(update.seconds)}",
                file=sys.stderr,
                flush=True,
            )

    return show

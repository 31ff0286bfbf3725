"""How a long run shows itself: a live display, one JSON line per step, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from fedsdg.report.quantities import duration, size
from fedsdg.results import to_json
from fedsdg.simulation import Update

TITLES = {"gini": "Gini", "gated": "gated", "compact": "compact"}
#: Terminals of at least this many characters have room for a bar.
WIDE = 105


class LiveProgress:
    """Phase, step, ETA, loss, open features and embedding dimensions, bytes: on one line of 80 characters."""

    def __init__(self, console: Console) -> None:
        columns: list[ProgressColumn] = [TextColumn("[bold]{task.description:<7}")]
        if console.width >= WIDE:
            columns.append(BarColumn(bar_width=24))
        columns += [
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[details]}", markup=False),
        ]
        self._progress = Progress(*columns, console=console, transient=False)
        self._tasks: dict[str, TaskID] = {}
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._close_last()
        self._progress.stop()

    def __call__(self, update: Update) -> None:
        """Show one step."""
        if update.phase not in self._tasks:
            self._close_last()
            title = TITLES.get(update.phase, update.phase)
            self._tasks[update.phase] = self._progress.add_task(title, total=update.steps, details="")
        if update.open_features is not None:
            self._open[update.phase] = update.open_features
        parts = []
        if update.loss is not None:
            parts.append(f"loss {update.loss:.3f}")
        if update.phase in self._open:
            parts.append(f"{self._open[update.phase]} features")
        if update.open_embeddings is not None:
            parts.append(f"{update.open_embeddings} dims")
        if update.bytes:
            parts.append(size(update.bytes))
        self._progress.update(self._tasks[update.phase], completed=update.step, details=", ".join(parts))

    def _close_last(self) -> None:
        """Show the last phase as finished: the gated one often ends early, the Gini one has no steps of its own."""
        if self._tasks:
            task = self._progress.tasks[list(self._tasks.values())[-1]]
            done = max(1, int(task.completed))
            self._progress.update(task.id, completed=done, total=done)


def json_lines(update: Update) -> None:
    """Write one JSON line per step to standard output."""
    print(to_json(asdict(update)), flush=True)


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

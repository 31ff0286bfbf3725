"""What an experiment without a figure of its own shows: its scores as bars, if it has scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, score_bars, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot per data set that has scores."""
    for dataset, methods in group(rows).items():
        figure = score_bars(f"{shown(dataset, methods)}: test score", SPREAD, methods)
        if figure is not None:
            yield figure

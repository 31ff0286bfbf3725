"""The paper's settings as they stand, beside our default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, field_bars, score_bars, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield score and number of features per data set."""
    for dataset, methods in group(rows).items():
        name = shown(dataset, methods)
        for figure in (
            score_bars(f"{name}: test score", SPREAD, methods),
            field_bars(f"{name}: selected features", SPREAD, Axis("selected features", zero=True), methods, "selected"),
        ):
            if figure is not None:
                yield figure

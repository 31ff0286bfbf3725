"""Model sizes before and after selection, beside those that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import field_bars, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot per data set."""
    for dataset, methods in group(rows).items():
        figure = field_bars(
            f"{shown(dataset, methods)}: model size",
            "Trainable numbers of all parties' models together. Error bars: standard deviation over cells.",
            Axis("parameters", zero=True),
            methods,
            "parameters",
            form=",.0f",
        )
        if figure is not None:
            yield figure

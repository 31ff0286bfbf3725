"""How many of the open features Gini impurity would have kept, too, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import LineChart
from fedsdg.report.document import Figure
from fedsdg.report.figures.paths import SPREAD_BAND, curves, ends
from fedsdg.report.figures.pieces import shown

STEP = Axis("training step of the gated phase")


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield two plots per data set."""
    for dataset, methods in group(rows).items():
        # By Gini first, in both experiments that compare the two: one colour means one thing.
        named = {f"gates start {method}": methods[method] for method in sorted(methods, reverse=True)}
        agreed = curves(named, "overlap", 100.0)
        if agreed:
            yield Figure(
                f"{shown(dataset, methods)}: overlap with Gini",
                "Open features that are also among as many best ones by Gini impurity. A line ends where the first of "
                f"its cells has nothing open. {SPREAD_BAND}",
                LineChart(STEP, Axis("overlap (%)", zero=True, within=(0.0, 100.0)), agreed),
            )
        still = curves(named, "open")
        if still:
            yield Figure(
                f"{shown(dataset, methods)}: open features",
                f"Features whose gate is open. {ends(named)}{SPREAD_BAND}",
                LineChart(STEP, Axis("open features", zero=True), still),
            )

"""How soon features are out, with gates that start by Gini impurity and alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.convergence import BY_GINI
from fedsdg.experiments.statistics import group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import LineChart
from fedsdg.report.document import Figure
from fedsdg.report.figures.overlap import STEP
from fedsdg.report.figures.paths import SPREAD_BAND, curves, ends
from fedsdg.report.figures.pieces import ScoreUnit, all_rows, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield open features and validation score over steps, per data set."""
    for dataset, methods in group(rows).items():
        # By Gini first, in both experiments that compare the two: one colour means one thing.
        ordered = sorted(methods, key=lambda method: (method != BY_GINI, len(method)))
        named = {f"gates start {method}": methods[method] for method in ordered}
        unit, name = ScoreUnit.of(all_rows(methods), "validation"), shown(dataset, methods)
        still, score = curves(named, "open"), curves(named, "score", unit.factor)
        if still:
            yield Figure(
                f"{name}: open features",
                f"The faster a line falls, the sooner selection is over. {ends(named)}{SPREAD_BAND}",
                LineChart(STEP, Axis("open features", zero=True), still),
            )
        if score:
            yield Figure(
                f"{name}: score on the way",
                f"The model as it is on validation rows, while gates close. {ends(named)}{SPREAD_BAND}",
                LineChart(STEP, unit.axis, score),
            )

"""Score of Gini impurity as a filter, against the number of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import Summary, group
from fedsdg.experiments.tables import field_summary
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import Level, LineChart
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, ScoreUnit, all_rows, family_of, lines, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot per data set."""
    for dataset, methods in group(rows).items():
        unit = ScoreUnit.of(all_rows(methods))
        families: dict[str, list[tuple[float, Summary]]] = {}
        for method, of in methods.items():
            if method != "all":
                families.setdefault(family_of(method)[0], []).append(
                    (field_summary(of, "selected").mean, unit.score(of))
                )
        everything = unit.score(methods.get("all", ()))
        levels = (Level("all features", everything.mean),) if everything.count else ()
        yield Figure(
            f"{shown(dataset, methods)}: filters against the number of features",
            f"The same model on the best columns of each ranking. {SPREAD}",
            LineChart(Axis("selected features (logarithmic)", log=True), unit.axis, lines(families), levels),
        )

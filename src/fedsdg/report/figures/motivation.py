"""Score and model size as one client brings more redundant or noisy columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import field_summary
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import LineChart
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, ScoreUnit, all_rows, lines, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield two plots per data set."""
    for dataset, methods in group(rows).items():
        unit = ScoreUnit.of(all_rows(methods))
        noisy = next(iter(methods)).startswith("10:")
        what = "noisy" if noisy else "redundant"
        across = Axis("columns of client B (logarithmic)", log=True)
        scores = [(_columns(method), unit.score(of)) for method, of in methods.items()]
        sizes = [(_columns(method), field_summary(of, "parameters")) for method, of in methods.items()]
        name = shown(dataset, methods)
        yield Figure(
            f"{name}: score with more {what} columns",
            f"A model on all columns; client A's stay as they are. {SPREAD}",
            LineChart(across, unit.axis, lines({"all features": scores})),
        )
        yield Figure(
            f"{name}: model size with more {what} columns",
            "Trainable numbers of the same model.",
            LineChart(across, Axis("parameters", zero=True), lines({"all features": sizes})),
        )


def _columns(method: str) -> float:
    return float(method.partition(":")[2])

"""Score and share of features with two, five and ten clients, the paper's numbers beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import label
from fedsdg.experiments.paper_numbers import MORE_CLIENTS, TWO_CLIENTS
from fedsdg.experiments.statistics import Summary, group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import LineChart, Point, Series
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, ScoreUnit, all_rows, lines, shown

PAPER = 6
"""The slot of the paper's numbers."""


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot per data set."""
    for dataset, methods in group(rows).items():
        unit = ScoreUnit.of(all_rows(methods))
        families: dict[str, list[tuple[float, Summary]]] = {}
        for key, of in methods.items():
            method, _, number = key.partition("/")
            families.setdefault(label(method), []).append((float(number), unit.score(of)))
        printed = {number: of.get(dataset, {}) for number, of in ({2: TWO_CLIENTS} | MORE_CLIENTS).items()}
        paper = tuple(Point(float(n), of["fedsdg"][0] / 100 * unit.factor) for n, of in printed.items() if of)
        series = lines(families)
        if paper:
            series = (*series, Series("FedSDG-FS, the paper's number", paper, PAPER, joined=False, hollow=True))
        yield Figure(
            f"{shown(dataset, methods)}: more clients",
            f"The same columns, dealt to more parties. {SPREAD}",
            LineChart(Axis("clients"), unit.axis, series),
        )

"""Scores with labels in random order: they must fall to chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import field_summary
from fedsdg.report.charts.bar_chart import BarChart
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, ScoreUnit, all_rows, score_bars, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot per data set."""
    for dataset, methods in group(rows).items():
        caption = f"Above the mark by more than the spread would mean that something leaks. {SPREAD}"
        figure = score_bars(f"{shown(dataset, methods)}: labels in random order", caption, methods)
        chance = ScoreUnit.of(all_rows(methods)).scaled(field_summary(all_rows(methods), "chance"))
        if figure is not None and isinstance(figure.chart, BarChart):
            limit = ("chance", chance.mean) if chance.count else None
            yield replace(figure, chart=replace(figure.chart, limit=limit))

"""The headline table as pictures: all data sets together, then each as bars with the paper's number and the ceiling,
and score against the share of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle

from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import CEILING, label
from fedsdg.experiments.paper_numbers import TWO_CLIENTS
from fedsdg.experiments.rivals import as_few, strongest
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import field_summary, field_text
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.bar_chart import Bar, BarChart
from fedsdg.report.charts.dot_chart import Dot, DotChart, DotLine
from fedsdg.report.charts.line_chart import Level, LineChart, Point, Series
from fedsdg.report.charts.palette import SHAPES
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, Methods, ScoreUnit, all_rows, family_of, point, shown

BEST = "best centralised model"
MARKS = [
    (slot, hollow) for hollow in (False, True) for slot, form in enumerate(SHAPES) if not (hollow and form == "cross")
]
"""Filled marks first, then the same again hollow, where that makes a difference."""
OURS_OTHERWISE = ("fedsdg@0.15", "fedsdg@0.05", "fedsdg@small")
WITH_ERRORS = ("fedsdg", "all")
WISHES = "FedSDG-FS, asked for a share, or small"


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot of all data sets and two of each."""
    groups = group(rows)
    yield from _overview(groups)
    for dataset, methods in groups.items():
        yield _bars(dataset, methods)
        yield _trade(dataset, methods)


def _overview(groups: Mapping[str, Methods]) -> Iterator[Figure]:
    """Yield what a reader asks first: how good are the few columns, could others be better, and what would all give?"""
    lines = []
    for dataset, methods in groups.items():
        unit, ours = ScoreUnit.of(all_rows(methods)), methods.get("fedsdg", ())
        if "all" not in methods or unit.factor == 1 or not unit.score(ours).count:  # R squared has another axis
            continue
        rivals = as_few(ours, {method: list(rows) for method, rows in methods.items()})
        best = strongest(ours, rivals) if rivals else ""
        text = f"{unit.text(unit.score(ours))} on {100 * field_summary(ours, 'ratio').mean:.1f} % of the features"
        dots = (
            _dot(unit, ours),
            _dot(unit, methods[best], label(best)) if best else None,
            _dot(unit, methods["all"]),
            _dot(unit, methods.get(CEILING, ())),
        )
        lines.append(DotLine(shown(dataset, methods), text, dots))
    if len(lines) > 1:
        kinds = ("FedSDG-FS", "best of all rivals with as few", "all features", BEST)
        caption = (
            "The rival is another one on every data set: whichever did best there with at most as many features. "
            f"{SPREAD}"
        )
        yield Figure("All data sets", caption, DotChart(ScoreUnit.of(()).axis, kinds, tuple(lines)))


def _dot(unit: ScoreUnit, rows: Sequence[Row], whose: str = "") -> Dot | None:
    value = unit.score(rows)
    return Dot(value.mean, value.deviation, whose) if value.count else None


def _bars(dataset: str, methods: Methods) -> Figure:
    unit = ScoreUnit.of(all_rows(methods))
    bars = []
    for method, rows in methods.items():
        if method == CEILING:
            continue
        value, paper = unit.score(rows), TWO_CLIENTS.get(dataset, {}).get(method)
        text = f"{unit.text(value)} / {field_text(rows, 'ratio', '.3f')}"
        published = None if paper is None else paper[0] / 100 * unit.factor
        bars.append(Bar(label(method), value.mean, value.deviation, text, method == "fedsdg", published))
    ceiling = unit.score(methods.get(CEILING, ()))
    limit = (BEST, ceiling.mean) if ceiling.count else None
    return Figure(
        f"{shown(dataset, methods)}: {unit.axis.label}",
        f"Beside each name: score ± standard deviation / share of features. {SPREAD}",
        BarChart(unit.axis, tuple(bars), limit),
    )


def _trade(dataset: str, methods: Methods) -> Figure:
    unit = ScoreUnit.of(all_rows(methods))

    families: dict[str, list[Point]] = {}
    for method, rows in methods.items():
        if method != CEILING:
            value = unit.score(rows)
            # Matched methods stand above each other: with everybody's error bars nobody's could be read.
            place = point(100 * field_summary(rows, "ratio").mean, value)
            place = place if method in WITH_ERRORS else replace(place, error=None)
            families.setdefault(WISHES if method in OURS_OTHERWISE else family_of(method)[0], []).append(place)
    series = [
        Series(name, tuple(points), slot, joined=False, hollow=hollow)
        for (slot, hollow), (name, points) in zip(cycle(MARKS), families.items(), strict=False)
    ]
    ceiling = unit.score(methods.get(CEILING, ()))
    levels = (Level(BEST, ceiling.mean),) if ceiling.count else ()
    return Figure(
        f"{shown(dataset, methods)}: score against features",
        "High and to the left is good: accurate with few features. Error bars, where there are any: standard deviation "
        "over cells.",
        LineChart(Axis("share of features selected (%, logarithmic)", log=True), unit.axis, tuple(series), levels),
    )

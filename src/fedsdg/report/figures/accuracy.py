"""The headline table as bars: all data sets together, then each with the paper's number and the ceiling, and score
against the share of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import CEILING, label
from fedsdg.experiments.paper_numbers import TWO_CLIENTS
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import field_summary, field_text
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.bar_chart import Bar, BarChart
from fedsdg.report.charts.line_chart import Level, LineChart, Point, Series
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, Methods, ScoreUnit, all_rows, point, shown

BEST = "best centralised model"
ORDINARY = 7
"""The slot of methods that the picture does not name one by one."""


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield one plot of all data sets and two of each."""
    groups = group(rows)
    yield from _overview(groups)
    for dataset, methods in groups.items():
        yield _bars(dataset, methods)
        yield _trade(dataset, methods)


def _overview(groups: Mapping[str, Methods]) -> Iterator[Figure]:
    """Yield what a reader asks first: how good are the few columns, and how good would all of them be?"""
    bars = []
    for dataset, methods in groups.items():
        unit = ScoreUnit.of(all_rows(methods))
        if not {"fedsdg", "all"} <= set(methods) or unit.factor == 1:  # R squared has another axis
            continue
        value, share = unit.score(methods["fedsdg"]), field_summary(methods["fedsdg"], "ratio").mean
        if not value.count:
            continue
        text = f"{unit.text(value)} on {100 * share:.1f} % of the features"
        everything = unit.score(methods["all"])
        mark = everything.mean if everything.count else None
        bars.append(Bar(shown(dataset, methods), value.mean, value.deviation, text, True, mark))
    if len(bars) > 1:
        axis = ScoreUnit.of(()).axis
        caption = f"FedSDG-FS (bars) beside the same model on all features (diamonds). {SPREAD}"
        yield Figure("All data sets", caption, BarChart(axis, tuple(bars), None, "all features", "FedSDG-FS"))


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

    def at(method: str) -> Point:
        share = field_summary(methods[method], "ratio").mean
        return point(100 * share, unit.score(methods[method]))

    named = [name for name in ("fedsdg", "all", "original_gate", "less_vfl") if name in methods]
    series = [Series(label(name), (at(name),), slot, joined=False) for slot, name in enumerate(named)]
    others = tuple(at(name) for name in methods if name not in (*named, CEILING))
    if others:
        series.append(Series("filters and other baselines", others, ORDINARY, joined=False, hollow=True))
    ceiling = unit.score(methods.get(CEILING, ()))
    levels = (Level(BEST, ceiling.mean),) if ceiling.count else ()
    return Figure(
        f"{shown(dataset, methods)}: score against features",
        f"High and to the left is good: accurate with few features. {SPREAD}",
        LineChart(Axis("share of features selected (%, logarithmic)", log=True), unit.axis, tuple(series), levels),
    )

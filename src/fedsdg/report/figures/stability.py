"""Score over numbers of features and over rounds, how fast features go, and how alike selections are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.stability import agreement
from fedsdg.experiments.statistics import Summary, group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.bar_chart import Bar, BarChart
from fedsdg.report.charts.line_chart import LineChart
from fedsdg.report.document import Figure
from fedsdg.report.figures.overlap import STEP
from fedsdg.report.figures.paths import SPREAD_BAND, curves, ends, everywhere
from fedsdg.report.figures.pieces import SPREAD, Methods, ScoreUnit, all_rows, lines, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield up to four plots per data set."""
    for dataset, methods in group(rows).items():
        yield from _of(shown(dataset, methods), methods)


def _of(name: str, methods: Methods) -> Iterator[Figure]:
    test = ScoreUnit.of(all_rows(methods))
    families: dict[str, list[tuple[float, Summary]]] = {}
    paths: dict[str, Sequence[Row]] = {}
    for method, of in methods.items():
        base, _, share = method.rpartition(", ")
        if share == "path":
            paths[base] = of
        else:
            families.setdefault(base, []).append((100 * float(share), test.score(of)))
    if families:
        yield Figure(
            f"{name}: score over numbers of features",
            f"Each method is told how many features to keep. {SPREAD}",
            LineChart(Axis("share of features kept (%)", zero=True), test.axis, lines(families)),
        )
    yield from _over_rounds(name, paths)
    agreed = [(method, agreement(of)) for method, of in methods.items()]
    bars = tuple(
        Bar(method, value, text=f"{value:.2f}", ours=method.startswith("FedSDG-FS"))
        for method, value in agreed
        if value == value
    )
    if bars:
        least = 0.0 if all(bar.value >= 0 for bar in bars) else None  # less alike than by chance: below zero
        yield Figure(
            f"{name}: same columns in different cells",
            "How far different cells select the same columns (Nogueira and others, 2018): 1 if all do, 0 if no more "
            "than draws by lot of as many columns would.",
            BarChart(Axis("agreement (0: by chance, 1: the same columns)", within=(least, 1.0)), bars),
        )


def _over_rounds(name: str, paths: Methods) -> Iterator[Figure]:
    on_test_rows = everywhere(paths, "test")
    unit = ScoreUnit.of(all_rows(paths), "test" if on_test_rows else "validation")
    score = curves(paths, "test" if on_test_rows else "score", unit.factor)
    if score:
        whose = (
            "Test rows, which choose nothing on the way"
            if on_test_rows
            else "Validation rows, which choose what is kept: these are no test scores"
        )
        yield Figure(
            f"{name}: score over rounds",
            f"The model as it is while gates close. {whose}. {ends(paths)}{SPREAD_BAND}",
            LineChart(STEP, unit.axis, score),
        )
    still = curves(paths, "open")
    if still:
        yield Figure(
            f"{name}: open features over rounds",
            f"How fast gates close. {ends(paths)}{SPREAD_BAND}",
            LineChart(STEP, Axis("open features", zero=True), still),
        )

"""Score over numbers of features and over rounds, and how alike the selections of different folds are."""

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
from fedsdg.report.figures.pieces import SPREAD, Methods, ScoreUnit, all_rows, curves, lines, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield three plots per data set."""
    for dataset, methods in group(rows).items():
        yield from _of(shown(dataset, methods), methods)


def _of(name: str, methods: Methods) -> Iterator[Figure]:
    test, validation = (ScoreUnit.of(all_rows(methods), what) for what in ("test", "validation"))
    families: dict[str, list[tuple[float, Summary]]] = {}
    paths = {}
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
    score = curves(paths, "score", validation.factor, lambda entry: entry["open"] > 0)
    if score:
        yield Figure(
            f"{name}: score over rounds",
            "Validation rows, while gates close. Band: standard deviation over cells.",
            LineChart(STEP, validation.axis, score),
        )
    agreed = [(method, agreement(of)) for method, of in methods.items()]
    bars = tuple(
        Bar(method, 100 * value, text=f"{100 * value:.0f}", ours=method.startswith("FedSDG-FS"))
        for method, value in agreed
        if value == value
    )
    if bars:
        yield Figure(
            f"{name}: same columns in different cells",
            "Columns that two cells both selected, of those that either did (mean Jaccard index).",
            BarChart(Axis("agreement (%)", within=(0.0, 100.0)), bars),
        )

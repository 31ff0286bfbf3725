"""Precision against the number of selected features, where the truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import Summary, group
from fedsdg.experiments.tables import field_summary
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import LineChart, Series
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, Methods, family_of, lines, point, shown


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield precision and recall per data set."""
    for dataset, methods in group(rows).items():
        for field, meaning in (
            ("precision", "Share of the selected features that carry the label."),
            ("recall", "Share of the features that carry the label that were selected."),
        ):
            figure = _against_count(dataset, methods, field, meaning)
            if figure is not None:
                yield figure


def _against_count(dataset: str, methods: Methods, field: str, meaning: str) -> Figure | None:
    families: dict[str, list[tuple[float, Summary]]] = {}
    own: list[Series] = []
    for method, rows in methods.items():
        value = _per_cent(field_summary(rows, field))
        if not value.count:
            continue
        family, number = family_of(method)
        count = field_summary(rows, "selected").mean
        if number:
            families.setdefault(family, []).append((count, value))
        elif not method.startswith(("all", "told")):  # these select nothing
            own.append(Series(f"{family}, own number", (point(count, value),), 6 + len(own), joined=False, hollow=True))
    series = (*own, *lines(families))
    if not series:
        return None
    return Figure(
        f"{shown(dataset, methods)}: {field}",
        f"{meaning} {SPREAD}",
        LineChart(
            Axis("selected features (logarithmic)", log=True),
            Axis(f"{field} (%)", zero=True, within=(0.0, 100.0)),
            series,
        ),
    )


def _per_cent(value: Summary) -> Summary:
    return Summary(100 * value.mean, 100 * value.deviation, value.count)

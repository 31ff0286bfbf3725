"""What the figures share: scores in their unit, lines over methods, bars of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import label
from fedsdg.experiments.statistics import Summary, is_regression, metric, summary
from fedsdg.experiments.tables import field_summary, label_of
from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.bar_chart import Bar, BarChart
from fedsdg.report.charts.line_chart import Point, Series
from fedsdg.report.document import Figure

Methods = Mapping[str, Sequence[Row]]
SPREAD = "Error bars: standard deviation over cells."


@dataclass(frozen=True)
class ScoreUnit:
    """Accuracy in per cent, or R squared as it is."""

    axis: Axis
    factor: float

    @classmethod
    def of(cls, rows: Iterable[Row], what: str = "test") -> ScoreUnit:
        """Return the unit of these rows' scores."""
        if is_regression(rows):
            return cls(Axis(f"{what} R²", within=(None, 1.0)), 1.0)
        return cls(Axis(f"{what} accuracy (%)", within=(0.0, 100.0)), 100.0)

    def score(self, rows: Sequence[Row]) -> Summary:
        """Return the score of a method."""
        return self.scaled(summary([metric(row) for row in rows]))

    def scaled(self, value: Summary) -> Summary:
        """Return a share as it is shown."""
        return Summary(self.factor * value.mean, self.factor * value.deviation, value.count)

    def text(self, value: Summary) -> str:
        """Return mean and deviation as they are printed."""
        digits = 3 if self.factor == 1 else 1
        spread = f" ± {value.deviation:.{digits}f}" if value.count > 1 else ""
        return f"{value.mean:.{digits}f}{spread}"


def all_rows(methods: Methods) -> list[Row]:
    """Return the rows of all methods."""
    return [row for rows in methods.values() for row in rows]


def shown(dataset: str, methods: Methods) -> str:
    """Return a data set's name; a surrogate says so."""
    return label_of(dataset, all_rows(methods))


def point(x: float, y: Summary) -> Point:
    """Return a mean with its deviation."""
    return Point(x, y.mean, y.deviation if y.count > 1 else None)


def lines(families: Mapping[str, Sequence[tuple[float, Summary]]]) -> tuple[Series, ...]:
    """Return one line per family, in order of x."""
    return tuple(
        Series(name, tuple(point(x, y) for x, y in sorted(found, key=lambda pair: pair[0])), slot)
        for slot, (name, found) in enumerate(families.items())
        if found
    )


def family_of(method: str) -> tuple[str, str]:
    """Return a method's name without its number, and the number: ``sffs@0.5`` is SFFS and 0.5."""
    base, _, number = method.partition("@")
    return label(base), number


def largest(methods: Methods, field: str) -> float:
    """Return the largest mean of a field, to choose a unit by."""
    found = [field_summary(rows, field) for rows in methods.values()]
    return max((value.mean for value in found if value.count), default=0.0)


def field_bars(
    title: str,
    caption: str,
    axis: Axis,
    methods: Methods,
    field: str,
    *,
    factor: float = 1.0,
    form: str = ",.1f",
    name: Callable[[str], str] = label,
    ours: str = "fedsdg",
) -> Figure | None:
    """Return bars of a field's mean, one per method that has it."""
    bars = []
    for method, rows in methods.items():
        value = field_summary(rows, field)
        if value.count:
            text = format(factor * value.mean, form)
            bars.append(Bar(name(method), factor * value.mean, factor * value.deviation, text, method == ours))
    return Figure(title, caption, BarChart(axis, tuple(bars))) if bars else None


def score_bars(
    title: str, caption: str, methods: Methods, *, name: Callable[[str], str] = label, ours: str = "fedsdg"
) -> Figure | None:
    """Return bars of the test score, one per method."""
    unit = ScoreUnit.of(all_rows(methods))
    bars = []
    for method, rows in methods.items():
        value = unit.score(rows)
        if value.count:
            bars.append(Bar(name(method), value.mean, value.deviation, unit.text(value), method == ours))
    return Figure(title, caption, BarChart(unit.axis, tuple(bars))) if bars else None

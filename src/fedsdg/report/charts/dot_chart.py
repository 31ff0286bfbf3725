"""Several values per line along one axis, each kind on a height of its own: what lies close together stays legible.

Dots need no zero, so the axis begins where the values do and a point of accuracy is a distance that can be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fedsdg.report.charts import legend, svg
from fedsdg.report.charts.axes import Axis, Scale, scale_for, tick_text
from fedsdg.report.charts.palette import shape
from fedsdg.report.document import Table
from fedsdg.report.quantities import plain

WIDTH, LEFT, RIGHT, BELOW = 400.0, 8.0, 14.0, 40.0
#: The height of a line's words, of each kind of value under them, and the room to the next line.
WORDS, EACH, BETWEEN = 17.0, 8.0, 5.0
#: The room between name and text; where there is less, the text has a line of its own.
APART, NAME_FONT, MOST_LETTERS = 8.0, 11.5, 42


@dataclass(frozen=True)
class Dot:
    """A value, how far it may be off, and whose it is where its kind does not say that."""

    value: float
    error: float = 0.0
    whose: str = ""


@dataclass(frozen=True)
class DotLine:
    """One line: its name, what is printed beside it, and a value of every kind that it has."""

    name: str
    text: str
    dots: tuple[Dot | None, ...]

    @property
    def shown_name(self) -> str:
        """The name as it is printed."""
        return svg.shortened(self.name, MOST_LETTERS)

    @property
    def words(self) -> float:
        """The height of name and text."""
        needed = svg.width_of(self.shown_name, NAME_FONT) + APART + svg.width_of(self.text, NAME_FONT)
        return WORDS if LEFT + 3 + needed <= WIDTH - RIGHT else 2 * WORDS - 3

    @property
    def height(self) -> float:
        """The height of all of it, with the room to the next line."""
        return self.words + EACH * len(self.dots) + BETWEEN


@dataclass(frozen=True)
class DotChart:
    """Lines over one axis; `kinds` name what their values are, in the order of `DotLine.dots`."""

    axis: Axis
    kinds: tuple[str, ...]
    lines: tuple[DotLine, ...]

    def svg(self, title: str, description: str, name: str) -> str:
        """See `Chart`."""
        entries = [legend.Entry(kind, slot, joined=False) for slot, kind in enumerate(self.kinds)]
        names, top = legend.rows(entries, WIDTH)
        bottom = top + sum(line.height for line in self.lines)
        across = scale_for(self.axis, list(self._ends()), LEFT, WIDTH - RIGHT)
        body = [*names, *self._frame(across, top, bottom)]
        for line in self.lines:
            body.append(self._line(line, across, top))
            top += line.height
            if line is not self.lines[-1]:
                body.append(svg.line(LEFT, top - 1, WIDTH - RIGHT, top - 1, class_="grid"))
        return svg.drawing(WIDTH, bottom + BELOW, body, title, description, name)

    def numbers(self, title: str) -> Table:
        """See `Chart`."""
        rows = tuple((line.name, *(_told(dot) for dot in line.dots)) for line in self.lines)
        return Table(title, (self.axis.label, *self.kinds), rows)

    def _ends(self) -> Iterator[float]:
        for line in self.lines:
            for dot in line.dots:
                if dot is not None and math.isfinite(dot.value):
                    yield from (dot.value - dot.error, dot.value + dot.error)

    def _frame(self, across: Scale, top: float, bottom: float) -> Iterator[str]:
        for tick in across.ticks():
            x = across.at(tick)
            yield svg.line(x, top, x, bottom, class_="grid")
            yield svg.text(x, bottom + 16, tick_text(tick), class_="tick middle")
        yield svg.line(LEFT, bottom, WIDTH - RIGHT, bottom, class_="axis")
        yield svg.text(WIDTH / 2, bottom + 34, self.axis.label, class_="label middle")

    def _line(self, line: DotLine, across: Scale, top: float) -> str:
        parts = [
            svg.text(LEFT + 3, top + 12, line.shown_name, class_="name ours"),
            svg.text(WIDTH - RIGHT, top + line.words - 5, line.text, class_="name end"),
        ]
        for slot, dot in enumerate(line.dots):
            if dot is not None and math.isfinite(dot.value):
                parts.append(self._dot(line, slot, dot, across, top + line.words + EACH * (slot + 0.5)))
        return svg.element("g", parts)

    def _dot(self, line: DotLine, slot: int, dot: Dot, across: Scale, y: float) -> str:
        parts = [svg.element("title", svg.clean(f"{line.name}, {self.kinds[slot]}: {_told(dot)}"))]
        if dot.error > 0:
            low, high = across.at(dot.value - dot.error), across.at(dot.value + dot.error)
            d = f"M{low:.1f},{y - 2.5:.1f}v5M{low:.1f},{y:.1f}H{high:.1f}M{high:.1f},{y - 2.5:.1f}v5"
            parts.append(svg.element("path", d=d, class_=f"whisker s{slot}"))
        parts.append(svg.element("path", d=shape(slot, across.at(dot.value), y), class_=f"marker s{slot}"))
        return svg.element("g", parts)


def _told(dot: Dot | None) -> str:
    if dot is None:
        return "-"
    spread = f" ± {plain(dot.error, ',.3g')}" if dot.error > 0 else ""
    return f"{plain(dot.value)}{spread}{f' ({dot.whose})' if dot.whose else ''}"

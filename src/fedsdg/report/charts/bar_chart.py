"""Horizontal bars from zero, each under its name, with error bars and marks to compare with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fedsdg.report.charts import legend, svg
from fedsdg.report.charts.axes import Axis, Scale, scale_for, tick_text
from fedsdg.report.charts.palette import shape
from fedsdg.report.document import Table
from fedsdg.report.quantities import plain

WIDTH, ROW, BAR = 400.0, 30.0, 9.0
LEFT, RIGHT, BELOW = 8.0, 14.0, 40.0
#: What a bar gets in addition where name and value need a line each, and the room between them on one line.
SECOND_LINE, BETWEEN = 14.0, 8.0
NAME_FONT = 11.5
#: The slot of a published number.
PUBLISHED = 1
DIAMOND = 2
MOST_LETTERS = 42


@dataclass(frozen=True)
class Bar:
    """A value with its name; `text` is printed beside it, `published` is another's number for the same thing."""

    name: str
    value: float
    error: float = 0.0
    text: str = ""
    ours: bool = False
    published: float | None = None

    @property
    def shown_name(self) -> str:
        """The name as it is printed."""
        return svg.shortened(self.name, MOST_LETTERS)

    @property
    def shown_value(self) -> str:
        """The value as it is printed."""
        return self.text or plain(self.value)

    @property
    def height(self) -> float:
        """How high the bar is with its words: a long name has its line to itself, and the value follows below."""
        needed = svg.width_of(self.shown_name, NAME_FONT) + BETWEEN + svg.width_of(self.shown_value, NAME_FONT)
        return ROW if LEFT + 3 + needed <= WIDTH - RIGHT else ROW + SECOND_LINE


@dataclass(frozen=True)
class BarChart:
    """Bars over one axis; `limit` is a mark across all of them, with its name."""

    axis: Axis
    bars: tuple[Bar, ...]
    limit: tuple[str, float] | None = None
    published_name: str = "the paper's number"
    measured_name: str = "measured here"

    def svg(self, title: str, description: str, name: str) -> str:
        """See `Chart`."""
        names, top = legend.rows(self._legend(), WIDTH)
        bottom = top + sum(bar.height for bar in self.bars)
        values = [0.0] if self.limit is None else [0.0, self.limit[1]]
        for bar in self.bars:
            values += [
                bar.value - bar.error,
                bar.value + bar.error,
                *([] if bar.published is None else [bar.published]),
            ]
        across = scale_for(self.axis, values, LEFT, WIDTH - RIGHT)
        body = [*names, *self._frame(across, top, bottom)]
        for bar in self.bars:
            body.append(self._bar(bar, across, top))
            top += bar.height
        return svg.drawing(WIDTH, bottom + BELOW, body, title, description, name)

    def numbers(self, title: str) -> Table:
        """See `Chart`."""
        published = any(bar.published is not None for bar in self.bars)
        header = ("", self.axis.label, "±", *((self.published_name,) if published else ()))
        rows = [
            (bar.name, plain(bar.value), plain(bar.error, ",.3g"), *self._published(bar, published))
            for bar in self.bars
        ]
        if self.limit is not None:
            rows.append((self.limit[0], plain(self.limit[1]), "", *(("",) if published else ())))
        return Table(title, header, tuple(rows))

    @staticmethod
    def _published(bar: Bar, wanted: bool) -> tuple[str, ...]:
        if not wanted:
            return ()
        return ("-" if bar.published is None else plain(bar.published),)

    def _legend(self) -> list[legend.Entry]:
        entries = []
        if any(bar.published is not None for bar in self.bars):
            entries.append(legend.Entry(self.published_name, PUBLISHED, joined=False, shape=DIAMOND))
        if self.limit is not None:
            entries.append(legend.Entry(self.limit[0], None, upright=True))
        return [legend.Entry(self.measured_name, 0, bar=True), *entries] if entries else []

    def _frame(self, across: Scale, top: float, bottom: float) -> Iterator[str]:
        for tick in across.ticks():
            x = across.at(tick)
            yield svg.line(x, top, x, bottom, class_="grid")
            yield svg.text(x, bottom + 16, tick_text(tick), class_="tick middle")
        zero = across.at(0.0)
        yield svg.line(zero, top, zero, bottom + 4, class_="axis")
        yield svg.text(WIDTH / 2, bottom + 34, self.axis.label, class_="label middle")

    def _bar(self, bar: Bar, across: Scale, top: float) -> str:
        y = top + bar.height - BAR - 2
        middle = y + BAR / 2
        first_line = y - 4 - (bar.height - ROW)
        parts = [
            svg.element("title", svg.clean(f"{bar.name}: {bar.shown_value}")),
            svg.text(LEFT + 3, first_line, bar.shown_name, class_="name" + (" ours" * bar.ours)),
            svg.text(WIDTH - RIGHT, y - 4, bar.shown_value, class_="name end" + (" ours" * bar.ours)),
        ]
        if math.isfinite(bar.value):
            zero, end = across.at(0.0), across.at(bar.value)
            kind = "bar s0" if bar.ours else "bar"
            parts.append(
                svg.element("rect", x=min(zero, end), y=y, width=abs(end - zero), height=BAR, rx=1.5, class_=kind)
            )
            if bar.error > 0:
                low, high = across.at(bar.value - bar.error), across.at(bar.value + bar.error)
                d = f"M{low:.1f},{middle - 3:.1f}v6M{low:.1f},{middle:.1f}H{high:.1f}M{high:.1f},{middle - 3:.1f}v6"
                parts.append(svg.element("path", d=d, class_="whisker over"))
        if self.limit is not None:
            x = across.at(self.limit[1])
            parts.append(svg.line(x, y - 1.5, x, y + BAR + 1.5, class_="limit"))
        if bar.published is not None:
            parts.append(
                svg.element(
                    "path",
                    d=shape(DIAMOND, across.at(bar.published), middle, 3.6),
                    class_=f"marker s{PUBLISHED} ringed",
                )
            )
        return svg.element("g", parts)

"""Lines and points over two axes, with error bars or bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fedsdg.report.charts import legend, svg
from fedsdg.report.charts.axes import Axis, Scale, scale_for, tick_text
from fedsdg.report.charts.palette import DASHES, shape
from fedsdg.report.document import Table
from fedsdg.report.quantities import plain

WIDTH, PLOT_HEIGHT = 400.0, 190.0
RIGHT, BELOW = 14.0, 44.0
MOST_MARKERS = 30
MOST_POINTS = 300

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """A place, and how far the value may be off."""

    x: float
    y: float
    error: float | None = None


@dataclass(frozen=True)
class Series:
    """Points of one kind. `slot` decides colour, dash and shape."""

    name: str
    points: tuple[Point, ...]
    slot: int
    joined: bool = True
    band: bool = False
    """Draw errors as a band: for long lines."""
    hollow: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with."""

    name: str
    y: float


@dataclass(frozen=True)
class Moment:
    """A vertical line where something happens."""

    name: str
    x: float


@dataclass(frozen=True)
class LineChart:
    """Series over two axes; `backdrop` are unnamed lines behind them, `backdrop_name` says what they are."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    moments: tuple[Moment, ...] = ()
    backdrop: tuple[tuple[tuple[float, float], ...], ...] = ()
    backdrop_name: str = ""

    def svg(self, title: str, description: str, name: str) -> str:
        """See `Chart`."""
        names, top = legend.rows(self._legend(), WIDTH)
        top += 20
        bottom = top + PLOT_HEIGHT
        upward = scale_for(self.y, list(self._ys()), bottom, top)
        left = 12 + max((svg.width_of(tick_text(tick), 11) for tick in upward.ticks()), default=0)
        across = scale_for(self.x, list(self._xs()), left + 6, WIDTH - RIGHT - 6)
        body = [*names, *self._frame(across, upward, left, top, bottom)]
        if self.backdrop:
            paths = (svg.polyline((across.at(x), upward.at(y)) for x, y in thinned(one)) for one in self.backdrop)
            body.append(svg.element("path", d="".join(paths), class_="backdrop"))
        for level in self.levels:
            y = upward.at(level.y)
            body.append(svg.line(left, y, WIDTH - RIGHT, y, class_="level"))
        for series in reversed(self.series):  # the first one lies on top
            body += self._draw(series, across, upward)
        return svg.drawing(WIDTH, bottom + BELOW, body, title, description, name)

    def numbers(self, title: str) -> Table:
        """See `Chart`."""
        rows = [
            (series.name, plain(p.x), plain(p.y), "" if p.error is None else plain(p.error, ",.3g"))
            for series in self.series
            for p in thinned(series.points, 60)
        ]
        rows += [(level.name, "everywhere", plain(level.y), "") for level in self.levels]
        return Table(title, ("series", self.x.label, self.y.label, "±"), tuple(rows))

    def _legend(self) -> list[legend.Entry]:
        entries = [legend.Entry(series.name, series.slot, series.joined, series.hollow) for series in self.series]
        entries += [legend.Entry(level.name, None, True) for level in self.levels]
        return entries + ([legend.Entry(self.backdrop_name, None, True, quiet=True)] if self.backdrop else [])

    def _frame(self, across: Scale, upward: Scale, left: float, top: float, bottom: float) -> Iterator[str]:
        yield svg.text(4, top - 11, self.y.label, class_="label")
        for tick in upward.ticks():
            y = upward.at(tick)
            yield svg.line(left, y, WIDTH - RIGHT, y, class_="grid")
            yield svg.text(left - 5, y + 4, tick_text(tick), class_="tick end")
        yield svg.line(left, bottom, WIDTH - RIGHT, bottom, class_="axis")
        for tick in across.ticks():
            x = across.at(tick)
            yield svg.line(x, bottom, x, bottom + 4, class_="axis")
            yield svg.text(x, bottom + 17, tick_text(tick), class_="tick middle")
        yield svg.text((left + WIDTH - RIGHT) / 2, bottom + 36, self.x.label, class_="label middle")
        for moment in self.moments:
            x = across.at(moment.x)
            yield svg.line(x, top, x, bottom, class_="moment")
            late = x > (left + WIDTH) / 2
            yield svg.text(
                x + (-5 if late else 5), top + 11, moment.name, class_="tick note" + (" end" if late else "")
            )

    def _draw(self, series: Series, across: Scale, upward: Scale) -> Iterator[str]:
        points = [p for p in series.points if math.isfinite(p.y) and (p.x > 0 or not across.log)]
        if not points:
            return
        colour = f"s{series.slot}"
        if series.joined and len(points) > 1:
            kept = thinned(points)
            if series.band and any(p.error for p in kept):
                there = [(across.at(p.x), upward.at(p.y + (p.error or 0))) for p in kept]
                back = [(across.at(p.x), upward.at(p.y - (p.error or 0))) for p in reversed(kept)]
                yield svg.element("path", d=svg.polyline([*there, *back]) + "Z", class_=f"band {colour}")
            path = svg.polyline((across.at(p.x), upward.at(p.y)) for p in kept)
            dash = {"stroke_dasharray": DASHES[series.slot]} if DASHES[series.slot] else {}
            yield svg.element("path", d=path, class_=f"line {colour}", **dash)
        if len(points) <= MOST_MARKERS:
            for p in points:
                yield self._marker(series, p, across, upward)

    def _marker(self, series: Series, p: Point, across: Scale, upward: Scale) -> str:
        x, y, colour = across.at(p.x), upward.at(p.y), f"s{series.slot}"
        parts = []
        if p.error and not series.band:
            high, low = upward.at(p.y + p.error), upward.at(p.y - p.error)
            d = f"M{x - 3:.1f},{high:.1f}h6M{x:.1f},{high:.1f}V{low:.1f}M{x - 3:.1f},{low:.1f}h6"
            parts.append(svg.element("path", d=d, class_=f"whisker {colour}"))
        kind = f"marker {colour}" + (" hollow" if series.hollow else "")
        parts.append(svg.element("path", d=shape(series.slot, x, y), class_=kind))
        off = f" ± {plain(p.error, ',.3g')}" if p.error else ""
        told = f"{series.name}: {plain(p.y)}{off} ({self.x.label} {plain(p.x)})"
        return svg.element("g", [svg.element("title", svg.clean(told)), *parts])

    def _xs(self) -> Iterator[float]:
        for series in self.series:
            yield from (p.x for p in series.points if math.isfinite(p.y))
        yield from (moment.x for moment in self.moments)
        for one in self.backdrop:
            yield from (x for x, _ in one)

    def _ys(self) -> Iterator[float]:
        for series in self.series:
            for p in series.points:
                yield p.y - (p.error or 0)
                yield p.y + (p.error or 0)
        yield from (level.y for level in self.levels)
        for one in self.backdrop:
            yield from (y for _, y in one)


def thinned(points: Sequence[T], most: int = MOST_POINTS) -> Sequence[T]:
    """Return at most so many points, the first and the last among them."""
    if len(points) <= most:
        return points
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]

"""The names of what is drawn, above the plot, in as many rows as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedsdg.report.charts import svg
from fedsdg.report.charts.palette import DASHES, shape

SAMPLE, ROW, FONT = 26.0, 18.0, 11.5
MOST_LETTERS = 46


@dataclass(frozen=True)
class Entry:
    """A name and how its sample looks; slot None: a line to compare with (quiet: a line of the backdrop)."""

    name: str
    slot: int | None
    joined: bool = True
    hollow: bool = False
    quiet: bool = False
    bar: bool = False
    upright: bool = False
    shape: int | None = None
    """The slot of its marker's shape, where that is not the colour's."""


def rows(entries: Sequence[Entry], width: float) -> tuple[list[str], float]:
    """Return the elements of a legend and how high it is."""
    if len(entries) < 2 and not any(entry.slot is None for entry in entries):
        return [], 6.0
    parts: list[str] = []
    x, y = 4.0, 14.0
    for entry in entries:
        name = svg.shortened(entry.name, MOST_LETTERS)
        needed = SAMPLE + svg.width_of(name, FONT) + 16
        if x > 4 and x + needed > width:
            x, y = 4.0, y + ROW
        parts += [*_sample(entry, x, y - 4), svg.text(x + SAMPLE, y, name, class_="legend")]
        x += needed
    return parts, y + 10


def _sample(entry: Entry, x: float, y: float) -> list[str]:
    if entry.upright:
        return [svg.line(x + 12, y - 6, x + 12, y + 6, class_="limit")]
    if entry.slot is None:
        return [svg.line(x, y, x + 20, y, class_="backdrop" if entry.quiet else "level")]
    colour = f"s{entry.slot}"
    if entry.bar:
        return [svg.element("rect", x=x + 3, y=y - 5, width=15, height=10, rx=2, class_=f"bar {colour}")]
    parts = []
    if entry.joined:
        dash = {"stroke_dasharray": DASHES[entry.slot]} if DASHES[entry.slot] else {}
        parts.append(svg.line(x, y, x + 20, y, class_=f"line {colour}", **dash))
    kind = f"marker {colour}" + (" hollow" if entry.hollow else "")
    return [
        *parts,
        svg.element("path", d=shape(entry.slot if entry.shape is None else entry.shape, x + 10, y), class_=kind),
    ]

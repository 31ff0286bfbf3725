"""Recorded paths as curves over steps: every point is a mean over the same cells.

A path ends before the others where every gate has closed. Were it left out from there on, the mean would be one of the
cells that survive, and would rise at the very step at which a cell is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import summary
from fedsdg.report.charts.line_chart import Series
from fedsdg.report.figures.pieces import Methods, point

SPREAD_BAND = "Band: standard deviation over cells."


@dataclass(frozen=True)
class Walk:
    """One field along the path of one cell."""

    values: dict[float, float]
    ended: tuple[float, float] | None
    """The step at which the last gate closed, and the value that stays: no gate opens again."""

    @classmethod
    def of(cls, row: Row, field: str, factor: float) -> Walk:
        """Read a field from a row's path."""
        curve = row.get("curve") or []
        values = {float(e["step"]): factor * float(e[field]) for e in curve if e.get(field) is not None}
        last = float(curve[-1]["step"]) if curve and every_gate_closed(row) else None
        return cls(values, None if last is None or last not in values else (last, values[last]))

    def at(self, step: float) -> float | None:
        """Return the value at a step; None where the path has none."""
        if self.ended is not None and step > self.ended[0]:
            return self.ended[1]
        return self.values.get(step)


def curves(methods: Methods, field: str, factor: float = 1.0) -> tuple[Series, ...]:
    """Return the mean of a field by step, one line per method, with its spread as a band.

    A step is drawn if all cells that ever have the field have it there.
    """
    found = []
    for slot, (method, rows) in enumerate(methods.items()):
        walks = [walk for walk in (Walk.of(row, field, factor) for row in rows) if walk.values]
        points = []
        for step in sorted({step for walk in walks for step in walk.values}):
            values = [value for value in (walk.at(step) for walk in walks) if value is not None]
            if len(values) == len(walks):
                points.append(point(step, summary(values)))
        found.append(Series(method, tuple(points), slot, band=True))
    return tuple(series for series in found if series.points)


def everywhere(methods: Methods, field: str) -> bool:
    """Return whether every entry of every path has a field: half a curve of one kind would be compared with another."""
    entries = [entry for rows in methods.values() for row in rows for entry in row.get("curve") or ()]
    return bool(entries) and all(entry.get(field) is not None for entry in entries)


def every_gate_closed(row: Row) -> bool:
    """Return whether a path ended with nothing open."""
    curve = row.get("curve") or []
    return bool(curve) and float(curve[-1]["open"]) == 0


def ends(methods: Methods) -> str:
    """Say in how many cells every gate closed, and what the curve does with them; nothing if there are none."""
    counts = []
    for method, rows in methods.items():
        walked = [row for row in rows if row.get("curve")]
        closed = sum(map(every_gate_closed, walked))
        if closed:
            counts.append(f"{closed} of {len(walked)} cells ({method})")
    if not counts:
        return ""
    return f"Every gate closed in {', '.join(counts)}, which from then on stay at their last value. "

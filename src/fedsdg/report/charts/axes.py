"""Axes: from values to places, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedsdg.report.quantities import plain

#: What lies below this on a logarithmic axis is drawn at its edge.
SMALLEST = 1e-9
#: A spread that is smaller than this share of the values is rounding, and no reason for an axis of its own.
FLAT = 1e-12


@dataclass(frozen=True)
class Axis:
    """What an axis shows, with its unit; `within` are limits that no value can leave (0 and 100 of a percentage)."""

    label: str
    log: bool = False
    zero: bool = False
    """Whether it must begin at zero."""
    within: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Scale:
    """An axis laid over some pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value; what lies outside is drawn at the edge."""
        low, high, value = (self._bent(v) for v in (self.low, self.high, min(max(value, self.low), self.high)))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def _bent(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self, about: int = 5) -> list[float]:
        """Return round numbers along the axis."""
        return _log_ticks(self.low, self.high, about) if self.log else _linear_ticks(self.low, self.high, about)


def scale_for(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    """Return a scale that has room for all values."""
    known = [value for value in values if math.isfinite(value) and (value > SMALLEST or not axis.log)]
    low, high = (min(known), max(known)) if known else (1.0, 2.0)
    if axis.log:
        if low == high:
            low, high = low / 2, high * 2
        margin = (high / low) ** 0.03
        return Scale(low / margin, high * margin, start, end, log=True)
    if axis.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= FLAT * max(abs(low), abs(high), SMALLEST):
        room = abs(low) / 2 if abs(low) > SMALLEST else 0.5
        low, high = low - room, high + room
    margin = 0.06 * (high - low)
    low = low if axis.zero and low == 0 else low - margin
    high = high if axis.zero and high == 0 else high + margin
    least, most = axis.within
    low = low if least is None else max(low, least)
    high = high if most is None else min(high, most)
    return Scale(low, high if high > low else low + 1, start, end)


def tick_text(value: float) -> str:
    """Return the label of a tick."""
    if value == 0:
        return "0"
    for factor, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            return f"{plain(value / (1e3 if sign == 'k' else factor))}{sign}"
    return plain(value)


def _linear_ticks(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _log_ticks(low: float, high: float, about: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7)):
        found = [factor * 10.0**power for power in decades for factor in factors]
        found = [value for value in found if low <= value <= high]
        if len(found) >= min(3, about):
            break
    else:
        return _linear_ticks(low, high, about)
    return found[:: max(1, math.ceil(len(found) / (about + 1)))]

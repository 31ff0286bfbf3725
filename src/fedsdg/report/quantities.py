"""Bytes and seconds in words and in units that fit an axis."""

from __future__ import annotations


def size(count: float) -> str:
    """Return bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def byte_unit(most: float) -> tuple[float, str]:
    """Return how many bytes make one unit of an axis that ends at `most` bytes, and its name."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if most >= factor:
            return factor, unit
    return 1.0, "B"


def time_unit(most: float) -> tuple[float, str]:
    """Return how many seconds make one unit of an axis that ends at `most` seconds, and its name."""
    if most >= 7200:
        return 3600.0, "h"
    return (60.0, "min") if most >= 180 else (1.0, "s")


def plain(value: float, form: str = ",.4g") -> str:
    """Return a number without a needless exponent or trailing zeros."""
    if value != value:
        return "-"
    text = format(value, form)
    return f"{value:,.0f}" if "e+" in text else text

"""The texts of a category: how a cell becomes one, and in which order they stand.

A level is Unicode NFC without surrounding white space, so that two spellings of one text are one level. Numbers are
written without a needless `.0`. Levels that are numbers come first, by size (2 before 10); the others follow by text.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

LevelOrder = tuple[int, float, str]


def level_text(text: str) -> str:
    """Return a text as a level; empty if nothing is left of it."""
    return unicodedata.normalize("NFC", text).strip()


def number_text(value: float) -> str:
    """Return a number as a level."""
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**63 else repr(value)


def level_order(level: str) -> LevelOrder:
    """Return the key that levels are sorted by."""
    try:
        number = float(level)
    except ValueError:
        number = math.nan
    return (0, number, level) if math.isfinite(number) else (1, 0.0, level)


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Return the levels sorted."""
    return tuple(sorted(levels, key=level_order))


def are_in_order(levels: Sequence[str]) -> bool:
    """Return whether the levels stand in sorted order; another order was chosen by somebody."""
    keys = [level_order(level) for level in levels]
    return keys == sorted(keys)

"""Words for complaints about tables: counts, types and names, never a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl


def count_cells(count: int, adjective: str) -> str:
    """Return `3 empty cells`."""
    return f"{count} {adjective} cell{'s' if count > 1 else ''}"


def repeated_name(names: Sequence[str]) -> str | None:
    """Return a name that occurs twice, if any does."""
    return min((name for name, count in Counter(names).items() if count > 1), default=None)


def some(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def type_name(kind: pl.DataType) -> str:
    """Return what a column holds."""
    return "dates or times" if kind.is_temporal() else f"values of type {kind}"


def cause(problem: Exception) -> str:
    """Return why a file cannot be read, without quoting it: its cells are somebody's data."""
    text = str(problem).splitlines()[0].lower() if str(problem) else ""
    if isinstance(problem, pl.exceptions.NoDataError):
        return "the file is empty"
    if "utf-8" in text:
        return "it is not UTF-8 text; save it as UTF-8"
    if "more fields" in text:
        return "a line has more fields than the header"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return "a line is malformed; look for quotation marks that are not closed"

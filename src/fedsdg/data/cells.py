"""Cells of a raw column as numbers: parsed text, dates as days, levels as codes. NaN is a cell without a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsdg.data.levels import number_text

FloatColumn = NDArray[np.float64]

#: What people write into a column of numbers where they have none.
NO_NUMBER = ("NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "none", "-", "?", ".")
EPOCH, DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)


def clean_text(column: pl.Series) -> pl.Series:
    """Return texts in one form (see `levels`); those with nothing in them are missing."""
    text = column.cast(pl.String).str.normalize("NFC").str.strip_chars()
    return text.set(text == "", None)


def written_out(column: pl.Series) -> pl.Series:
    """Return numbers, truth values and dates as text."""
    if not column.dtype.is_float():
        return column.cast(pl.String)
    different = column.drop_nulls().drop_nans().unique()
    texts = [number_text(value) for value in different.cast(pl.Float64).to_list()]
    return column.fill_nan(None).replace_strict(different, texts, return_dtype=pl.String)


def typed_text(column: pl.Series) -> pl.Series:
    """Return the cells of a text file by what they look like: whole numbers, numbers, true and false, or text."""
    for kind in (pl.Int64, pl.Float64):
        found = column.cast(kind, strict=False)
        if found.null_count() == column.null_count():
            return found
    return column == "true" if column.is_in(("true", "false")).all() else column


def numbers(column: pl.Series) -> FloatColumn:
    """Return numbers and truth values as floating-point numbers."""
    return _array(column.cast(pl.Float64))


def all_numbers(column: pl.Series) -> FloatColumn | None:
    """Return the numbers of a text column in which every cell is a number or empty, and some are not empty."""
    found = column.cast(pl.Float64, strict=False)
    return _array(found) if found.null_count() == column.null_count() < len(column) else None


def parsed_numbers(column: pl.Series) -> tuple[FloatColumn, int]:
    """Return the numbers or truth values of a text column, and how many cells are neither; `NA` etc. are missing."""
    found = column.cast(pl.Float64, strict=False)
    unknown = int((column.is_not_null() & found.is_null() & ~column.is_in(NO_NUMBER)).sum())
    lower = column.str.to_lowercase()
    if unknown and lower.drop_nulls().is_in(("true", "false")).all():
        return _array((lower == "true").cast(pl.Float64)), 0
    return _array(found), unknown


def parsed_dates(column: pl.Series, form: str | None) -> tuple[FloatColumn, int]:
    """Return the dates of a text column as days, and how many cells are none."""

    def days(text: str) -> float:
        try:
            found = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
        except ValueError:
            return np.nan
        return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH) / DAY

    found = _by_level(column, days)
    return found, int((np.isnan(found) & column.is_not_null().to_numpy()).sum())


def days(column: pl.Series) -> FloatColumn:
    """Return dates and times as days since 1970 (UTC), durations and times of day as days."""
    if column.dtype == pl.Date:
        return _array(column.to_physical().cast(pl.Float64))
    if column.dtype == pl.Time:
        return _array(column.to_physical().cast(pl.Float64)) / (DAY.total_seconds() * 1e9)
    if column.dtype == pl.Duration:
        return _array(column.dt.total_microseconds().cast(pl.Float64)) / (DAY.total_seconds() * 1e6)
    return _array(column.dt.epoch("us").cast(pl.Float64)) / (DAY.total_seconds() * 1e6)


def codes(column: pl.Series, levels: Sequence[str]) -> FloatColumn:
    """Return the position of every text in the levels; all of them are there."""
    return _array(column.cast(pl.Enum(levels)).to_physical().cast(pl.Float64))


def _by_level(column: pl.Series, function: Callable[[str], float]) -> FloatColumn:
    """Apply a function to every different text once."""
    levels = column.drop_nulls().unique()
    values = pl.Series([function(level) for level in levels.to_list()], dtype=pl.Float64)
    return _array(column.replace_strict(levels, values, return_dtype=pl.Float64).cast(pl.Float64))


def _array(column: pl.Series) -> FloatColumn:
    return np.array(column.to_numpy(), dtype=np.float64)

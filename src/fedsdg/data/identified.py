"""Rows with the ids that their owner knows them by."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.wording import count_cells, type_name
from fedsdg.errors import DataError
from fedsdg.party_source import ColumnPin

#: Row numbers that a complaint names.
SHOWN = 5


@dataclass(frozen=True)
class ReadColumn:
    """How one column was read."""

    name: str
    pin: ColumnPin
    """Its kind. Given back as the schema, it makes new rows be read alike, whatever could be inferred from them."""
    pinned: bool
    """The kind was said in the schema, not inferred."""
    missing: int
    """Cells without a value."""
    note: str | None = None


@dataclass(frozen=True, eq=False)
class IdentifiedTable:
    """A table with one id per row."""

    ids: tuple[str, ...]
    table: FeatureTable
    read: tuple[ReadColumn, ...] = ()
    """How every column was read, also those that were left out of the table."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What their owner should know about the columns."""
        return tuple(f"column {column.name!r}: {column.note}" for column in self.read if column.note)

    @property
    def pins(self) -> dict[str, ColumnPin]:
        """The schema that reads new rows as these were read."""
        return {column.name: column.pin for column in self.read}


@dataclass(frozen=True, eq=False)
class IdentifiedLabels:
    """Labels with one id per row."""

    ids: tuple[str, ...]
    labels: NDArray[np.generic]


def row_numbers(rows: int) -> tuple[str, ...]:
    """Return ids for rows that are known by their position only."""
    return tuple(str(row) for row in range(rows))


def ids_of(column: pl.Series, where: str) -> tuple[str, ...]:
    """Return an id column as text, one form for one id; ids must be present and unique."""
    if column.dtype.is_float():
        if column.is_nan().any() or column.is_infinite().any():
            raise DataError(f"{where} has empty or infinite cells.")
        if (column.drop_nulls().floor() == column.drop_nulls()).all() and fits_int64(column):
            column = column.cast(pl.Int64)
    try:
        texts = column.cast(pl.String).to_list()
    except pl.exceptions.PolarsError:
        raise DataError(f"{where} holds {type_name(column.dtype)}; use text or whole numbers.") from None
    keys = [None if text is None else unicodedata.normalize("NFC", text).strip() for text in texts]
    empty = [row for row, key in enumerate(keys) if not key]
    if empty:
        raise DataError(f"{where} has {count_cells(len(empty), 'empty')} ({_rows(empty)}).")
    first: dict[str | None, int] = {}
    repeated = [row for row, key in enumerate(keys) if first.setdefault(key, row) != row]
    if repeated:
        raise DataError(
            f"{where}: {len(repeated)} of {len(keys)} ids repeat another ({_rows(repeated)}); each row needs an id of "
            "its own."
        )
    return tuple(key for key in keys if key is not None)


def fits_int64(column: pl.Series) -> bool:
    """Return whether whole numbers survive as 64-bit integers."""
    return bool((column.cast(pl.Float64).abs() < 2.0**62).all())


def _rows(rows: list[int]) -> str:
    """Name rows, counted from 1 below the header."""
    shown = ", ".join(str(row + 1) for row in rows[:SHOWN])
    return f"row{'s' if len(rows) > 1 else ''} {shown}{', ...' if len(rows) > SHOWN else ''}"

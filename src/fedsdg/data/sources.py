"""A party's rows from its source, checked before any work starts.

==========================  ========================================================================================
in the source               treatment
==========================  ========================================================================================
ids                         text as written (`007` and `7` are two ids), in Unicode NFC, without white space around
                            it; whole floating-point numbers lose their `.0`; empty and repeated ids are refused
lines without anything      left out (text files)
empty cells, null, NaN      missing
a column's kind             pinned by the schema, or inferred: see `column_kinds`
labels                      numbers, true and false, or text (classes); none may be missing
==========================  ========================================================================================

Complaints name files, columns and row numbers. They never quote an id or a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsdg.data.column_kinds import LARGEST, read_column
from fedsdg.data.database import read_query
from fedsdg.data.feature_table import FeatureTable, Kind
from fedsdg.data.files import Choose, read_file
from fedsdg.data.frames import from_frame
from fedsdg.data.identified import (
    IdentifiedLabels,
    IdentifiedTable,
    ReadColumn,
    fits_int64,
    ids_of,
    row_numbers,
)
from fedsdg.data.wording import count_cells, some, type_name
from fedsdg.errors import ConfigError, DataError
from fedsdg.party_source import ClientSource, ColumnPin, LabelSource, PartySource

__all__ = ["IdentifiedLabels", "IdentifiedTable", "read_labels", "read_party"]


def read_party(source: ClientSource, owner: str, frame: Any | None = None) -> IdentifiedTable:
    """Read a client's rows from its file or its database; a frame that is passed takes their place."""
    taken = {source.id} if source.id is not None else set()

    def choose(names: Sequence[str]) -> list[str]:
        _require(taken, names, owner, "id column")
        return [*taken, *_features(source.columns, source.pins, names, taken, owner)]

    rows = _read(source, owner, frame, choose)
    ids, rest = _split_ids(rows, source, owner, _what(source, frame))
    return identified_table(ids, rest, source.pins, owner)


def read_labels(
    source: LabelSource, owner: str, frame: Any | None = None
) -> tuple[IdentifiedLabels, IdentifiedTable | None]:
    """Read the label owner's labels, and the columns of its own that it brings along."""
    identity = {source.id} if source.id is not None else set()
    brings = source.columns != "none"

    def choose(names: Sequence[str]) -> list[str]:
        _require(identity, names, owner, "id column")
        _require({source.target}, names, owner, "label column")
        taken = identity | {source.target}
        own = _features(source.columns, source.pins, names, taken, owner) if brings else []
        return [*identity, source.target, *own]

    rows = _read(source, owner, frame, choose)
    ids, rest = _split_ids(rows, source, owner, _what(source, frame))
    labels = IdentifiedLabels(ids, label_values(rest, source.target, owner))
    own = identified_table(ids, rest.drop(source.target), source.pins, owner) if brings else None
    return labels, own


def read_as_written(source: PartySource, owner: str, frame: Any | None = None) -> tuple[tuple[str, ...], pl.DataFrame]:
    """Read a party's rows with all their columns, nothing interpreted but the ids."""
    rows = _read(source, owner, frame, list)
    return _split_ids(rows, source, owner, _what(source, frame))[0], rows


def identified_table(
    ids: tuple[str, ...], frame: pl.DataFrame, pins: dict[str, ColumnPin], owner: str
) -> IdentifiedTable:
    """Turn raw columns into a table, and keep how each was read."""
    read: list[ReadColumn] = []
    names: list[str] = []
    kinds: list[Kind] = []
    levels: dict[str, tuple[str, ...]] = {}
    values = np.empty((frame.height, frame.width))
    for name in frame.columns:
        column = read_column(frame[name], pins.get(name), f"{owner}: column {name!r}")
        missing = frame[name].null_count() if column.values is None else int(np.isnan(column.values).sum())
        note = column.note or ("empty" if missing == frame.height else None)
        read.append(ReadColumn(name, column.pin, name in pins, missing, note))
        if column.values is None:
            continue
        values[:, len(names)] = column.values
        names.append(name)
        kinds.append(column.kind)
        if column.kind != "number":
            levels[name] = column.levels
    if not names:
        raise DataError(f"{owner}: there are no columns besides the id that can be used; a client needs at least one.")
    if len(names) < frame.width:
        values = values[:, : len(names)].copy()
    return IdentifiedTable(ids, FeatureTable(tuple(names), values, tuple(kinds), levels), tuple(read))


def label_values(frame: pl.DataFrame, target: str, owner: str) -> NDArray[np.generic]:
    """Return the labels: numbers, or text for classes."""
    column, where = frame[target], f"{owner}: the label column {target!r}"
    empty = column.null_count()
    if empty:
        raise DataError(f"{where} has {count_cells(empty, 'empty')}.")
    if isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        return np.asarray(column.cast(pl.String).to_list())
    if column.dtype == pl.Boolean:
        return np.asarray(column.cast(pl.Int64).to_numpy())
    if not column.dtype.is_numeric():
        raise DataError(f"{where} holds {type_name(column.dtype)}; give numbers or class names.")
    if column.dtype.is_integer() and fits_int64(column):
        return np.asarray(column.cast(pl.Int64).to_numpy())
    numbers = column.cast(pl.Float64)
    broken = int((~numbers.is_finite()).sum())
    if broken:
        raise DataError(f"{where} has {count_cells(broken, 'NaN or infinite')}. Fill them in, or leave the rows out.")
    huge = int((numbers.abs() > LARGEST).sum())
    if huge:
        raise DataError(f"{where} has {count_cells(huge, f'huge (beyond {LARGEST:.0e})')}. Rescale them.")
    return np.asarray(numbers.to_numpy())


def _read(source: PartySource, owner: str, frame: Any | None, choose: Choose) -> pl.DataFrame:
    if frame is not None:
        rows = from_frame(frame, owner, choose, source.id)
    elif source.table is not None:
        rows = read_file(source.table, owner, choose, [source.target] if isinstance(source, LabelSource) else [])
    elif source.database is not None and source.query is not None:
        rows = read_query(source.database.get_secret_value(), source.query, owner, choose)
    else:
        raise ConfigError(
            f"{owner}: there is no source of rows; name a table, or a database and a query, or pass a frame in Python."
        )
    if rows.height == 0:
        raise DataError(f"{owner}: {_what(source, frame)} has no rows.")
    return rows


def _features(
    columns: str | tuple[str, ...],
    pins: dict[str, ColumnPin],
    names: Sequence[str],
    taken: set[str],
    owner: str,
) -> list[str]:
    chosen = [name for name in names if name not in taken] if isinstance(columns, str) else list(columns)
    _require(chosen, names, owner, "column")
    unknown = [name for name in pins if name not in names]
    if unknown:
        raise DataError(
            f"{owner}: the schema names a column {unknown[0]!r} that is not there. There are: {some(names)}."
        )
    if not chosen:
        raise DataError(f"{owner}: there are no columns besides the id; a client needs at least one.")
    return chosen


def _require(wanted: Sequence[str] | set[str], names: Sequence[str], owner: str, role: str) -> None:
    there = set(names)
    missing = [name for name in wanted if name not in there]
    if missing:
        raise DataError(f"{owner}: there is no {role} {missing[0]!r}. There are: {some(names)}.")


def _split_ids(rows: pl.DataFrame, source: PartySource, owner: str, what: str) -> tuple[tuple[str, ...], pl.DataFrame]:
    if source.id is None:
        return row_numbers(rows.height), rows
    ids = ids_of(rows[source.id], f"{owner}: the id column {source.id!r} of {what}")
    return ids, rows.drop(source.id)


def _what(source: PartySource, frame: Any | None) -> str:
    if frame is not None:
        return "the frame"
    return source.table.name if source.table is not None else "the query"

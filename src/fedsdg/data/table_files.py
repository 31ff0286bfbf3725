"""A party's table from a CSV or Parquet file: an id column and numeric columns, checked before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import DataError

ColumnChoice = Literal["all"] | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class IdentifiedTable:
    """Numeric columns with one id per row."""

    ids: tuple[str, ...]
    table: FeatureTable

    def in_order_of(self, ids: Sequence[str], owner: str) -> FeatureTable:
        """Return the rows in the order of these ids; both sides must hold the same ones."""
        if tuple(ids) == self.ids:
            return self.table
        position = {key: row for row, key in enumerate(self.ids)}
        missing = sum(key not in position for key in ids)
        surplus = len(self.ids) - (len(ids) - missing)
        if missing or surplus:
            raise DataError(
                f"{owner}: the ids do not match the label owner's: {missing} are missing here and {surplus} are not "
                "known there. Give both parties the same people."
            )
        return self.table.take([position[key] for key in ids])


def read_frame(path: Path, id_column: str, owner: str) -> tuple[tuple[str, ...], pl.DataFrame]:
    """Read a file and split off its ids, as text; ids must be present and unique."""
    if not path.is_file():
        raise DataError(f"{owner}: there is no file {path}.")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pl.read_parquet(path)
        elif path.suffix.lower() in (".csv", ".txt", ".tsv"):
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
            frame = pl.read_csv(path, separator=separator, infer_schema_length=None)
        else:
            raise DataError(f"{owner}: {path.name} is neither .csv, .tsv nor .parquet.")
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise DataError(f"{owner}: {path.name} cannot be read: {str(problem).splitlines()[0]}") from None
    if frame.height == 0:
        raise DataError(f"{owner}: {path.name} has no rows.")
    if id_column not in frame.columns:
        raise DataError(f"{owner}: {path.name} has no column {id_column!r}. It has: {_some(frame.columns)}.")
    if frame[id_column].null_count():
        raise DataError(f"{owner}: the id column {id_column!r} of {path.name} has empty cells.")
    ids = tuple(frame[id_column].cast(pl.String).to_list())
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise DataError(f"{owner}: {repeated} ids of {path.name} are repeated; each row needs an id of its own.")
    return ids, frame.drop(id_column)


def numeric_table(frame: pl.DataFrame, columns: ColumnChoice, owner: str) -> FeatureTable:
    """Return the chosen columns as numbers; text, dates and empty cells are refused by name."""
    names = tuple(frame.columns) if columns == "all" else columns
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        raise DataError(f"{owner}: there is no column {unknown[0]!r}. There are: {_some(frame.columns)}.")
    if not names:
        raise DataError(f"{owner}: no columns besides the id.")
    for name in names:
        kind = frame.schema[name]
        if not (kind.is_numeric() or kind == pl.Boolean):
            raise DataError(
                f"{owner}: column {name!r} holds {kind}, not numbers. Encode it as numbers, or leave it out with "
                "the setting `columns`."
            )
        empty = frame[name].null_count()
        if empty:
            raise DataError(f"{owner}: column {name!r} has {empty} empty cells. Fill them in, or leave the column out.")
    return FeatureTable.of(frame.select(names).cast(pl.Float64).to_numpy(), names, owner)


def label_values(frame: pl.DataFrame, target: str, owner: str) -> NDArray[np.generic]:
    """Return the labels: numbers, or text for classes."""
    if target not in frame.columns:
        raise DataError(f"{owner}: there is no label column {target!r}. There are: {_some(frame.columns)}.")
    column = frame[target]
    if column.null_count():
        raise DataError(f"{owner}: the label column {target!r} has {column.null_count()} empty cells.")
    if column.dtype in (pl.String, pl.Categorical):
        return np.asarray(column.cast(pl.String).to_list())
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DataError(f"{owner}: labels of type {column.dtype} cannot be used; give numbers or class names.")
    return np.asarray(column.cast(pl.Int64).to_numpy() if column.dtype == pl.Boolean else column.to_numpy())


def _some(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")

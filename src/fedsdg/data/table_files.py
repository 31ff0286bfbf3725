"""A party's table from a CSV or Parquet file: an id column and numeric columns, checked before any work starts.

==========================  ========================================================================================
in the file                 treatment
==========================  ========================================================================================
ids                         text, as written: `007` and `7` are two ids; whole floating-point numbers lose their `.0`
entirely empty CSV lines    left out
numbers, true and false     used; huge numbers (beyond +-1e100) are refused
a constant column           used; it says nothing, and the penalty closes its gate
text, dates, empty cells    refused by column name
NaN and infinite cells      refused by column name
labels                      numbers, true and false, or text (classes)
==========================  ========================================================================================

Complaints name files, columns and numbers of rows. They never quote an id or a cell.
"""

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
PARQUET = (".parquet", ".pq")
SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t"}
#: Larger magnitudes could overflow when the spread of a column is computed.
LARGEST = 1e100


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
                f"{owner}: the ids do not match the label owner's: of {len(ids)} ids there {missing} are missing here, "
                f"and {surplus} of {len(self.ids)} ids here are not known there. Give both parties the same people."
            )
        return self.table.take([position[key] for key in ids])


def read_frame(path: Path, id_column: str, owner: str) -> tuple[tuple[str, ...], pl.DataFrame]:
    """Read a file and split off its ids, as text; ids must be present and unique."""
    kind = path.suffix.lower()
    if path.is_dir():
        raise DataError(f"{owner}: {path} is a folder, not a table.")
    if not path.is_file():
        raise DataError(f"{owner}: there is no file {path}.")
    if kind not in (*PARQUET, *SEPARATORS):
        raise DataError(f"{owner}: {path.name} is neither .csv, .tsv nor .parquet.")
    try:
        frame = pl.read_parquet(path) if kind in PARQUET else _read_csv(path, SEPARATORS[kind], id_column, owner)
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise DataError(f"{owner}: {path.name} cannot be read: {_cause(problem)}.") from None
    if id_column not in frame.columns:
        raise DataError(
            f"{owner}: {path.name} has no id column {id_column!r}. It has: {_some(frame.columns)}."
            f"{_separator_hint(frame)}"
        )
    if frame.height == 0:
        raise DataError(f"{owner}: {path.name} has no rows.")
    return _ids(frame[id_column], f"{owner}: the id column {id_column!r} of {path.name}"), frame.drop(id_column)


def numeric_table(frame: pl.DataFrame, columns: ColumnChoice, owner: str) -> FeatureTable:
    """Return the chosen columns as numbers; text, dates and empty cells are refused by name."""
    names = tuple(frame.columns) if columns == "all" else columns
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        raise DataError(f"{owner}: there is no column {unknown[0]!r}. There are: {_some(frame.columns)}.")
    if not names:
        raise DataError(f"{owner}: there are no columns besides the id; a client needs at least one.")
    if len(set(names)) != len(names):
        raise DataError(f"{owner}: a column is listed twice.")
    for name in names:
        _check_numeric(frame[name], f"{owner}: column {name!r}")
    if frame.height < 2:
        raise DataError(f"{owner}: {frame.height} row cannot be learned from; at least 2 are needed.")
    return FeatureTable.of(frame.select(pl.col(names).cast(pl.Float64)).to_numpy(), names, owner)


def label_values(frame: pl.DataFrame, target: str, owner: str) -> NDArray[np.generic]:
    """Return the labels: numbers, or text for classes."""
    if target not in frame.columns:
        raise DataError(f"{owner}: there is no label column {target!r}. There are: {_some(frame.columns)}.")
    column, where = frame[target], f"{owner}: the label column {target!r}"
    empty = column.null_count()
    if empty:
        raise DataError(f"{where} has {_cells(empty, 'empty')}.")
    if isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        return np.asarray(column.cast(pl.String).to_list())
    if column.dtype == pl.Boolean:
        return np.asarray(column.cast(pl.Int64).to_numpy())
    if not column.dtype.is_numeric():
        raise DataError(f"{where} holds {_kind(column.dtype)}; give numbers or class names.")
    if column.dtype.is_integer() and _fits_int64(column):
        return np.asarray(column.cast(pl.Int64).to_numpy())
    numbers = column.cast(pl.Float64)
    _check_finite(numbers, where)
    return np.asarray(numbers.to_numpy())


def _read_csv(path: Path, separator: str, id_column: str, owner: str) -> pl.DataFrame:
    """Read text; ids are kept as they are written, and names may not repeat."""
    first = pl.read_csv(path, separator=separator, has_header=False, n_rows=1, infer_schema=False)
    header = [name or "" for name in first.row(0)]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise DataError(f"{owner}: {path.name} has several columns {repeated[0]!r}; every column needs its own name.")
    as_text = {id_column: pl.String} if id_column in header else None
    frame = pl.read_csv(path, separator=separator, infer_schema_length=None, schema_overrides=as_text)
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def _ids(column: pl.Series, where: str) -> tuple[str, ...]:
    if column.dtype.is_float():
        if column.is_nan().any() or column.is_infinite().any():
            raise DataError(f"{where} has empty or infinite cells.")
        if (column.drop_nulls().floor() == column.drop_nulls()).all() and _fits_int64(column):
            column = column.cast(pl.Int64)
    try:
        keys = column.cast(pl.String).to_list()
    except pl.exceptions.PolarsError:
        raise DataError(f"{where} holds {_kind(column.dtype)}; use text or whole numbers.") from None
    empty = sum(key is None or not key.strip() for key in keys)
    if empty:
        raise DataError(f"{where} has {_cells(empty, 'empty')}.")
    repeated = len(keys) - len(set(keys))
    if repeated:
        raise DataError(f"{where}: {repeated} of {len(keys)} ids repeat another; each row needs an id of its own.")
    return tuple(keys)


def _check_numeric(column: pl.Series, where: str) -> None:
    empty = column.null_count()
    if empty == len(column) and empty:
        raise DataError(f"{where} is empty. Leave it out with the setting `columns`.")
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DataError(
            f"{where} holds {_kind(column.dtype)}, not numbers. Encode it as numbers, or leave it out with the setting "
            "`columns`."
        )
    if empty:
        raise DataError(f"{where} has {_cells(empty, 'empty')}. Fill them in, or leave the column out.")
    _check_finite(column.cast(pl.Float64), where)


def _check_finite(numbers: pl.Series, where: str) -> None:
    broken = int((~numbers.is_finite()).sum())
    if broken:
        raise DataError(f"{where} has {_cells(broken, 'NaN or infinite')}. Fill them in, or leave them out.")
    huge = int((numbers.abs() > LARGEST).sum())
    if huge:
        raise DataError(f"{where} has {_cells(huge, f'huge (beyond {LARGEST:.0e})')}. Rescale them.")


def _fits_int64(column: pl.Series) -> bool:
    return bool((column.cast(pl.Float64).abs() < 2.0**62).all())


def _kind(kind: pl.DataType) -> str:
    if kind == pl.String:
        return "text"
    return "dates or times" if kind.is_temporal() else f"values of type {kind}"


def _cells(count: int, adjective: str) -> str:
    return f"{count} {adjective} cell{'s' if count > 1 else ''}"


def _cause(problem: Exception) -> str:
    """Return the reason without quoting the file: its cells are somebody's data."""
    text = str(problem).splitlines()[0] if str(problem) else ""
    if isinstance(problem, pl.exceptions.NoDataError):
        return "the file is empty"
    if "utf-8" in text.lower():
        return "it is not UTF-8 text; save it as UTF-8"
    if "more fields" in text:
        return "a line has more fields than the header"
    if "parquet" in text.lower():
        return "it is no intact Parquet file"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return "a line is malformed; look for quotation marks that are not closed"


def _separator_hint(frame: pl.DataFrame) -> str:
    only = frame.columns[0] if frame.width == 1 else ""
    found = next((mark for mark in (";", "\t", "|") if mark in only), None)
    return f" Its fields seem to be separated by {found!r}; use commas (.csv) or tabs (.tsv)." if found else ""


def _some(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")

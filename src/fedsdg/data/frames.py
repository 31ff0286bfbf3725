"""Frames that are passed in Python: pandas, polars, Arrow, or whatever speaks Arrow's interface."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from fedsdg.data.files import Choose
from fedsdg.data.memory import require_memory
from fedsdg.data.wording import repeated_name
from fedsdg.errors import DataError


def from_frame(frame: Any, owner: str, choose: Choose, id_column: str | None = None) -> pl.DataFrame:
    """Return the chosen columns of a frame. A named pandas index may be the id column."""
    library = type(frame).__module__.partition(".")[0]
    if isinstance(frame, pl.LazyFrame | pl.DataFrame):
        names = frame.collect_schema().names()
    elif library == "pandas" and hasattr(frame, "columns"):
        if id_column is not None and id_column not in frame.columns and frame.index.name == id_column:
            frame = frame.reset_index()
        names = [str(name) for name in frame.columns]
    elif isinstance(frame, pa.Table | pa.RecordBatch):
        names = frame.schema.names
    elif hasattr(frame, "__arrow_c_stream__"):
        return from_frame(pa.table(frame), owner, choose)
    else:
        raise DataError(
            f"{owner}: a {type(frame).__name__} is no table; pass a pandas or polars frame, or a pyarrow table."
        )
    repeated = repeated_name(names)
    if repeated is not None:
        raise DataError(f"{owner}: the frame has several columns {repeated!r}; every column needs its own name.")
    chosen = list(choose(names))
    if isinstance(frame, pl.LazyFrame):
        frame = frame.select(chosen).collect(engine="streaming")
    rows = frame.num_rows if isinstance(frame, pa.Table | pa.RecordBatch) else len(frame)
    require_memory(owner, rows, len(chosen))
    if isinstance(frame, pl.DataFrame):
        return frame.select(chosen)
    columns, place = {}, {name: position for position, name in enumerate(names)}
    for name in chosen:
        column = frame.iloc[:, place[name]] if library == "pandas" else frame.column(place[name])
        try:
            columns[name] = pl.from_pandas(column) if library == "pandas" else pl.Series(name, column)
        except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError):
            raise DataError(f"{owner}: column {name!r} holds values of different types; give it one type.") from None
    return pl.DataFrame(columns)

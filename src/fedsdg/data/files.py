"""Tables in files, read column by column as far as the format allows.

==========================  ========================================================
ending                      format
==========================  ========================================================
.csv, .txt                  text, commas, UTF-8, a header
.tsv                        the same with tabs
.parquet, .pq               Parquet
.arrow, .feather, .ipc      Arrow IPC (Feather 2), as a file or as a stream
==========================  ========================================================

Only the chosen columns are read, and text files in pieces, so a file may be larger than memory as long as the chosen
columns are not; that is checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc

from fedsdg.data.cells import typed_text
from fedsdg.data.memory import require_memory
from fedsdg.data.wording import cause, repeated_name
from fedsdg.errors import DataError

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t"}
ARROW_FILE_MAGIC = b"ARROW1"

#: Chooses columns by the names that there are; it complains itself if some are missing.
Choose = Callable[[Sequence[str]], Sequence[str]]


def read_file(path: Path, owner: str, choose: Choose, typed: Sequence[str] = ()) -> pl.DataFrame:
    """Read the chosen columns of a file. Cells of a text file are kept as written, but for the `typed` columns."""
    kind = path.suffix.lower()
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as problem:  # a name that no system takes
        raise DataError(f"{owner}: {problem.strerror}: {path}") from None
    if is_folder:
        raise DataError(f"{owner}: {path} is a folder, not a table.")
    if not is_file:
        raise DataError(f"{owner}: there is no file {path}.")
    if kind not in (*PARQUET, *ARROW, *SEPARATORS):
        raise DataError(f"{owner}: {path.name} is neither .csv, .tsv, .parquet, .arrow nor .feather.")
    try:
        if kind in SEPARATORS:
            frame = _read_text(path, SEPARATORS[kind], owner, choose)
            return frame.with_columns(typed_text(frame[name]) for name in typed)
        if kind in PARQUET:
            return _collect(pl.scan_parquet(path), owner, choose)
        with path.open("rb") as file:
            is_file = file.read(len(ARROW_FILE_MAGIC)) == ARROW_FILE_MAGIC
        return _collect(pl.scan_ipc(path), owner, choose) if is_file else _read_stream(path, owner, choose)
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as problem:
        if kind not in SEPARATORS and not (isinstance(problem, OSError) and problem.strerror):
            reason = f"it is no intact {'Parquet' if kind in PARQUET else 'Arrow'} file"
        else:
            reason = cause(problem)
        raise DataError(f"{owner}: {path.name} cannot be read: {reason}.") from None


def _collect(scan: pl.LazyFrame, owner: str, choose: Choose, text_bytes: int = 0) -> pl.DataFrame:
    chosen = list(choose(scan.collect_schema().names()))
    rows = int(scan.select(pl.len()).collect(engine="streaming").item())
    require_memory(owner, rows, len(chosen), text_bytes)
    return scan.select(chosen).collect(engine="streaming")


def _read_text(path: Path, separator: str, owner: str, choose: Choose) -> pl.DataFrame:
    first = pl.read_csv(path, separator=separator, has_header=False, n_rows=1, infer_schema=False)
    header = [name or "" for name in first.row(0)]
    repeated = repeated_name(header)
    if repeated is not None:
        raise DataError(f"{owner}: {path.name} has several columns {repeated!r}; every column needs its own name.")
    found = next((mark for mark in (";", "\t", "|") if mark in header[0]), None) if len(header) == 1 else None
    if found:
        raise DataError(
            f"{owner}: the fields of {path.name} seem to be separated by {found!r}; use commas (.csv) or tabs (.tsv)."
        )
    share = len(choose(header)) / len(header)
    # As text: to guess the types, the whole file would have to be read twice, with all of its columns.
    scan = pl.scan_csv(path, separator=separator, infer_schema=False)
    frame = _collect(scan, owner, choose, int(path.stat().st_size * share))
    nothing = pl.all_horizontal(pl.all().is_null())
    if not frame.select(nothing.any()).item():
        return frame
    # Some lines have nothing in the chosen columns. Leave out those that have nothing at all.
    return frame.filter(~scan.select(nothing).collect(engine="streaming").to_series())


def _read_stream(path: Path, owner: str, choose: Choose) -> pl.DataFrame:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        chosen = list(choose(stream.schema.names))
        rows = sum(batch.num_rows for batch in stream)
    require_memory(owner, rows, len(chosen))
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        parts = [batch.select(chosen) for batch in stream]
        frame = pl.from_arrow(pa.Table.from_batches(parts, None if parts else stream.schema), rechunk=True)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()

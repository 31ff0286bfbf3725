"""`fedsdg.predict`: new rows of all parties in, scores for the label owner out.

The parties' tables are read as they were for training: each party's id column and the kinds of its columns lie beside
its part of the model, and only the columns that the model needs are read.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsdg.data.files import read_file
from fedsdg.data.frames import from_frame
from fedsdg.data.identified import IdentifiedTable, ids_of
from fedsdg.data.sources import read_party
from fedsdg.errors import ConfigError, DataError
from fedsdg.party_source import ClientSource, ColumnPin
from fedsdg.prediction import Model, Scores
from fedsdg.simulation import one_torch_thread
from fedsdg.state_files import damaged_if_unreadable, write_atomically

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc")


def predict(run: str | Path, rows: Mapping[str, Any] | str | Path, ids: Sequence[str] | None = None) -> Scores:
    """Score new rows with the model of a finished run.

    `rows`: a file or a frame per party, or a folder with one file per party, named like it. The label owner's needs its
    id column only; `ids` may take its place.
    """
    folder, model = Path(run), Model.load(run)
    given = dict(rows) if isinstance(rows, Mapping) else files_in(Path(rows))
    owner, id_name = owner_and_id(folder)
    unknown = sorted(set(given) - {owner, "server", *_clients(folder)})
    if unknown:
        parties = ", ".join(dict.fromkeys((owner, *_clients(folder))))
        raise ConfigError(f"rows: {unknown[0]!r} is no party of {folder}; there are {parties}.")
    wanted = ids_to_score(given.get(owner, given.get("server")), ids, owner, id_name)
    missing = [name for name in model.server.clients if name not in given]
    if missing:
        raise DataError(
            f"A prediction needs the rows of every client that holds selected columns; missing: {', '.join(missing)}. "
            "Nothing is filled in for a party that is absent."
        )
    tables = {
        name: read_rows(folder / "clients" / name, name, given[name], model.needed_columns[name])
        for name in model.server.clients
    }
    with one_torch_thread():
        return model.score(wanted, tables)


def read_rows(folder: Path, name: str, rows: Any, columns: Sequence[str]) -> IdentifiedTable:
    """Read a client's new rows as its training rows were read."""
    source = _source(folder)
    pins = {column: pin for column, pin in saved_pins(folder).items() if column in columns}
    path = Path(rows) if isinstance(rows, str | Path) else None
    if source.get("id") is None:
        raise ConfigError(
            f"{name}: the model was trained on rows without ids; score aligned tables with Model.predict."
        )
    reader = ClientSource(table=path, id=source["id"], columns=tuple(columns), schema=pins)
    return read_party(reader, name, None if path is not None else rows)


def saved_pins(folder: Path) -> dict[str, ColumnPin]:
    """Return how a party's columns were read for training."""
    with damaged_if_unreadable(folder / "source.json"):
        return {column: ColumnPin(**pin) for column, pin in _source(folder).get("schema", {}).items()}


def owner_and_id(run: Path) -> tuple[str, str]:
    """Return the label owner's name and its id column."""
    source = _source(run / "server")
    return str(source.get("name", "server")), str(source.get("id") or "id")


def files_in(folder: Path) -> dict[str, Path]:
    """Return the tables of a folder by the names of their parties."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder. Give NAME=FILE for every party, or a folder with a file per party.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in TABLE_ENDINGS:
            if path.stem in found:
                raise ConfigError(f"{folder} holds two tables of {path.stem!r}; remove one of them.")
            found[path.stem] = path
    return found


def write_scores(scores: Scores, path: Path, id_name: str = "id") -> None:
    """Write one line per id that was asked for, as CSV or Parquet; ids without a score say which party lacks them."""
    table = scores_frame(scores, id_name)
    if path.suffix.lower() in (".parquet", ".pq"):
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        write_atomically(path, buffer.getvalue())
    elif path.suffix.lower() in (".csv", ".tsv", ".txt"):
        write_atomically(path, table.write_csv(separator="\t" if path.suffix.lower() == ".tsv" else ",").encode())
    else:
        raise ConfigError(f"{path.name} is neither .csv, .tsv nor .parquet.")


def scores_frame(scores: Scores, id_name: str = "id") -> pl.DataFrame:
    """Return the scores as a frame: id, prediction, probabilities, status."""
    rows = np.flatnonzero(scores.scored)
    position = {int(row): at for at, row in enumerate(rows)}
    predictions = scores.predictions.tolist()
    columns: dict[str, list[Any]] = {
        id_name: list(scores.ids),
        "prediction": [predictions[position[row]] if row in position else None for row in range(len(scores.ids))],
    }
    if scores.classes is not None:
        for index, label in enumerate(scores.classes):
            of_class = [] if scores.probabilities is None else scores.probabilities[:, index].tolist()
            columns[f"probability_{label}"] = [
                of_class[position[row]] if row in position else None for row in range(len(scores.ids))
            ]
    columns["status"] = [
        "scored" if not missing and scored else f"not held by {missing}"
        for scored, missing in zip(scores.scored.tolist(), scores.missing_at, strict=True)
    ]
    return pl.DataFrame(columns)


def refuse_unusable_output(path: Path) -> None:
    """Refuse a place that cannot take the scores, before any work."""
    if path.suffix.lower() not in (".csv", ".tsv", ".txt", ".parquet", ".pq"):
        raise ConfigError(f"{path.name} is neither .csv, .tsv nor .parquet.")
    if path.exists():
        raise ConfigError(f"{path} exists; scores never overwrite a file. Choose another name.")
    if not path.resolve().parent.is_dir() or not os.access(path.resolve().parent, os.W_OK):
        raise ConfigError(f"Cannot write to {path.resolve().parent}.")


def ids_to_score(rows: Any, ids: Sequence[str] | None, owner: str, id_name: str) -> tuple[str, ...]:
    """Return the ids that the label owner wants scores for: those of its rows, or some of them."""
    if isinstance(ids, str):  # one id, not a list of its letters
        ids = [ids]
    if rows is None and ids is None:
        raise ConfigError(f"Whose scores? Give the rows of {owner} (its id column is enough), or ids.")
    known: tuple[str, ...] = ()
    if rows is not None:

        def choose(names: Sequence[str]) -> list[str]:
            if id_name not in names:
                raise DataError(f"{owner}: there is no id column {id_name!r}.")
            return [id_name]

        frame = (
            read_file(Path(rows), owner, choose)  # ids stay text as written: 007 is not 7
            if isinstance(rows, str | Path)
            else from_frame(rows, owner, choose, id_name)
        )
        known = ids_of(frame[id_name], f"{owner}: the id column {id_name!r}")
        if ids is None:
            return known
    wanted = ids_of(pl.Series(id_name, list(ids or ())), "ids")
    if not wanted:
        raise ConfigError("ids: the list is empty.")
    if rows is not None:
        strangers = len(set(wanted) - set(known))
        if strangers:
            raise DataError(
                f"ids: {strangers} of {len(wanted)} cannot be scored: the rows of {owner} do not hold "
                f"{'it' if strangers == 1 else 'them'}."
            )
    return wanted


def _clients(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "clients").iterdir())


def _source(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ConfigError(f"{folder / 'source.json'} cannot be read.") from None
    return content if isinstance(content, dict) else {}

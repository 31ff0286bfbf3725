"""The rows of a SQL query: SQLAlchemy (the extra `fedsdg[sql]`), or ADBC with a URL that starts with `adbc+`.

The query runs in a transaction that is rolled back. `${NAME}` in the URL is filled in from the environment, so that no
password stands in a job file; before the `@` it is percent-encoded, so a password may hold any character. Complaints
never show a URL, and of a database's own words only those that name a table or a column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import polars as pl

from fedsdg.data.files import Choose
from fedsdg.data.memory import require_memory
from fedsdg.data.wording import repeated_name
from fedsdg.errors import ConfigError, DataError

BATCH = 50_000
#: What a database may be quoted with: names, never cells.
HARMLESS = re.compile(
    r'no such (?:table|column|function): [\w.]+|(?:relation|table|column|view) "?[\w.]+"? does not exist|syntax error'
)


def read_query(url: str, query: str, owner: str, choose: Choose) -> pl.DataFrame:
    """Return the chosen columns of a query's rows."""
    filled = fill_in(url, owner)
    if filled.startswith("adbc+"):
        return _by_adbc(filled.removeprefix("adbc+"), query, owner, choose)
    return _by_sqlalchemy(filled, query, owner, choose)


def fill_in(url: str, owner: str) -> str:
    """Fill in `${NAME}` from the environment."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ConfigError(f"{owner}: database: the environment has no variable {found[1]}; set it before the run.")
        return os.environ[found[1]]

    credentials, at, rest = url.rpartition("@")
    credentials = re.sub(r"\$\{(\w+)\}", lambda found: quote(value(found), safe=""), credentials)
    return credentials + at + re.sub(r"\$\{(\w+)\}", value, rest)


def _by_sqlalchemy(url: str, query: str, owner: str, choose: Choose) -> pl.DataFrame:
    try:
        import sqlalchemy
    except ImportError:
        raise ConfigError(
            f'{owner}: database: reading one needs SQLAlchemy; install it with `pip install "fedsdg[sql]"`.'
        ) from None
    try:
        address = sqlalchemy.make_url(url)
        _require_sqlite_file(address.get_backend_name(), address.database, owner)
        engine = sqlalchemy.create_engine(address)
    except ModuleNotFoundError as problem:
        raise ConfigError(
            f"{owner}: database: the driver {problem.name!r} is not installed; install it with pip."
        ) from None
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise ConfigError(
            f"{owner}: database: this is no URL that SQLAlchemy knows, such as postgresql://user:${{PASSWORD}}@host/name."
        ) from None
    try:
        with engine.connect() as connection:
            # As it is written: neither `:name` nor `%` in a query is a place for parameters.
            raw = connection.execution_options(stream_results=True, no_parameters=True)
            result = raw.exec_driver_sql(query)
            if not result.returns_rows:
                raise DataError(f"{owner}: the query returns no rows; it should be a SELECT.")
            return _in_batches(list(result.keys()), result, owner, choose)
    except sqlalchemy.exc.SQLAlchemyError as problem:
        raise DataError(f"{owner}: the database refused the query: {_harmless(problem)}.") from None
    finally:
        engine.dispose()


def _in_batches(names: Sequence[str], result: Any, owner: str, choose: Choose) -> pl.DataFrame:
    """Take rows as they come, and stop when they would not fit into memory."""
    chosen = _chosen(names, owner, choose)
    places = [names.index(name) for name in chosen]
    columns: list[list[Any]] = [[] for _ in chosen]
    while batch := result.fetchmany(BATCH):
        for column, place in zip(columns, places, strict=True):
            column.extend(row[place] for row in batch)
        require_memory(owner, len(columns[0]) if columns else 0, len(chosen))
    return pl.DataFrame([_series(name, values) for name, values in zip(chosen, columns, strict=True)])


def _by_adbc(url: str, query: str, owner: str, choose: Choose) -> pl.DataFrame:
    kind, mark, path = url.partition("://")
    if not mark:
        raise ConfigError(f"{owner}: database: after adbc+ a URL is wanted, such as adbc+sqlite:///rows.db.")
    _require_sqlite_file(kind, path.removeprefix("/"), owner)
    try:
        frame = pl.read_database_uri(query, url, engine="adbc")
    except ImportError:
        raise ConfigError(
            f"{owner}: database: no ADBC driver for {kind} is installed; install adbc-driver-{kind} with pip."
        ) from None
    except Exception as problem:  # every driver has errors of its own
        raise DataError(f"{owner}: the database refused the query: {_harmless(problem)}.") from None
    chosen = _chosen(frame.columns, owner, choose)
    require_memory(owner, frame.height, len(chosen))
    return frame.select(chosen)


def _chosen(names: Sequence[str], owner: str, choose: Choose) -> list[str]:
    repeated = repeated_name(names)
    if repeated is not None:
        raise DataError(f"{owner}: the query gives several columns {repeated!r}; name them apart with AS.")
    return list(choose(names))


def _series(name: str, values: list[Any]) -> pl.Series:
    """Return a column of what a database gave; SQLite lets whole, decimal and text cells stand in one column."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds <= {bool, int, float, Decimal}:
        return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)
    if len(kinds) > 1 or kinds == {UUID}:
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
    return pl.Series(name, values)


def _require_sqlite_file(kind: str, path: str | None, owner: str) -> None:
    """Refuse an SQLite file that is not there: the driver would make an empty one."""
    in_memory = not path or path == ":memory:" or path.startswith("file:")
    if kind == "sqlite" and not in_memory and not Path(str(path)).is_file():
        raise DataError(f"{owner}: there is no file {path}.")


def _harmless(problem: Exception) -> str:
    found = HARMLESS.search(str(problem))
    return found[0] if found else f"{type(getattr(problem, 'orig', None) or problem).__name__}"

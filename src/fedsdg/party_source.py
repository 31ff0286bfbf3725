"""Where a party's rows come from, and what its columns mean: the part of a job that its owner writes.

::

    table = PATH                          a CSV, TSV, Parquet, Arrow or Feather file
    database = URL, query = SELECT ...    a SQL query; ${NAME} in the URL is filled in from the environment
    id, columns                           the id column, and the columns to use
    [....schema]    COLUMN = KIND         what is not said is inferred
    [....encoding]  levels, rare_below, words

A source without a table and without a database takes a frame that is passed in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from fedsdg.config import Settings
from fedsdg.errors import ConfigError

#: The label owner's folder and role; no client may be called that.
SERVER = "server"
LONGEST_NAME = 64
ColumnKind = Literal["number", "category", "ordinal", "text", "date", "ignore"]


class ColumnPin(Settings):
    """What one column means, said by its owner instead of inferred."""

    kind: ColumnKind
    levels: tuple[str, ...] | None = None
    """The levels of an ordinal column in rising order; without them they are sorted."""
    format: str | None = None
    """How a date is written, as in `%d.%m.%Y`; without it, dates are ISO 8601."""

    @model_validator(mode="before")
    @classmethod
    def _a_bare_kind_is_a_pin(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _what_is_said_fits_the_kind(self) -> Self:
        if self.levels is not None and self.kind != "ordinal":
            raise ConfigError(f'levels: they belong to kind = "ordinal", not {self.kind!r}')
        if self.levels is not None and (len(self.levels) < 2 or len(set(self.levels)) < len(self.levels)):
            raise ConfigError("levels: list at least two, each once, in rising order")
        if self.format is not None and self.kind != "date":
            raise ConfigError(f'format: it belongs to kind = "date", not {self.kind!r}')
        return self


class EncodingSettings(Settings):
    """How columns become inputs; what is learned, is learned from training rows."""

    levels: int = Field(default=20, ge=2, le=1000)
    """Most inputs of a category: its most frequent levels, and one for all others."""
    rare_below: int = Field(default=10, ge=1)
    """A level or word that fewer training rows hold is rare: it goes to the other levels, or is not counted."""
    words: int = Field(default=64, ge=1, le=10_000)
    """Most words of a text column that are counted."""


class PartySource(Settings):
    """What a client and a label owner have in common."""

    model_config = ConfigDict(populate_by_name=True)

    table: Path | None = None
    database: SecretStr | None = None
    """A SQLAlchemy URL, or `adbc+` before the URL of an ADBC driver. It may hold a password: it is never shown."""
    query: str | None = None
    id: str | None = None
    """The id column. It may be left out only if the rows of all parties are in the same order already."""
    pins: dict[str, ColumnPin] = Field(default_factory=dict, alias="schema")
    """Columns whose kind is said, not inferred."""
    encoding: EncodingSettings = EncodingSettings()

    @model_validator(mode="after")
    def _there_is_one_source(self) -> Self:
        if self.table is not None and (self.database is not None or self.query is not None):
            raise ConfigError("table and database: the rows come from one of the two; remove the other")
        if self.database is not None and self.query is None:
            raise ConfigError("query is missing: say which rows of the database, for example SELECT * FROM customers")
        if self.query is not None and self.database is None:
            raise ConfigError('database is missing: where is the query asked, for example "sqlite:///rows.db"')
        return self


class LabelSource(PartySource):
    """The label owner's table."""

    name: str = SERVER
    target: str
    columns: Literal["none", "all"] | tuple[str, ...] = "none"
    """Columns of its own that the label owner brings along."""
    label_key: Path | None = None
    """Where the lasting key of `label_epsilon` lies; made if missing. Default: beside the table."""

    @model_validator(mode="after")
    def _columns_have_one_role(self) -> Self:
        if self.id == self.target:
            raise ConfigError(f"id and target are both {self.id!r}; the labels need a column of their own")
        check_columns(self.columns, self.pins, {"id": self.id, "target": self.target})
        return self


class ClientSource(PartySource):
    """A client's table."""

    columns: Literal["all"] | tuple[str, ...] = "all"

    @model_validator(mode="after")
    def _columns_have_one_role(self) -> Self:
        check_columns(self.columns, self.pins, {"id": self.id})
        return self


def check_columns(columns: str | tuple[str, ...], pins: dict[str, ColumnPin], roles: dict[str, str | None]) -> None:
    """Refuse a choice of columns that cannot be meant."""
    for role, name in roles.items():
        if name in pins:
            raise ConfigError(f"schema: {name!r} is the {role} column; its kind cannot be chosen")
        if not isinstance(columns, str) and name in columns:
            raise ConfigError(f"columns: {name!r} is the {role} column and cannot be a feature")
    if isinstance(columns, str):
        return
    if not columns:
        raise ConfigError('columns: the list is empty; name at least one column, or say "all"')
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise ConfigError(f"columns: {repeated[0]!r} is listed twice")


def check_party_name(name: str, where: str) -> None:
    """Refuse a name that is no plain word: it becomes a folder of the run."""
    if not re.fullmatch(r"\w[\w-]*", name) or len(name) > LONGEST_NAME:
        raise ConfigError(
            f"{where}: {name!r} cannot be a party's name: use letters, digits, - and _, at most {LONGEST_NAME}, and "
            "no - in front"
        )


def check_client_names(names: Iterable[str], where: str = "clients") -> None:
    """Refuse names that cannot be clients, and names that a file system may take for one another."""
    seen: dict[str, str] = {}
    for name in names:
        check_party_name(name, where)
        if name.casefold() == SERVER:
            raise ConfigError(f"{where}: a client cannot be called {SERVER!r}; that is the label owner's role")
        if name.casefold() in seen:
            raise ConfigError(
                f"{where}: {seen[name.casefold()]!r} and {name!r} differ in case only; rename one of them"
            )
        seen[name.casefold()] = name

"""Deal the columns of one table to several parties: the vertical setting, simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsdg.data.arrays import IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError


def split_columns(n_columns: int, n_parties: int, seed: int | None = None) -> tuple[IntArray, ...]:
    """Deal columns to parties in nearly equal shares: contiguous, or at random when a seed is given."""
    if n_parties < 1:
        raise ConfigError("a vertical split needs at least one client")
    if n_parties > n_columns:
        raise ConfigError(f"{n_columns} column(s) cannot be dealt to {n_parties} clients: every client needs one")
    order = np.arange(n_columns) if seed is None else np.random.default_rng(seed).permutation(n_columns)
    return tuple(np.sort(part) for part in np.array_split(order, n_parties))


def split_table(table: FeatureTable, parts: Mapping[str, Sequence[int] | IntArray]) -> dict[str, FeatureTable]:
    """Return one table per party; every column goes to at most one party."""
    used: set[int] = set()
    tables = {}
    for party, columns in parts.items():
        chosen = [int(column) for column in columns]
        if not chosen:
            raise ConfigError(f"client {party!r} gets no column")
        outside = [column for column in chosen if not 0 <= column < table.n_columns]
        if outside:
            raise ConfigError(f"client {party!r}: column {outside[0]} is not in a table of {table.n_columns} columns")
        if used.intersection(chosen) or len(set(chosen)) != len(chosen):
            raise ConfigError(f"client {party!r}: a column is dealt twice; columns belong to one party")
        used.update(chosen)
        tables[party] = table.select(chosen)
    return tables

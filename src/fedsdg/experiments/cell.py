"""One cell of a grid: a data set, a fold and a seed, dealt to clients.

The seed decides the folds, how columns are dealt and all parties' private seeds, so a cell can be repeated bit for bit,
and every method of a cell sees the same rows and the same parties.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from fedsdg.baselines.selector import SERVER, VerticalData
from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import IntArray
from fedsdg.datasets.dataset import DataSet, deal_columns, tables_of
from fedsdg.errors import ConfigError

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Cell:
    """A data set, a fold and a seed, with everything that follows from them."""

    data: DataSet
    fold: int
    folds: int
    seed: int
    config: TrainingConfig
    n_clients: int = 2
    earlier: dict[str, Row] = field(default_factory=dict)
    """Rows of this cell that other variants have written, for variants that build on them."""
    custom_parts: Mapping[str, IntArray] | None = None
    """Columns of each client, where an experiment deals them in its own way."""

    def __post_init__(self) -> None:
        if self.folds < 2 or not 0 <= self.fold < self.folds:
            raise ConfigError(f"fold {self.fold} of {self.folds} does not exist; at least 2 folds are needed")

    def changed(self, **changes: Any) -> Cell:
        """Return the same cell with other settings, clients or labels."""
        return replace(self, **changes)

    @cached_property
    def fit_rows(self) -> IntArray:
        """Rows to learn from: all but this fold, class by class."""
        splitter = KFold if self.data.task == "regression" else StratifiedKFold
        splits = splitter(self.folds, shuffle=True, random_state=self.seed).split(self.data.X, self.data.y)
        return np.sort(list(splits)[self.fold][0]).astype(np.int64)

    @cached_property
    def test_rows(self) -> IntArray:
        """Rows of this fold, which nobody learns from."""
        return np.setdiff1d(np.arange(self.data.n_rows, dtype=np.int64), self.fit_rows)

    @cached_property
    def parts(self) -> dict[str, IntArray]:
        """Columns of every client."""
        if self.custom_parts is not None:
            return dict(self.custom_parts)
        return deal_columns(self.data, self.n_clients, self.seed * 1000 + self.fold)

    @cached_property
    def vertical(self) -> VerticalData:
        """The fold as the parties hold it."""
        tables = tables_of(self.data, self.parts)
        seeds = {name: self.private_seed(name) for name in (SERVER, *tables)}
        config = self.config.with_changes(task=self.data.task, seed=self.seed)
        return VerticalData(tables, self.labels, self.fit_rows, config, seeds)

    @property
    def labels(self) -> NDArray[np.generic]:
        """The labels."""
        return self.data.y

    def private_seed(self, party: str) -> bytes:
        """Return a party's seed: experiments are repeated, so it follows from the cell."""
        return hashlib.sha256(f"fedsdg experiment|{self.seed}|{self.fold}|{party}".encode()).digest()

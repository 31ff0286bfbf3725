"""What every method sees, what it returns, and the protocol it follows.

A method sees the clients' tables, the labels and two sets of rows: those it may train on and those it may choose with.
The rows that test it are in the tables, too (a model is scored where its parts lie), and it must not touch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.prepared_client import PreparedClient
from fedsdg.baselines.trained_model import TrainedModel
from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import BoolArray, FloatArray, IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError
from fedsdg.learning.objective import Objective, guess_task, split_rows
from fedsdg.learning.randomness import RandomStreams

SERVER = "server"


@dataclass(frozen=True, eq=False)
class VerticalData:
    """One fold as the parties hold it."""

    tables: Mapping[str, FeatureTable]
    labels: NDArray[np.generic]
    fit_rows: IntArray
    """Rows that a method may use, in ascending order; all other rows are for the test."""
    config: TrainingConfig
    seeds: Mapping[str, bytes]
    """Private seeds of the server and of every client."""
    train_rows: IntArray = field(init=False)
    validation_rows: IntArray = field(init=False)
    objective: Objective = field(init=False)

    def __post_init__(self) -> None:
        values = self.labels
        task = guess_task(values) if self.config.task == "auto" else self.config.task
        training, validation = split_rows(
            values[self.fit_rows],
            task != "regression",
            self.config.validation.fraction,
            # The stream of `two_phase_training`: all methods train and validate on the same rows.
            RandomStreams(self.seeds[SERVER], (SERVER,)).numpy("validation-rows"),
        )
        object.__setattr__(self, "train_rows", self.fit_rows[training])
        object.__setattr__(self, "validation_rows", self.fit_rows[validation])
        object.__setattr__(self, "objective", Objective.fit(task, values, self.train_rows))

    @property
    def test_rows(self) -> IntArray:
        """Rows that nobody may learn from."""
        return np.setdiff1d(np.arange(len(self.labels), dtype=np.int64), self.fit_rows)

    @cached_property
    def prepared_clients(self) -> dict[str, PreparedClient]:
        """Clients to make copies of: they prepare their columns once for all models of this fold."""
        return {name: PreparedClient(name, table, self.seeds[name]) for name, table in self.tables.items()}

    @property
    def n_columns(self) -> int:
        """Columns of all clients."""
        return sum(table.n_columns for table in self.tables.values())

    def training_values(self, client: str) -> NDArray[np.float64]:
        """Return a client's table on the training rows."""
        return self.tables[client].values[self.train_rows]

    def constant(self, client: str) -> BoolArray:
        """Return which of a client's columns do not vary on the training rows: nothing can be learned from them."""
        values = self.training_values(client)
        return np.asarray((values == values[0]).all(axis=0))

    def classes(self) -> tuple[IntArray, int]:
        """Return class codes of the training rows (a regression target in bins), and the number of classes."""
        return self.objective.gini_classes(self.train_rows, self.config.binning.target_bins)

    def streams(self, purpose: str) -> RandomStreams:
        """Return repeatable randomness for a method of this name."""
        return RandomStreams(self.seeds[SERVER], ("baseline", purpose))


@dataclass(frozen=True, eq=False)
class Selection:
    """What a method found."""

    columns: Mapping[str, IntArray]
    """Positions of the selected columns in each client's own table, ascending."""
    embedding: Mapping[str, int] | None = None
    """Embedding width per client, for methods that select embedding dimensions, too."""
    scores: Mapping[str, FloatArray] | None = None
    """Score per column, higher is better, for methods that rank."""
    model: TrainedModel | None = None
    """The method's own model, for methods that train one along with the selection."""

    @property
    def n_selected(self) -> int:
        """Selected columns of all clients."""
        return sum(len(columns) for columns in self.columns.values())


class Selector(Protocol):
    """A feature-selection method."""

    @property
    def name(self) -> str:
        """A short name for files and tables, with the number of features where that is a setting."""
        ...

    def select(self, data: VerticalData) -> Selection:
        """Select columns, looking at the training and validation rows only."""
        ...


def selection_of_masks(masks: Mapping[str, BoolArray], **more: object) -> Selection:
    """Return a selection from flags; nothing selected at all is an error of the method's settings."""
    if not any(mask.any() for mask in masks.values()):
        raise ConfigError("the method kept no column at all; its penalty is too strong for this data")
    return Selection({client: np.flatnonzero(mask) for client, mask in masks.items()}, **more)  # type: ignore[arg-type]

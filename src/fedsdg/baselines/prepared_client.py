"""Clients that prepare their columns once for many trainings on the same rows.

Preparing ten thousand columns takes longer than a training on ten of them, and a comparison trains dozens of models on
the same rows. What is prepared depends on table, rows and settings only, so models may share it. Learners are their
own.
"""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.schedule import PhasePlan


class PreparedClient(LocalClient):
    """A client whose copies share what was prepared."""

    def __init__(self, client_id: str, table: FeatureTable, private_seed: bytes) -> None:
        super().__init__(client_id, table, private_seed)
        self._prepared_for: tuple[TrainingConfig, IntArray] | None = None
        self._width: int | None = None

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Prepare the columns, unless that was done for the same settings and rows."""
        before = self._prepared_for
        if before is None or before[0] != config or not np.array_equal(before[1], train_rows):
            super().begin(config, train_rows)
            self._prepared_for = (config, train_rows)

    def fresh(self, chosen: IntArray | None = None, embedding: int | None = None) -> Self:
        """Return a client without learners; ``chosen`` fixes its columns, ``embedding`` the width of its embedding."""
        client = copy.copy(self)
        client._learners, client._snapshots, client._phase = {}, {}, ""
        client.gini_scores = client.starting_gates = client.final_gates = None
        client._open_embeddings, client._width = None, embedding
        everything = np.arange(self.table.n_columns, dtype=np.int64)
        client._selected = everything if chosen is None else np.sort(np.asarray(chosen, dtype=np.int64))
        return client

    def compact_width(self, plan: PhasePlan) -> int:
        """Return the width that a method found, as it found it; `narrowest_embedding` is a setting of our gates."""
        if self._width is None or plan.config.model == "linear":
            return super().compact_width(plan)
        return min(plan.embedding, self._width)

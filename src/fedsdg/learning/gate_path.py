"""How a client's input gates moved: their means at every validation pass of the gated phase.

For the client's own report. Nothing of it is ever sent, and nothing is computed for it: the snapshots that selection
needs hold the gates already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsdg.data.arrays import BoolArray, FloatArray, IntArray
from fedsdg.learning.model_state import StateArrays


@dataclass(frozen=True, eq=False)
class GatePath:
    """Gate means by step (rows) and column of the client's table (columns)."""

    steps: IntArray
    means: FloatArray

    @classmethod
    def of(cls, snapshots: Mapping[int, StateArrays], n_columns: int) -> GatePath:
        """Return the path that a phase's snapshots, by step, went through."""
        steps = sorted(snapshots)
        means = np.array([snapshots[step]["input_gates"] for step in steps], np.float32)
        return cls(np.array(steps, np.int64), means.reshape(len(steps), n_columns))

    def to_arrays(self) -> StateArrays:
        """Return the path as named arrays."""
        return {"steps": self.steps, "means": self.means}

    @classmethod
    def from_arrays(cls, arrays: StateArrays) -> GatePath:
        """Read what `to_arrays` wrote."""
        steps, means = np.asarray(arrays["steps"], np.int64), np.asarray(arrays["means"], np.float32)
        if means.ndim != 2 or steps.shape != means.shape[:1]:
            raise ValueError("a gate path has one row of means per step")
        return cls(steps, means)


def open_embeddings(snapshot: StateArrays) -> int:
    """Return how many embedding dimensions of a learner were still sent, through a gate that was open."""
    gates = snapshot.get("embedding_gates")
    return count_open(snapshot["open_dimensions"], None if gates is None else gates > 0)


def count_open(still_sent: ArrayLike, open_gates: BoolArray | None) -> int:
    """Return how many of the dimensions that are sent have an open gate; without gates, all."""
    dimensions = np.asarray(still_sent, np.int64)
    return len(dimensions) if open_gates is None else int(open_gates[dimensions].sum())

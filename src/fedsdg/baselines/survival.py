"""How long columns live while a penalty rises, and a penalty that all clients can bear alike.

A column is worth the number of steps that it lived; between equals, and among the dead, the larger last norm wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from fedsdg.baselines.selector import VerticalData
from fedsdg.baselines.vertical_network import column_norms
from fedsdg.data.arrays import BoolArray, FloatArray, IntArray

MEMORY = 0.95
"""How much of what was seen before counts beside a step's gradients: they differ from batch to batch."""


@dataclass(eq=False)
class Survival:
    """How long every column lived."""

    lived: dict[str, FloatArray] = field(default_factory=dict)
    """Steps at which a column was open, per client."""
    norms: dict[str, FloatArray] = field(default_factory=dict)
    """The norm of its weights at the last of them."""
    n_open: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Open columns of all clients after every step, where somebody asked."""

    def begin(self, name: str, first: nn.Parameter) -> None:
        """Begin with a client whose columns are all alive."""
        self.norms[name] = column_norms(first).numpy().astype(np.float64)
        self.lived[name] = np.zeros(first.shape[1])

    def note(self, name: str, first: nn.Parameter) -> BoolArray:
        """Note which columns of a client are alive after another step, and return it."""
        norms = column_norms(first).numpy()
        alive = np.asarray(norms > 0)
        self.lived[name] += alive
        self.norms[name] = np.where(alive, norms, self.norms[name])
        return alive

    def scores(self, data: VerticalData) -> dict[str, FloatArray]:
        """Rank by steps, then by norms. A constant column is zero after preparation: nothing ever moves its weights."""
        return {
            name: np.where(
                data.constant(name), -np.inf, lived + self.norms[name] / (1 + self.norms[name].max(initial=0.0))
            )
            for name, lived in self.lived.items()
        }


class FairPenalty:
    """How much of a penalty each client gets, so that its strongest column bears as much as those of the others.

    The clients' embeddings meet in one network, which comes to listen to one of them more by the luck of its first
    weights. Under one absolute penalty that client would keep nearly all of its columns and the other none, whatever
    they tell. A group lasso's scale is the largest gradient of a group, so that is what penalties are relative to.
    """

    def __init__(self) -> None:
        self._largest: dict[str, float] = {}

    def shares(self, first: Mapping[str, nn.Parameter]) -> dict[str, float]:
        """Return a factor per client, 1 on average, from the gradients of this step and those before."""
        for name, weight in first.items():
            gradient = weight.grad
            now = 0.0 if gradient is None else float(column_norms(gradient).max())
            self._largest[name] = MEMORY * self._largest.get(name, 0.0) + (1 - MEMORY) * now
        mean = sum(self._largest.values()) / len(self._largest)
        return {name: largest / mean if mean > 0 else 1.0 for name, largest in self._largest.items()}

"""The ports of training: all clients as the server reaches them, and what keeps a run from being lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fedsdg.config import TrainingConfig
from fedsdg.data.alignment import Alignment
from fedsdg.data.arrays import IntArray
from fedsdg.learning.local_client import GateReport
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.server_learner import InteractiveGradient


class Federation(Protocol):
    """All clients, as the server reaches them. Mappings are keyed by client, in a fixed order."""

    def align(self, ids: Sequence[str], order: np.random.Generator) -> Alignment:
        """Bring all parties' rows into one common order (not called when they are)."""
        ...

    def columns(self) -> Mapping[str, int]:
        """Return the number of columns of every client."""
        ...

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Let every client prepare its columns."""
        ...

    def initialise_gates(self, labels: IntArray | None, n_classes: int) -> None:
        """Run Algorithm 1 with the class codes of the scored rows (none: gates start alike)."""
        ...

    def start_phase(self, plan: PhasePlan, clients: tuple[str, ...]) -> Mapping[str, int]:
        """Start fresh learners and layers at these clients; return their embedding widths."""
        ...

    def use_phase(self, name: str) -> None:
        """Let all parties return to the learners and layers of a phase that was started before."""
        ...

    def forward(self, rows: IntArray, step: int, purpose: str) -> Mapping[str, IntArray]:
        """Return Z_m of every taking-part client (gates are sampled for the purpose ``training`` only)."""
        ...

    def backward(
        self, gradients: Mapping[str, InteractiveGradient], dithers: Mapping[str, IntArray], step: int
    ) -> None:
        """Bring every client dL/dG, with the weights of the forward pass, then update the weights."""
        ...

    def open_embeddings(self) -> int:
        """Return how many embedding dimensions are still sent, over all taking-part clients."""
        ...

    def drop_closed_dimensions(self) -> Mapping[str, tuple[int, ...]]:
        """Drop dead embedding dimensions; return the open ones of clients where something changed."""
        ...

    def gate_reports(self) -> Mapping[str, GateReport]:
        """Return how many gates are open, per client."""
        ...

    def save_snapshot(self, step: int) -> None:
        """Let every party remember its state under this step."""
        ...

    def restore_snapshot(self, step: int) -> None:
        """Let every party go back to its state of this step."""
        ...

    def select(self, quota: Mapping[str, int] | None) -> Mapping[str, int]:
        """Fix the selected columns; return their number per client."""
        ...

    def save_checkpoint(self, number: int) -> None:
        """Let every client write down its state, for a run that is interrupted later."""
        ...

    def to_state(self) -> tuple[StateArrays, dict[str, Any]]:
        """Return what the server's side holds, for its own checkpoint."""
        ...

    def finish(self) -> None:
        """Let every client keep its part of the model: the run is over."""
        ...


class Keeper(Protocol):
    """Keeps a run from being lost."""

    @property
    def resumed(self) -> tuple[StateArrays, Mapping[str, Any]] | None:
        """The state of the procedure at the checkpoint that this run goes on from."""
        ...

    def after_step(self, steps: int, state: Callable[[], tuple[StateArrays, dict[str, Any]]]) -> None:
        """Write a checkpoint if it is time for one; raise `RunStopped` if the run was asked to stop."""
        ...


class NoKeeper:
    """Nothing is written down."""

    resumed = None

    def after_step(self, steps: int, state: Callable[[], tuple[StateArrays, dict[str, Any]]]) -> None:
        """Do nothing."""

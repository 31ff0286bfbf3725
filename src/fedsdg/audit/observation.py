"""A run in the clear that notes what each party would see of it in a `masked` run, and the truth to compare with.

The integers are those of a `masked` run bit for bit, so what is measured here is what a party there can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.learning.server_learner import InteractiveGradient
from fedsdg.learning.training_result import TrainingResult
from fedsdg.learning.two_phase_training import train


@dataclass(frozen=True, eq=False)
class GradientBatch:
    """A client's view of one step: the rows of the batch (`EmbedBatch`) and its dL/dG (`ApplyGradient`)."""

    phase: str
    step: int
    rows: IntArray
    gradient: IntArray


@dataclass(frozen=True, eq=False)
class OutputBatch:
    """The server's view of one forward pass, Z of one client (`MaskedSum`), and the embeddings that made it."""

    phase: str
    step: int
    purpose: str
    rows: IntArray
    outputs: IntArray
    embeddings: IntArray
    """The truth: no party but the client sees it."""


@dataclass(eq=False)
class ObservedFederation(PlainFederation):
    """All clients in this process, with a note of every view."""

    clients: dict[str, LocalClient]
    gradients: dict[str, list[GradientBatch]] = field(default_factory=dict)
    outputs: dict[str, list[OutputBatch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.clients)
        self._rows: IntArray | None = None

    def forward(self, rows: IntArray, step: int, purpose: str) -> dict[str, IntArray]:
        """Note what the server sees."""
        slots = super().forward(rows, step, purpose)
        training = purpose == "training"
        for name, outputs in slots.items():
            learner = self.clients[name].learner
            embeddings = self._embeddings[name].copy() if training else learner.embed(rows, step, training=False)
            batch = OutputBatch(self._phase, step, purpose, rows, outputs, embeddings)
            self.outputs.setdefault(name, []).append(batch)
        if training:
            self._rows = rows
        return slots

    def backward(
        self, gradients: Mapping[str, InteractiveGradient], dithers: Mapping[str, IntArray], step: int
    ) -> None:
        """Note what each client sees."""
        assert self._rows is not None
        for name, layer in self.layers.items():
            seen = layer.backward(gradients[name].gradient, dithers[name])
            self.gradients.setdefault(name, []).append(GradientBatch(self._phase, step, self._rows, seen))
        super().backward(gradients, dithers, step)


@dataclass(frozen=True, eq=False)
class Observation:
    """A finished run and everybody's view of it."""

    federation: ObservedFederation
    result: TrainingResult

    def gradients(self, client: str, phase: str = "gated") -> list[GradientBatch]:
        """Return what one client decrypted in one phase."""
        return [batch for batch in self.federation.gradients.get(client, []) if batch.phase == phase]

    def outputs(self, client: str, phase: str, purpose: str) -> list[OutputBatch]:
        """Return what the server saw of one client in one phase."""
        seen = self.federation.outputs.get(client, [])
        return [batch for batch in seen if (batch.phase, batch.purpose) == (phase, purpose)]


def observe(
    tables: Mapping[str, FeatureTable],
    labels: IntArray,
    config: TrainingConfig,
    private_seeds: Mapping[str, bytes] | None = None,
    rows: IntArray | None = None,
) -> Observation:
    """Train as `plain` does and keep every view."""
    seeds = dict(private_seeds or {})
    clients = {
        name: LocalClient(name, table, seeds.get(name) or fresh_private_seed()) for name, table in tables.items()
    }
    federation = ObservedFederation(clients)
    result = train(federation, labels, config, seeds.get("server") or fresh_private_seed(), rows=rows)
    return Observation(federation, result)

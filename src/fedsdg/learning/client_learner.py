"""One client in one phase: bottom model, gates and optimisers over its own prepared columns.

::

    G   = embed(rows, step)            integers, d open dimensions per row
    tau = forward_dither(...)          what the client adds to G W
    apply_gradient(dG, step)           integers from the server; moves theta (Adam), mu and omega (plain SGD)

It knows neither W nor the labels and cannot tell whether its integers travel encrypted. All randomness is a
function of (private seed, phase, step), so a step that was interrupted is repeated by embedding the same rows
again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.errors import DataError, ProtocolError
from fedsdg.learning.bottom_model import BottomModelFactory, build_bottom_model, seeded
from fedsdg.learning.fixed_point_layer import quantize, require_slots
from fedsdg.learning.gate_initialization import HALF_OPEN
from fedsdg.learning.model_state import StateArrays, adam_step, build_adam, model_from_arrays, model_to_arrays
from fedsdg.learning.noise_tape import STANDARD_NORMAL, Draw, KeptAfter, NoiseTape, Normal
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.stochastic_gate import StochasticGate, open_probability


@dataclass(frozen=True, eq=False)
class _PendingStep:
    """A training embedding that waits for its gradient."""

    step: int
    embedding: Tensor


class ClientLearner:
    """A client's trainable state in one phase."""

    def __init__(
        self,
        features: NDArray[np.float32],
        plan: PhasePlan,
        streams: RandomStreams,
        *,
        input_gates: FloatArray | None = None,
        embedding_start: float = HALF_OPEN,
        feature_of_input: IntArray | None = None,
        dither_streams: RandomStreams | None = None,
        embedding: int | None = None,
        bottom_model: BottomModelFactory | None = None,
    ) -> None:
        """Take all prepared rows of the inputs in use, and in a gated phase where the gates start.

        A column that preprocessing expanded into several inputs has one gate for all of them: `feature_of_input` says
        which column an input comes from (none: every input is a column of its own).
        """
        owner = np.arange(features.shape[1]) if feature_of_input is None else feature_of_input
        n_columns = int(owner.max(initial=-1)) + 1
        if plan.gated and (input_gates is None or len(input_gates) != n_columns or len(owner) != features.shape[1]):
            raise DataError("a gated phase needs one starting gate per column")
        self._tied = None if np.array_equal(owner, np.arange(features.shape[1])) else torch.from_numpy(owner.copy())
        self.plan = plan
        self.width = plan.embedding if embedding is None else embedding
        self.clipped_embeddings = 0
        self._dropout = plan.settings.dropout_for(features.shape[1], plan.n_train_rows)
        self._input_dropout = plan.settings.input_dropout_for(features.shape[1], plan.n_train_rows)
        self._streams = streams.derive(plan.name)
        self._dither_streams = (dither_streams or streams).derive(plan.name)
        self._features = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
        self._custom_module = bottom_model is not None
        self._bottom = build_bottom_model(
            plan.config.model, features.shape[1], plan.settings, self.width, self._streams, bottom_model
        )
        self._adam = build_adam(self._bottom, plan.settings.learning_rate, plan.settings.weight_decay)
        gates = plan.config.gates
        per_sample = gates.noise == "sample"
        self.input_gates = StochasticGate(input_gates, gates.sigma, per_sample) if input_gates is not None else None
        self.embedding_gates = (
            StochasticGate(np.full(self.width, embedding_start), gates.sigma, per_sample)
            if plan.embedding_gated
            else None
        )
        self._input_gate_noise, self._embedding_gate_noise = self._tape("input-gates"), self._tape("embedding-gates")
        self._input_noise = self._tape("input-noise", Normal(plan.settings.input_noise))
        self._kept_inputs = self._tape("input-dropout", KeptAfter(self._input_dropout))
        self._kept_dimensions = self._tape("embedding-dropout", KeptAfter(self._dropout))
        self._open = np.arange(self.width, dtype=np.int64)
        self._steps_closed = np.zeros(self.width, dtype=np.int64)
        self._pending: _PendingStep | None = None

    def initial_weights(self) -> IntArray:
        """Draw W0 from the private seed: d x k, or d weights for the element-wise layer."""
        stream = self._streams.numpy("interactive-weights")
        shape = (self.width, self.plan.outputs)
        if self.plan.config.interactive == "elementwise":
            # Scales of either sign: what the server sees of an embedding is unknown up to them.
            weights = np.asarray(stream.uniform(0.5, 1.5, size=self.width) * stream.choice([-1.0, 1.0], self.width))
        elif self.plan.config.model == "linear":
            # Each output has its own embedding dimension: near the identity, or a small first draw would stall it.
            weights = stream.uniform(-0.1, 0.1, size=shape) + np.eye(*shape)
        else:
            bound = 1.0 / math.sqrt(self.width * self.plan.n_clients)
            weights = stream.uniform(-bound, bound, size=shape)
        scaled = np.rint(weights * float(1 << self.plan.config.fixed_point.weight_fraction_bits))
        return np.asarray(scaled, dtype=np.int64)

    @property
    def module(self) -> nn.Module:
        """The bottom model."""
        return self._bottom

    @property
    def custom_module(self) -> bool:
        """Whether the bottom model is the party's own."""
        return self._custom_module

    @property
    def _copies(self) -> int:
        """How often a gated batch repeats its rows, each time with gate draws of its own."""
        return self.plan.config.mc_samples if self.plan.gated else 1

    def open_dimensions(self) -> tuple[int, ...]:
        """Return the embedding dimensions that are still computed and sent."""
        return tuple(self._open.tolist())

    def embed(self, rows: IntArray, step: int, training: bool) -> IntArray:
        """Return quantised embeddings of these rows: len(rows) x open dimensions.

        While training, gates are sampled and the step waits for :meth:`apply_gradient`; otherwise gates stand
        at their means.
        """
        batch = self._features[torch.from_numpy(np.asarray(rows, dtype=np.int64))]
        if not training:
            return self.embed_features(batch)
        embedding = self._forward_training(batch, step)
        self._pending = _PendingStep(step, embedding)
        return self._quantized(embedding)

    def embed_features(self, features: Tensor) -> IntArray:
        """Return quantised embeddings of prepared features outside training."""
        self._bottom.eval()
        with torch.no_grad():
            if self.input_gates is not None:
                features = features * self._per_input(self.input_gates.expected())
            embedding = self._bottom(features)
            if self.embedding_gates is not None:
                embedding = embedding * self.embedding_gates.expected()
            return self._quantized(embedding[:, torch.from_numpy(self._open)])

    def forward_dither(self, shape: tuple[int, ...], step: int, purpose: str = "training") -> IntArray:
        """Draw tau for one forward pass; each (purpose, step) must be used for one pass only."""
        bits = self.plan.config.fixed_point.forward_dither_bits
        streams = self._streams if purpose == "training" else self._dither_streams
        return streams.symmetric_integers(f"forward-dither/{purpose}", step, bits, shape)

    def apply_gradient(self, gradient: IntArray, step: int) -> None:
        """Learn from dL/dG (per sample, as integers) of the embedding of the same step."""
        pending, settings = self._pending, self.plan.config.fixed_point
        if pending is None or pending.step != step:
            raise ProtocolError(f"a gradient arrived for step {step}, and another step waits for one")
        if gradient.shape != tuple(pending.embedding.shape):
            raise DataError(f"dL/dG must have shape {tuple(pending.embedding.shape)}, got {gradient.shape}")
        terms = self.plan.outputs if self.plan.config.interactive == "dense" else 1
        gradient = require_slots(gradient, settings.backward_slot_bits(terms), "dL/dG")
        unit = float(1 << settings.backward_fraction_bits)
        mean_gradient = torch.from_numpy((gradient / (unit * len(gradient))).astype(np.float32))
        self._pending = None
        pending.embedding.backward(mean_gradient)  # type: ignore[no-untyped-call]
        adam_step(self._adam, self.plan.learning_rate(step))
        if self.input_gates is not None:
            self.input_gates.descend(
                self.plan.input_gate_rate(), self.plan.input_penalty(step), self.plan.gate_evidence()
            )
        if self.embedding_gates is not None:
            self.embedding_gates.descend(self.plan.embedding_gate_rate(), self.plan.embedding_penalty())
            self._count_closed_steps(self.embedding_gates)

    def drop_closed_dimensions(self) -> IntArray | None:
        """Drop dimensions that were shut for a whole epoch; return the positions kept, or None when all stay.

        The last dimension is never dropped. The interactive layer must keep the same positions.
        """
        closed = self._steps_closed[self._open] >= self.plan.batches.batches_per_epoch
        if closed.all():
            closed[0] = False
        if not closed.any():
            return None
        kept = np.flatnonzero(~closed)
        self._open = self._open[kept]
        return kept

    def snapshot(self) -> StateArrays:
        """Copy the whole state into named arrays."""
        arrays = model_to_arrays(self._bottom, self._adam)
        arrays["open_dimensions"] = self._open.copy()
        arrays["steps_closed"] = self._steps_closed.copy()
        arrays["clipped_embeddings"] = np.array(self.clipped_embeddings)
        if self.input_gates is not None:
            arrays["input_gates"] = self.input_gates.means()
        if self.embedding_gates is not None:
            arrays["embedding_gates"] = self.embedding_gates.means()
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a snapshot; an embedding that waited for its gradient is forgotten."""
        model_from_arrays(self._bottom, self._adam, arrays)
        self._open = np.array(arrays["open_dimensions"], dtype=np.int64)
        self._steps_closed = np.array(arrays["steps_closed"], dtype=np.int64)
        self.clipped_embeddings = int(arrays["clipped_embeddings"])
        if self.input_gates is not None:
            self.input_gates.restore(arrays["input_gates"])
        if self.embedding_gates is not None:
            self.embedding_gates.restore(arrays["embedding_gates"])
        self._pending = None

    def _forward_training(self, batch: Tensor, step: int) -> Tensor:
        if self._custom_module or not self._bottom.training:
            self._bottom.train()
        shape = (len(batch), batch.shape[1])
        if self.plan.settings.input_noise > 0:
            batch = batch + self._input_noise.cut(shape, step)
        if self._input_dropout > 0:
            batch = batch * self._kept_inputs.cut(shape, step)
        if self.input_gates is not None:
            noise = self._input_gate_noise.cut(self.input_gates.draws(len(batch), self._copies), step)
            batch = batch * self._per_input(self.input_gates.pass_on(noise, len(batch)))
        embedding = self._run_bottom(batch, step)
        if self.embedding_gates is not None:
            noise = self._embedding_gate_noise.cut(self.embedding_gates.draws(len(batch), self._copies), step)
            embedding = embedding * self.embedding_gates.pass_on(noise, len(batch))
        if self._dropout > 0:
            embedding = embedding * self._kept_dimensions.cut((len(batch), self.width), step)
        # Clamped inside the graph: a clipped value has no slope.
        limit = float(1 << self.plan.config.fixed_point.embedding_range_bits)
        all_open = len(self._open) == self.width
        kept: Tensor = embedding if all_open else embedding[:, torch.from_numpy(self._open)]
        self.clipped_embeddings += int((kept.detach().abs() >= limit).sum())
        return torch.clamp(kept, -limit, limit)

    def _tape(self, purpose: str, draw: Draw = STANDARD_NORMAL) -> NoiseTape:
        return NoiseTape(self._streams, purpose, draw)

    def _per_input(self, gates: Tensor) -> Tensor:
        """Give every input the gate of its column."""
        return gates if self._tied is None else gates[..., self._tied]

    def _run_bottom(self, batch: Tensor, step: int) -> Tensor:
        if not self._custom_module:
            embedding: Tensor = self._bottom(batch)
            return embedding
        # A user's module may contain dropout, which knows only the global stream.
        with seeded(self._streams.torch_seed("bottom-model-step", step)):
            embedding = self._bottom(batch)
        if embedding.shape != (len(batch), self.width):
            raise DataError(f"the bottom model returned shape {tuple(embedding.shape)}, not {(len(batch), self.width)}")
        return embedding

    def _quantized(self, embedding: Tensor) -> IntArray:
        settings = self.plan.config.fixed_point
        integers, _ = quantize(embedding.detach().numpy(), settings.embedding_fraction_bits, settings.embedding_bits)
        return integers

    def _count_closed_steps(self, gates: StochasticGate) -> None:
        probability = open_probability(gates.mean.detach(), gates.sigma).numpy()
        closed = probability < self.plan.config.gates.drop_probability
        self._steps_closed = np.where(closed, self._steps_closed + 1, 0)

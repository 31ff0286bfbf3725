"""The server in one phase: top model, loss and its optimiser.

::

    loss      = forward({client: Z_m}, rows, step)     integers from every client
    gradients = backward(step)                         {client: (D, D_step)}, and the top model takes its step
    tau2      = backward_dither(client, ...)           what the server adds to D W^T

Dense: the clients' Z are added. Element-wise: they are placed side by side, each client's open dimensions at
their own places. It knows no features, no gates and no W.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError, DataError, ProtocolError
from fedsdg.learning.fixed_point_layer import quantize, require_slots
from fedsdg.learning.model_state import StateArrays, adam_step, build_adam, model_from_arrays, model_to_arrays
from fedsdg.learning.objective import Objective, Score
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.top_model import build_top_model


@dataclass(frozen=True, eq=False)
class InteractiveGradient:
    """The loss's gradient by one client's Z, quantised twice."""

    gradient: IntArray
    """D = round(delta 2**f_d): for dL/dG."""
    step_gradient: IntArray
    """D_step = round(eta delta 2**f_step): for the update of W; the step size and 1/batch are inside."""


@dataclass(frozen=True, eq=False)
class _PendingStep:
    step: int
    rows: int
    z: Tensor
    loss: Tensor


class ServerLearner:
    """The server's trainable state in one phase."""

    def __init__(
        self, plan: PhasePlan, objective: Objective, embeddings: Mapping[str, int], streams: RandomStreams
    ) -> None:
        """``embeddings``: the full embedding width of every taking-part client, in a fixed order."""
        if not embeddings:
            raise ConfigError("no client takes part: at least one is needed")
        self.plan = plan
        self.objective = objective
        self.clipped_gradients = 0
        self._streams = streams.derive(plan.name)
        self._dense = plan.config.interactive == "dense"
        self._embeddings = dict(embeddings)
        self._open = {client: np.arange(width, dtype=np.int64) for client, width in embeddings.items()}
        width = plan.outputs if self._dense else sum(embeddings.values())
        self._top = build_top_model(
            plan.config.model,
            plan.config.interactive,
            width,
            plan.settings,
            objective.n_outputs,
            self._streams,
        )
        self._rates = (plan.settings.learning_rate, plan.settings.weight_decay)
        self._optimiser: torch.optim.AdamW | None = None
        self._pending: _PendingStep | None = None
        self._fixed: dict[str, IntArray] = {}

    @property
    def _adam(self) -> torch.optim.AdamW | None:
        """The optimiser, made when it is needed: a prediction needs none, and making one takes seconds to import."""
        if self._optimiser is None:
            self._optimiser = build_adam(self._top, *self._rates)
        return self._optimiser

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that take part, in the order of their Z."""
        return tuple(self._embeddings)

    @property
    def asked(self) -> tuple[str, ...]:
        """The clients that a prediction asks: all but those whose Z is the same for every row."""
        return tuple(client for client in self._embeddings if client not in self._fixed)

    def fix(self, client: str, row: IntArray) -> None:
        """Note the Z of a client without a selected column: every gate is shut, so it is the same for every row."""
        self._fixed[client] = np.asarray(row, dtype=np.int64)

    @property
    def widths(self) -> dict[str, int]:
        """The full embedding width of every taking-part client."""
        return dict(self._embeddings)

    def open_dimensions(self, client: str) -> tuple[int, ...]:
        """Return which embedding dimensions a client still sends."""
        return tuple(self._open[client].tolist())

    def set_open_dimensions(self, client: str, dimensions: tuple[int, ...]) -> None:
        """Note which embedding dimensions a client still sends."""
        self._open[client] = np.array(dimensions, dtype=np.int64)

    def forward(self, slots: Mapping[str, IntArray], rows: IntArray, step: int) -> float:
        """Finish the forward pass of a training step and return the mean loss."""
        z = self._join(slots, len(rows)).requires_grad_(True)
        if not self._top.training:
            self._top.train()
        loss = self.objective.per_sample_loss(self._top(z), rows).sum()
        mean = float(loss.detach()) / len(rows)
        if not np.isfinite(mean):
            raise DataError(f"training diverged at step {step}: the loss is not finite; lower the learning rates")
        self._pending = _PendingStep(step, len(rows), z, loss)
        return mean

    def backward(self, step: int) -> dict[str, InteractiveGradient]:
        """Return every client's quantised gradient, and let the top model take its step."""
        pending, settings = self._pending, self.plan.config.fixed_point
        if pending is None or pending.step != step:
            raise ProtocolError(f"backward for step {step}, which is not the step that waits for it")
        self._pending = None
        pending.loss.backward()  # type: ignore[no-untyped-call]
        assert pending.z.grad is not None
        delta = pending.z.grad.numpy().astype(np.float64)
        gradient, clipped = quantize(delta, settings.gradient_fraction_bits, settings.gradient_bits)
        self.clipped_gradients += clipped
        limit = float(1 << settings.gradient_range_bits)
        rate = self.plan.interactive_rate(step) / pending.rows
        step_gradient = np.rint(np.clip(delta, -limit, limit) * rate * float(1 << settings.step_fraction_bits))
        for parameter in self._top.parameters():
            if parameter.grad is not None:
                parameter.grad /= pending.rows
        adam_step(self._adam, self.plan.learning_rate(step))
        return self._per_client(gradient, step_gradient.astype(np.int64))

    def backward_dither(self, client: str, rows: int, step: int) -> IntArray:
        """Draw tau2 for one client's dL/dG of one step: rows x its open dimensions."""
        bits = self.plan.config.fixed_point.backward_dither_bits
        shape = (rows, len(self._open[client]))
        return self._streams.symmetric_integers(f"backward-dither/{client}", step, bits, shape)

    def outputs(self, slots: Mapping[str, IntArray]) -> Tensor:
        """Return the model's outputs outside training."""
        self._top.eval()
        with torch.no_grad():
            rows = len(next(iter(slots.values()))) if slots else 0
            outputs: Tensor = self._top(self._join(slots, rows))
            return outputs

    def precise_outputs(self, slots: Mapping[str, IntArray]) -> Tensor:
        """Return the model's outputs for a prediction: in double precision, rounded to single at the end.

        So a row scored alone and the same row scored among others get the same number.
        """
        rows = len(next(iter(slots.values())))
        top = copy.deepcopy(self._top).double().eval()
        with torch.no_grad():
            outputs: Tensor = top(torch.from_numpy(self._joined(slots, rows)))
            return outputs.float()

    def score(self, slots: Mapping[str, IntArray], rows: IntArray) -> Score:
        """Score a validation pass."""
        return self.objective.score(self.outputs(slots), rows)

    def refit(
        self, slots: Mapping[str, IntArray], rows: IntArray, n_train: int, steps: int = 300
    ) -> tuple[float, float]:
        """Train the top model alone on fixed Z of these rows (training rows first); keep it if validation improves.

        Returns the validation score before and after.
        """
        z = self._join(slots, len(rows))
        validation = rows[n_train:]

        def score() -> float:
            self._top.eval()
            with torch.no_grad():
                return self.objective.score(self._top(z[n_train:]), validation).value

        before, kept = score(), model_to_arrays(self._top, None)
        adam = build_adam(self._top, self.plan.settings.learning_rate, self.plan.settings.weight_decay)
        stream = self._streams.numpy("refit")
        self._top.train()
        for step in range(steps):
            batch = stream.integers(0, n_train, size=min(256, n_train))
            outputs = self._top(z[torch.from_numpy(batch)])
            self.objective.per_sample_loss(outputs, rows[batch]).mean().backward()  # type: ignore[no-untyped-call]
            adam_step(adam, self.plan.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps)))
        after = score()
        if after < before:
            model_from_arrays(self._top, None, kept)
            after = before
        return before, after

    def snapshot(self) -> StateArrays:
        """Copy the whole state into named arrays."""
        arrays = model_to_arrays(self._top, self._optimiser)
        arrays["clipped_gradients"] = np.array(self.clipped_gradients)
        for index, (client, dimensions) in enumerate(self._open.items()):
            arrays[f"open_dimensions/{index}"] = dimensions.copy()
            if client in self._fixed:
                arrays[f"fixed/{index}"] = self._fixed[client]
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a snapshot."""
        has_moments = any(name.startswith("adam/") for name in arrays)
        model_from_arrays(self._top, self._adam if has_moments else self._optimiser, arrays)
        self.clipped_gradients = int(arrays["clipped_gradients"])
        for index, client in enumerate(self._open):
            self._open[client] = np.array(arrays[f"open_dimensions/{index}"], dtype=np.int64)
            if f"fixed/{index}" in arrays:
                self.fix(client, arrays[f"fixed/{index}"])
        self._pending = None

    def _join(self, slots: Mapping[str, IntArray], rows: int) -> Tensor:
        return torch.from_numpy(self._joined(slots, rows).astype(np.float32))

    def _joined(self, slots: Mapping[str, IntArray], rows: int) -> NDArray[np.float64]:
        settings = self.plan.config.fixed_point
        unit = float(1 << settings.forward_fraction_bits)
        width = self.plan.outputs if self._dense else sum(self._embeddings.values())
        z = np.zeros((rows, width))
        start = 0
        for client, embedding in self._embeddings.items():
            if client not in slots and client in self._fixed:
                slots = {**slots, client: np.tile(self._fixed[client], (rows, 1))}
            if client not in slots:
                raise ProtocolError(f"client {client!r} is missing: a run pauses for it, zeros are never filled in")
            columns = np.arange(width) if self._dense else start + self._open[client]
            if slots[client].shape != (rows, len(columns)):
                raise DataError(
                    f"client {client!r}: Z must have shape {(rows, len(columns))}, got {slots[client].shape}"
                )
            terms = len(self._open[client]) if self._dense else 1
            values = require_slots(slots[client], settings.forward_slot_bits(terms), f"Z of client {client!r}")
            z[:, columns] += values.astype(np.float64) / unit
            start += embedding
        return z

    def _per_client(self, gradient: IntArray, step_gradient: IntArray) -> dict[str, InteractiveGradient]:
        if self._dense:
            return {client: InteractiveGradient(gradient, step_gradient) for client in self._embeddings}
        parts, start = {}, 0
        for client, embedding in self._embeddings.items():
            columns = start + self._open[client]
            parts[client] = InteractiveGradient(gradient[:, columns], step_gradient[:, columns])
            start += embedding
        return parts

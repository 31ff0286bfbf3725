"""The `masked` federation: what training asks of all clients, carried out with Algorithms 1, 2 and 3.

It implements the port `learning.federation.Federation`; the plain one computes the same integers in the clear.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedsdg.config import TrainingConfig
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, PublicKey
from fedsdg.crypto.layouts import ValueBits
from fedsdg.crypto.masking import check_sigma
from fedsdg.data.alignment import Alignment
from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError, DataError, ProtocolError
from fedsdg.learning.local_client import GateReport
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.server_learner import InteractiveGradient
from fedsdg.messages.base import Channel
from fedsdg.messages.filter_layout import filter_layout
from fedsdg.messages.filter_statistics import Statistic
from fedsdg.messages.gini_initialization import StartGatesAlike
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.secure_forward import StartPhase
from fedsdg.messages.selection import ReportGates, RestoreSnapshot, SaveSnapshot, SelectColumns, UsePhase
from fedsdg.messages.session import Joined, JoinRun, PrepareColumns, row_digest
from fedsdg.messages.survival import FinishRun, ResumeRun, SaveCheckpoint
from fedsdg.messages.widths import value_bits
from fedsdg.server.alignment import align_rows
from fedsdg.server.filter_scores import score_by_filter
from fedsdg.server.gini_initialization import initialise_by_gini
from fedsdg.server.noisy_weights import (
    DenseNoisyWeights,
    ElementwiseNoisyWeights,
    NoisyWeights,
    ServerKeys,
    Wide,
)
from fedsdg.server.secure_backward import secure_backward
from fedsdg.server.secure_forward import secure_forward
from fedsdg.state_files import Arrays, wide_from_array, wide_to_array

#: A client that claims more would only fill the server's memory.
MAX_COLUMNS = 1_000_000


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run goes on: a number that all parties know, and the server's own state then."""

    number: int
    run_id: bytes
    arrays: Arrays
    facts: Mapping[str, Any]


class MaskedFederation:
    """All clients behind one channel, with weights that nobody holds."""

    def __init__(
        self,
        channel: Channel,
        clients: Sequence[str],
        config: TrainingConfig,
        *,
        key_bits: int,
        sigma: int,
        n_rows: int | None,
        ids: Sequence[str] | None = None,
        checkpoint: Checkpoint | None = None,
        allow_test_keys: bool = False,
    ) -> None:
        """A0: meet the clients, agree on the job, exchange keys that live for this run only.

        `n_rows`: how many rows everybody must have, where they are aligned already; with `ids` the clients check that
        they are. With a checkpoint, all parties go back to it instead.
        """
        if not clients:
            raise ConfigError("no client takes part: at least one is needed")
        check_sigma(sigma, allow_weak=allow_test_keys)
        self.channel, self.config, self.sigma, self.key_bits = channel, config, sigma, key_bits
        private_key = PrivateKey.generate(key_bits, allow_test_size=allow_test_keys)
        self._encryptor = Encryptor(private_key)
        self._decryptor = Decryptor(self._encryptor)
        self.backend = self._encryptor.backend
        self._weights: dict[str, dict[str, NoisyWeights]] = {}
        self._open: dict[str, dict[str, tuple[int, ...]]] = {}
        self._snapshots: dict[tuple[str, int], dict[str, tuple[Wide, tuple[int, ...]]]] = {}
        self._changed: dict[str, tuple[int, ...]] = {}
        self._phase = ""
        settings, key = json.dumps(config.model_dump(mode="json")), private_key.public_key.to_bytes()
        if checkpoint is None:
            self.run_id = secrets.token_bytes(16)
            check = row_digest(self.run_id, ids)
            replies: Mapping[str, Joined] = channel.exchange(
                {name: JoinRun(name, self.run_id, settings, key_bits, sigma, key, check) for name in clients}
            )
        else:
            self.run_id, at = checkpoint.run_id, checkpoint.number
            replies = channel.exchange(
                {name: ResumeRun(name, self.run_id, at, settings, key_bits, sigma, key) for name in clients}
            )
        self._columns: dict[str, int] = {}
        self._keys: dict[str, ServerKeys] = {}
        for name, joined in replies.items():
            if n_rows is not None and joined.n_rows != n_rows:
                raise DataError(
                    f"client {name!r} has {joined.n_rows} rows and there are {n_rows} labels; align them first"
                )
            if not 1 <= joined.n_columns <= MAX_COLUMNS:
                raise ProtocolError(f"client {name!r} takes part with {joined.n_columns} columns")
            client_key = PublicKey.from_bytes(joined.public_key, bits=key_bits, allow_test_size=allow_test_keys)
            self._columns[name] = joined.n_columns
            self._keys[name] = ServerKeys(Evaluator(client_key), self._encryptor, self._decryptor)
        if checkpoint is not None:
            self._restore(checkpoint)

    def align(self, ids: Sequence[str], order: np.random.Generator) -> Alignment:
        """A0.3 to A0.5: find the common rows without showing the others."""
        return align_rows(self.channel, list(self._columns), ids, self.run_id, order)

    @property
    def weights(self) -> dict[str, NoisyWeights]:
        """The noisy weights of the present phase, one per taking-part client."""
        return self._weights[self._phase]

    def columns(self) -> dict[str, int]:
        """Return the number of columns of every client."""
        return dict(self._columns)

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Let every client prepare its columns."""
        if config != self.config:
            raise ConfigError("the clients joined with other settings")
        self.channel.exchange({name: PrepareColumns(train_rows) for name in self._columns})

    def initialise_gates(self, labels: IntArray | None, n_classes: int) -> None:
        """Algorithm 1, or gates that start alike."""
        if labels is None:
            self.channel.exchange({name: StartGatesAlike() for name in self._columns})
            return
        bins = self.config.binning.bins
        layouts = {
            name: GiniLayout(len(labels), columns, bins, n_classes, self.key_bits, self.sigma)
            for name, columns in self._columns.items()
        }
        initialise_by_gini(self.channel, layouts, labels, n_classes, self._encryptor, self._decryptor)

    def score_by_filter(self, statistic: Statistic, labels: IntArray, n_classes: int) -> None:
        """Let every client learn a filter's score of its columns. `labels`: rows x label columns, in numbers."""
        layouts = {
            name: filter_layout(
                statistic, len(labels), columns, n_classes, self.config.binning, self.key_bits, self.sigma
            )
            for name, columns in self._columns.items()
        }
        score_by_filter(self.channel, layouts, statistic, labels, n_classes, self._encryptor, self._decryptor)

    def start_phase(self, plan: PhasePlan, clients: tuple[str, ...]) -> dict[str, int]:
        """Start fresh learners at the clients and take their W0 + E."""
        request = StartPhase(plan.name, plan.n_clients, plan.total_columns, plan.n_train_rows, plan.task_outputs)
        replies = self.channel.exchange(dict.fromkeys(clients, request))
        bits = value_bits(self.config, plan.name, self.sigma, plan.rows_per_step)
        dense = self.config.interactive == "dense"
        kind = DenseNoisyWeights if dense else ElementwiseNoisyWeights
        layers: dict[str, NoisyWeights] = {}
        for name, reply in replies.items():
            shape = (reply.width, plan.outputs) if dense else (reply.width,)
            if reply.width < 1 or len(reply.noisy_weights) != int(np.prod(shape)):
                raise ProtocolError(f"client {name!r} sent {len(reply.noisy_weights)} weights for a layer of {shape}")
            limit = 1 << (bits.share + (1 if dense else 3))
            if any(abs(w) >= limit for w in reply.noisy_weights):
                raise ProtocolError(f"client {name!r} sent weights that are wider than a share")
            layers[name] = kind(np.array(reply.noisy_weights, object).reshape(shape), bits, self._keys[name])
        self._phase = plan.name
        self._weights[plan.name] = layers
        self._open[plan.name] = {name: tuple(range(reply.width)) for name, reply in replies.items()}
        return {name: reply.width for name, reply in replies.items()}

    def use_phase(self, name: str) -> None:
        """Let all parties return to a phase that was started before."""
        self._phase = name
        request = UsePhase("gated" if name == "gated" else "compact")
        self.channel.exchange(dict.fromkeys(self.weights, request))

    def forward(self, rows: IntArray, step: int, purpose: str) -> dict[str, IntArray]:
        """Algorithm 2."""
        return secure_forward(self.channel, self.weights, rows, step, purpose)

    def backward(
        self, gradients: Mapping[str, InteractiveGradient], dithers: Mapping[str, IntArray], step: int
    ) -> None:
        """Algorithm 3; clients may drop embedding dimensions on the way."""
        kept = secure_backward(self.channel, self.weights, gradients, dithers, step)
        for name, positions in kept.items():
            still_open = tuple(self._open[self._phase][name][p] for p in positions)
            self._open[self._phase][name] = self._changed[name] = still_open

    def drop_closed_dimensions(self) -> dict[str, tuple[int, ...]]:
        """Return the open dimensions of clients that dropped some in the last step."""
        changed, self._changed = self._changed, {}
        return changed

    def open_embeddings(self) -> int:
        """Return how many embedding dimensions are still sent, over all taking-part clients."""
        return sum(len(dimensions) for dimensions in self._open[self._phase].values())

    def gate_reports(self) -> dict[str, GateReport]:
        """Ask every client how many gates are open."""
        request = ReportGates(self.config.n_features is not None)
        replies = self.channel.exchange(dict.fromkeys(self.weights, request))
        for name, reply in replies.items():
            dimensions = len(self._open[self._phase][name])
            counts_fit = 0 <= reply.n_open <= self._columns[name] and 0 <= reply.open_embeddings <= dimensions
            values_fit = len(reply.open_means) == (reply.n_open if request.with_values else 0)
            if not (counts_fit and values_fit and all(0 < value < math.inf for value in reply.open_means)):
                raise ProtocolError(f"client {name!r} reported gates that it cannot have")
        return {
            name: GateReport(reply.n_open, np.array(reply.open_means, np.float64), reply.open_embeddings)
            for name, reply in replies.items()
        }

    def save_snapshot(self, step: int) -> None:
        """Let every party remember its own share of this step."""
        self._snapshots[self._phase, step] = {
            name: (weights.copy_weights(), self._open[self._phase][name]) for name, weights in self.weights.items()
        }
        self.channel.exchange(dict.fromkeys(self.weights, SaveSnapshot(step)))

    def restore_snapshot(self, step: int) -> None:
        """Let every party go back to its own share of this step."""
        for name, (noisy, still_open) in self._snapshots[self._phase, step].items():
            self.weights[name].restore_weights(noisy)
            self._open[self._phase][name] = still_open
        self.channel.exchange(dict.fromkeys(self.weights, RestoreSnapshot(step)))

    def select(self, quota: Mapping[str, int] | None) -> dict[str, int]:
        """Let every client fix its columns; it tells how many, not which."""
        self._snapshots.clear()
        replies = self.channel.exchange(
            {name: SelectColumns(None if quota is None else quota[name]) for name in self._columns}
        )
        for name, reply in replies.items():
            possible = range(self._columns[name] + 1) if quota is None else (quota[name],)
            if reply.count not in possible:
                raise ProtocolError(f"client {name!r} selected {reply.count} columns, which it cannot have")
        return {name: reply.count for name, reply in replies.items()}

    def save_checkpoint(self, number: int) -> None:
        """Let every client write down its state."""
        self.channel.exchange(dict.fromkeys(self._columns, SaveCheckpoint(number)))

    def finish(self) -> None:
        """Let every client keep its part of the model."""
        self.channel.exchange(dict.fromkeys(self._columns, FinishRun()))

    def to_state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the noisy weights of all phases and snapshots; keys are left out."""
        arrays: Arrays = {}
        for phase, layers in self._weights.items():
            arrays |= {f"weights/{phase}/{name}": wide_to_array(layer.noisy) for name, layer in layers.items()}
        for (phase, step), saved in self._snapshots.items():
            arrays |= {f"snapshot/{phase}/{step}/{name}": wide_to_array(noisy) for name, (noisy, _) in saved.items()}
        return arrays, {
            "run_id": self.run_id.hex(),
            "phase": self._phase,
            "open": self._open,
            "value_bits": {
                phase: asdict(next(iter(layers.values())).values) for phase, layers in self._weights.items()
            },
            "snapshots": [
                [phase, step, {name: still_open for name, (_, still_open) in saved.items()}]
                for (phase, step), saved in self._snapshots.items()
            ],
        }

    def _restore(self, checkpoint: Checkpoint) -> None:
        arrays, facts = checkpoint.arrays, checkpoint.facts
        kind = DenseNoisyWeights if self.config.interactive == "dense" else ElementwiseNoisyWeights
        for phase, still_open in facts["open"].items():
            bits = ValueBits(**facts["value_bits"][phase])
            self._weights[phase] = {
                name: kind(wide_from_array(arrays[f"weights/{phase}/{name}"]), bits, self._keys[name])
                for name in still_open
            }
            self._open[phase] = {name: tuple(dimensions) for name, dimensions in still_open.items()}
        for phase, step, dimensions in facts["snapshots"]:
            self._snapshots[phase, step] = {
                name: (wide_from_array(arrays[f"snapshot/{phase}/{step}/{name}"]), tuple(of_client))
                for name, of_client in dimensions.items()
            }
        self._phase = facts["phase"]

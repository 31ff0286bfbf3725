"""What a job will cost, before it starts: messages and bytes counted from the layouts, seconds from a short
calibration.

Every message of a run is laid out here with its real size, in the order in which `learning.two_phase_training` sends
it. The gated phase may stop early and dimensions may close, so these are upper bounds, close for a run that goes to the
end.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsdg.api import check_tables
from fedsdg.benchmarks.masked_minibatch import Keys
from fedsdg.client.interactive_share import DenseShare, ElementwiseShare, EmbeddingCiphertexts
from fedsdg.crypto import Encryptor, Evaluator, PrivateKey, backends
from fedsdg.crypto.backends.base import WINDOW_BITS
from fedsdg.crypto.blinded_ids import POINT_BYTES
from fedsdg.crypto.encrypted_array import wire_size
from fedsdg.crypto.layouts import ElementwisePlan, MinibatchPlan, ValueBits, plan_elementwise, plan_minibatch
from fedsdg.data.alignment import SERVER, Alignment
from fedsdg.data.arrays import IntArray
from fedsdg.job import RunSettings
from fedsdg.learning.objective import Objective
from fedsdg.learning.schedule import PhasePlan
from fedsdg.messages import codec
from fedsdg.messages.alignment import BlindedIds, BlindIds, TakeRows
from fedsdg.messages.base import Message
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, MaskedCounts, StartGatesAlike
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.secure_backward import ApplyGradient, ShareUpdate
from fedsdg.messages.secure_forward import (
    EmbedBatch,
    EncryptedEmbedding,
    MaskedSum,
    PhaseStarted,
    RemoveShare,
    StartPhase,
)
from fedsdg.messages.selection import (
    GateCounts,
    ReportGates,
    RestoreSnapshot,
    SaveSnapshot,
    SelectColumns,
    Selected,
    UsePhase,
)
from fedsdg.messages.session import Done, Joined, JoinRun, PrepareColumns
from fedsdg.messages.survival import FinishRun, SaveCheckpoint
from fedsdg.messages.widths import value_bits
from fedsdg.server.noisy_weights import DenseNoisyWeights, ElementwiseNoisyWeights
from fedsdg.simulation import PartyTables

PLAIN_STEP_SECONDS = 0.006
#: Hashing and blinding of one id, by both parties.
ALIGNMENT_SECONDS = 1.5e-4
#: A run id and a step never take more bytes than these.
RUN_ID, STEP = b"." * 16, 2**31


@dataclass(frozen=True)
class PhaseEstimate:
    """One part of the run."""

    name: str
    steps: int
    messages: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """The whole run."""

    phases: tuple[PhaseEstimate, ...]
    backend: str

    @property
    def messages(self) -> int:
        """Messages in both directions."""
        return sum(phase.messages for phase in self.phases)

    @property
    def bytes(self) -> int:
        """Bytes in both directions."""
        return sum(phase.bytes for phase in self.phases)

    @property
    def seconds(self) -> float:
        """Seconds on this machine, all parties on it."""
        return sum(phase.seconds for phase in self.phases)


@dataclass
class Tally:
    """Messages and their bytes, of one client or of all."""

    messages: int = 0
    bytes: int = 0

    def add(self, *messages: Message, blobs: int = 0) -> Tally:
        """Count messages; `blobs` are bytes of ciphertexts that were left out of them."""
        self.messages += len(messages)
        self.bytes += sum(len(codec.encode(message)) for message in messages) + blobs
        return self

    def include(self, other: Tally, times: int = 1) -> Tally:
        """Count what another tally counted, several times."""
        self.messages += other.messages * times
        self.bytes += other.bytes * times
        return self


def estimate(data: PartyTables, settings: RunSettings, alignment: Alignment | None = None) -> Estimate:
    """Count messages and bytes, and time one mini-batch of each phase on this machine; `data` is aligned."""
    parts = check_tables(data, settings)
    training, n_clients = settings.training, len(data.tables)
    if settings.profile == "plain":
        steps = training.gated_phase.steps + (training.compact_phase.steps if training.retrain else 0)
        return Estimate((PhaseEstimate("training", steps, 0, 0, steps * n_clients * PLAIN_STEP_SECONDS),), "none")
    started = time.perf_counter()
    key, other = PrivateKey.generate(settings.key_bits), PrivateKey.generate(settings.key_bits)
    keys = Keys(key, other, backends.choose().name)
    seconds = (time.perf_counter() - started) / 2 * (1 + n_clients)
    job = _Job(data, settings, keys, parts.training, parts.validation, parts.test)
    phases = [job.meeting(seconds), job.gini(), job.phase("gated")]
    if alignment is not None:
        phases.insert(1, aligning(alignment))
    if training.retrain:
        phases.append(job.phase("compact"))
    phases.append(job.ending("compact" if training.retrain else "gated"))
    return Estimate(tuple(phases), keys.backend)


def aligning(alignment: Alignment) -> PhaseEstimate:
    """A0.3 to A0.5: two messages there and two back for every client, 32 bytes per id and direction."""
    tally, seconds, server = Tally(), 0.0, alignment.sizes[SERVER]
    for name in alignment.pairwise:
        own = alignment.sizes[name]
        blobs = POINT_BYTES * (2 * server + own)
        tally.add(BlindIds(b""), BlindedIds(b"", b""), TakeRows(_rows(alignment.common)), Done(), blobs=blobs)
        seconds += ALIGNMENT_SECONDS * (server + own)
    return PhaseEstimate("align", 0, tally.messages, tally.bytes, seconds)


@dataclass(frozen=True, eq=False)
class _Job:
    """All that decides the cost of a masked run."""

    data: PartyTables
    settings: RunSettings
    keys: Keys
    train_rows: int
    validation_rows: int
    test_rows: int

    def meeting(self, seconds: float) -> PhaseEstimate:
        """A0: join, exchange keys, prepare columns."""
        text = json.dumps(self.settings.training.model_dump(mode="json"))
        public = self.keys.client.public_key.to_bytes()
        tally = Tally()
        for name, table in self.data.tables.items():
            tally.add(
                JoinRun(name, RUN_ID, text, self.settings.key_bits, self.settings.sigma, public, b""),
                Joined(table.n_rows, table.n_columns, public),
                PrepareColumns(_rows(self.train_rows)),
                Done(),
            )
        return PhaseEstimate("keys", 0, tally.messages, tally.bytes, seconds)

    def gini(self) -> PhaseEstimate:
        """Algorithm 1: count the multiplications and time some."""
        tally, training = Tally(), self.settings.training
        if training.gates.initialization == "constant":
            tally.include(Tally().add(StartGatesAlike(), Done()), len(self.data.tables))
            return PhaseEstimate("gini", 0, tally.messages, tally.bytes, 0.0)
        key, classes = self.keys.client.public_key, self._gini_classes()
        multiplication, encryption = self._gini_calibration()
        indicators, products, decryptions = self.train_rows * (classes - 1), 0, 0
        for table in self.data.tables.values():
            layout = GiniLayout(
                self.train_rows, table.n_columns, training.binning.bins, classes, key.bits, self.settings.sigma
            )
            counts, scores = layout.count_ciphertexts, layout.score_ciphertexts
            blobs = wire_size(key, (self.train_rows, classes - 1)) + wire_size(key, (counts,))
            blobs += wire_size(key, (scores,)) + scores * key.plain_bytes
            tally.add(CountLabels(classes, b""), MaskedCounts(b"", b""), FinishScores(b""), Done(), blobs=blobs)
            items = layout.scored_columns * layout.items_per_column
            digits = -(-layout.cross_bits // WINDOW_BITS) + -(-layout.fraction_bits // WINDOW_BITS)
            products += table.n_columns * indicators + items * (28 + digits) + (counts + scores) * key.bits
            decryptions += counts + scores
        seconds = products * multiplication + (indicators + 6 * decryptions) * encryption
        return PhaseEstimate("gini", 0, tally.messages, tally.bytes, seconds)

    def phase(self, name: Literal["gated", "compact"]) -> PhaseEstimate:
        """Algorithms 2 and 3, and validation on the way."""
        plan, n_clients = self._plan(name), len(self.data.tables)
        cost = self._costs(plan)
        each = Tally().add(
            StartPhase(name, n_clients, plan.total_columns, plan.n_train_rows, plan.task_outputs),
            PhaseStarted(plan.embedding, (1 << (cost.bits.share + 2),) * cost.n_weights),
        )
        each.include(cost.step_tally(), plan.steps)
        checkpoints = plan.steps // self.settings.checkpoint_every + 1 if self.settings.checkpoint_every else 0
        each.include(Tally().add(SaveCheckpoint(STEP), Done()), checkpoints)
        every = self.settings.training.validation.every
        looks = -(-plan.steps // every) if plan.gated else int(self.settings.training.final_rows == "training")
        each.include(cost.forward_tally(self.validation_rows, "validation"), looks)
        all_clients = Tally().include(each, n_clients)
        if plan.gated:
            extra = self._gated_extras(all_clients, cost, looks)
            looks += extra
        seconds = plan.steps * (cost.step_seconds + PLAIN_STEP_SECONDS)
        seconds += looks * cost.forward_seconds(self.validation_rows)
        return PhaseEstimate(name, plan.steps, all_clients.messages, all_clients.bytes, seconds * n_clients)

    def ending(self, kept: Literal["gated", "compact"]) -> PhaseEstimate:
        """Return to the kept model; refit on the true labels; score the test rows."""
        cost = self._costs(self._plan(kept), calibrate=False)
        each = Tally().add(UsePhase(kept), Done(), FinishRun(), Done())
        each.include(cost.forward_tally(1, "test"))  # what clients without a selected column send for every row
        seconds = 0.0
        looks = [self.train_rows + self.validation_rows] if self.settings.label_epsilon is not None else []
        for rows in (*looks, *([self.test_rows] if self.test_rows else [])):
            each.include(cost.forward_tally(rows, "test"))
            seconds += cost.forward_seconds(rows)
        n_clients = len(self.data.tables)
        tally = Tally().include(each, n_clients)
        return PhaseEstimate("test", 0, tally.messages, tally.bytes, seconds * n_clients)

    def _gated_extras(self, tally: Tally, cost: _PhaseCost, looks: int) -> int:
        """Add gate reports, snapshots and the selection; return how many further validation passes there can be."""
        wish = self.settings.training.n_features is not None
        extra = 2 if wish else 1  # the starting point, if every gate closes; and the selected columns, if wished for
        for table in self.data.tables.values():
            values = (0.5,) * table.n_columns if wish else ()
            report = Tally().add(ReportGates(wish), GateCounts(table.n_columns, values, cost.plan.embedding))
            tally.include(report, looks + extra)
            tally.include(Tally().add(SaveSnapshot(STEP), Done()), looks + 1)
            tally.include(Tally().add(RestoreSnapshot(STEP), Done()), 2)
            tally.add(SelectColumns(table.n_columns), Selected(table.n_columns))
            tally.include(cost.forward_tally(self.validation_rows, "validation"), extra)
        return extra

    def _gini_classes(self) -> int:
        objective = self._objective()
        return self.settings.training.binning.target_bins if objective.classes is None else len(objective.classes)

    def _objective(self) -> Objective:
        return Objective.fit(self.settings.training.task, self.data.labels, np.arange(len(self.data.labels)))

    def _gini_calibration(self) -> tuple[float, float]:
        """Return the seconds of one multiplication and of one encryption."""
        evaluator, encryptor = Evaluator(self.keys.client.public_key), Encryptor(self.keys.client)
        some = encryptor.encrypt([1] * 1024)
        started = time.perf_counter()
        evaluator.add(some, some)
        added = time.perf_counter()
        encryptor.encrypt([1] * 256)
        return (added - started) / 1024, (time.perf_counter() - added) / 256

    def _plan(self, name: Literal["gated", "compact"]) -> PhasePlan:
        columns = sum(table.n_columns for table in self.data.tables.values())
        outputs = self._objective().n_outputs
        everything = name == "compact" and self.settings.training.final_rows == "all"
        rows = self.train_rows + (self.validation_rows if everything else 0)
        return PhasePlan(name, self.settings.training, len(self.data.tables), columns, rows, outputs)

    def _costs(self, plan: PhasePlan, calibrate: bool = True) -> _PhaseCost:
        rows = plan.batches.rows_per_batch * (plan.config.mc_samples if plan.gated else 1)
        bits = value_bits(plan.config, plan.name, self.settings.sigma, rows)
        cost = _PhaseCost(plan, self.keys, bits, rows)
        cost.calibrate(2 if calibrate else 1)
        return cost


class _PhaseCost:
    """The cost of one step and of one forward pass of one client, from a real step on numbers that mean nothing."""

    def __init__(self, plan: PhasePlan, keys: Keys, bits: ValueBits, rows: int) -> None:
        self.plan, self.keys, self.bits, self.rows = plan, keys, bits, rows
        self.dense = plan.config.interactive == "dense"
        self.n_weights = plan.embedding * (plan.outputs if self.dense else 1)
        self.step_seconds = self._forward_seconds = 0.0
        self._step = Tally()

    def layout(self, rows: int, width: int | None = None) -> MinibatchPlan | ElementwisePlan:
        """Return where a batch of that many rows lies."""
        d, key_bits = width or self.plan.embedding, self.keys.client.public_key.bits
        if self.dense:
            return plan_minibatch(key_bits, rows, d, self.plan.outputs, self.bits)
        return plan_elementwise(key_bits, rows, d, self.bits)

    def calibrate(self, repetitions: int) -> None:
        """Run steps, count the bytes of the last and keep its time."""
        for _ in range(repetitions):
            self._run_step()

    def _run_step(self) -> None:
        d, outputs = self.plan.embedding, self.plan.outputs if self.dense else self.plan.embedding
        G, D = np.ones((self.rows, d), np.int64), np.ones((self.rows, outputs), np.int64)
        W, nothing = np.ones((d, outputs) if self.dense else d, np.int64), np.zeros((self.rows, max(d, outputs)), int)
        client: DenseShare | ElementwiseShare
        server: DenseNoisyWeights | ElementwiseNoisyWeights
        if self.dense:
            client = DenseShare(W, self.bits, self.keys.of_client)
            server = DenseNoisyWeights(client.first_noisy_weights, self.bits, self.keys.of_server)
        else:
            client = ElementwiseShare(W, self.bits, self.keys.of_client)
            server = ElementwiseNoisyWeights(client.first_noisy_weights, self.bits, self.keys.of_server)
        started = time.perf_counter()
        sent: EmbeddingCiphertexts = client.embed(G, training=True)
        product = server.weigh(sent.by_column, self.rows)
        values = client.remove(product, nothing[:, :outputs])
        server.unmask(values)
        halfway = time.perf_counter()
        weight_gradient = server.weight_gradient(sent.by_sample, D)
        embedding_gradient = server.embedding_gradient(sent.share or b"", D, nothing[:, :d])
        client.gradient(embedding_gradient)
        update = client.update(weight_gradient)
        server.update(update)
        self.step_seconds, self._forward_seconds = time.perf_counter() - started, halfway - started
        self._step = Tally().add(
            EmbedBatch(_rows(self.rows), STEP, "training"),
            EncryptedEmbedding(sent.by_column, sent.by_sample, sent.share),
            RemoveShare(product),
            MaskedSum(values),
            ApplyGradient(STEP, weight_gradient, embedding_gradient),
            ShareUpdate(update, None),
        )

    def step_tally(self) -> Tally:
        """Return the messages of one step. Fewer dimensions are cheaper to compute with, but may take more bytes."""
        narrow, wide = 0, self.layout(self.rows)
        if isinstance(wide, MinibatchPlan):
            widths = {max(1, self.plan.embedding >> shift) for shift in range(1, 13)}
            plans = [self.layout(self.rows, width) for width in widths]
            sizes = [sum(p.work.wire_bytes(wide.key_bits)) for p in plans if isinstance(p, MinibatchPlan)]
            narrow = max(0, max(sizes) - sum(wide.work.wire_bytes(wide.key_bits))) if self.plan.embedding_gated else 0
        return Tally(self._step.messages, self._step.bytes + narrow)

    def forward_tally(self, rows: int, purpose: Literal["validation", "test"]) -> Tally:
        """Return the messages of a forward pass."""
        key, blocks = self.keys.client.public_key, len(self.layout(rows).forward_blocks)
        outputs = self.plan.outputs if self.dense else self.plan.embedding
        blobs = wire_size(key, (blocks, self.plan.embedding)) + wire_size(key, (blocks, outputs))
        blobs += blocks * outputs * key.plain_bytes
        messages = (EmbedBatch(_rows(rows), STEP, purpose), EncryptedEmbedding(b"", None, None))
        return Tally().add(*messages, RemoveShare(b""), MaskedSum(b""), blobs=blobs)

    def forward_seconds(self, rows: int) -> float:
        """Return the time of a forward pass, block by block."""
        return (
            self._forward_seconds * len(self.layout(rows).forward_blocks) / len(self.layout(self.rows).forward_blocks)
        )


def _rows(count: int) -> IntArray:
    return np.zeros(count, np.int64)

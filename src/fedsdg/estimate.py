"""What a job will cost, before it starts: messages and bytes counted from the layouts, seconds from a short
calibration.

The gated phase may stop early and dimensions may close, so these are upper bounds for a run that goes to the end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from fedsdg.benchmarks.masked_minibatch import Clock, Keys, MaskedMinibatch
from fedsdg.config import TrainingConfig
from fedsdg.crypto import Encryptor, Evaluator, PrivateKey, plan_minibatch
from fedsdg.crypto.backends.base import WINDOW_BITS
from fedsdg.job import RunSettings
from fedsdg.learning.objective import Objective, guess_task
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.widths import value_bits
from fedsdg.simulation import PartyTables

PLAIN_STEP_SECONDS = 0.006


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


def estimate(data: PartyTables, settings: RunSettings) -> Estimate:
    """Count messages and bytes, and time one mini-batch of each phase on this machine."""
    training, n_clients = settings.training, len(data.tables)
    fit_rows = round(len(data.labels) * (1 - settings.test_fraction))
    train_rows = round(fit_rows * (1 - training.validation.fraction))
    validation_rows = fit_rows - train_rows
    if settings.profile == "plain":
        steps = training.gated_phase.steps + (training.compact_phase.steps if training.retrain else 0)
        return Estimate((PhaseEstimate("training", steps, 0, 0, steps * n_clients * PLAIN_STEP_SECONDS),), "none")
    bits = settings.key_bits
    started = time.perf_counter()
    key, other = PrivateKey.generate(bits), PrivateKey.generate(bits)
    setup = (time.perf_counter() - started) / 2 * (1 + n_clients)
    phases = [PhaseEstimate("keys", 0, 2 * n_clients, n_clients * bits // 4, setup)]
    if training.gates.initialization != "constant":
        phases.append(_gini(data, settings, train_rows, key))
    keys = Keys(key, other, Encryptor(key).backend)
    phases.append(_phase("gated", training, settings, keys, n_clients, train_rows, validation_rows, data))
    if training.retrain:
        phases.append(_phase("compact", training, settings, keys, n_clients, train_rows, validation_rows, data))
    return Estimate(tuple(phases), keys.backend)


def _n_classes(data: PartyTables, training: TrainingConfig) -> tuple[int, int]:
    """Return the classes of the Gini score and the outputs of the task."""
    values = np.asarray(data.labels)
    task = guess_task(values) if training.task == "auto" else training.task
    if task == "regression":
        return training.binning.target_bins, 1
    objective = Objective.fit(task, values, np.arange(len(values)))
    return len(np.unique(values)), objective.n_outputs


def _gini(data: PartyTables, settings: RunSettings, rows: int, key: PrivateKey) -> PhaseEstimate:
    """Count the multiplications of Algorithm 1 and time some."""
    classes, _ = _n_classes(data, settings.training)
    bits, bins = settings.key_bits, settings.training.binning.bins
    evaluator, encryptor = Evaluator(key.public_key), Encryptor(key)
    some = encryptor.encrypt([1] * 1024)
    started = time.perf_counter()
    evaluator.add(some, some)
    multiplication = (time.perf_counter() - started) / 1024
    started = time.perf_counter()
    encryptor.encrypt([1] * 256)
    encryption = (time.perf_counter() - started) / 256
    ciphertexts, products = rows * (classes - 1), 0
    total_bytes, layouts = 0, []
    for table in data.tables.values():
        layout = GiniLayout(rows, table.n_columns, bins, classes, bits, settings.sigma)
        layouts.append(layout)
        items = layout.scored_columns * layout.items_per_column
        digits = -(-layout.cross_bits // WINDOW_BITS) + -(-layout.fraction_bits // WINDOW_BITS)
        products += table.n_columns * rows * (classes - 1) + items * (28 + digits)
        products += (layout.count_ciphertexts + layout.score_ciphertexts) * bits
        total_bytes += (ciphertexts + layout.count_ciphertexts + layout.score_ciphertexts) * bits // 4
        total_bytes += layout.score_ciphertexts * bits // 8
    decryptions = sum(layout.count_ciphertexts + layout.score_ciphertexts for layout in layouts)
    seconds = products * multiplication + (ciphertexts + 6 * decryptions) * encryption
    return PhaseEstimate("gini", 0, 4 * len(layouts), total_bytes, seconds)


def _phase(
    name: str,
    training: TrainingConfig,
    settings: RunSettings,
    keys: Keys,
    n_clients: int,
    train_rows: int,
    validation_rows: int,
    data: PartyTables,
) -> PhaseEstimate:
    phase = training.gated_phase if name == "gated" else training.compact_phase
    rows = min(phase.batch_size, train_rows) * (training.mc_samples if name == "gated" else 1)
    linear = training.model == "linear"
    outputs = _n_classes(data, training)[1]
    d, k = (outputs, outputs) if linear else (phase.embedding, phase.outputs)
    bits = value_bits(training, name, settings.sigma, rows)
    plan = plan_minibatch(settings.key_bits, rows, d, k, bits)
    look = plan_minibatch(settings.key_bits, max(1, validation_rows), d, k, bits)
    work = MaskedMinibatch(plan, keys)
    clock = Clock(wall=True)
    wire = work.step(clock)
    looks = -(-phase.steps // training.validation.every) if name == "gated" else 1
    look_ciphertexts = (d + k) * len(look.forward_blocks)
    look_bytes = look_ciphertexts * settings.key_bits // 4 + k * len(look.forward_blocks) * settings.key_bits // 8
    seconds = clock.total * phase.steps * n_clients + phase.steps * n_clients * PLAIN_STEP_SECONDS
    seconds += looks * n_clients * clock.total / 3
    messages = n_clients * (6 * phase.steps + looks * (8 if name == "gated" else 4) + 2)
    return PhaseEstimate(name, phase.steps, messages, n_clients * (wire * phase.steps + look_bytes * looks), seconds)

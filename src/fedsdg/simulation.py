"""A whole job in one process: build the parties, train with a profile, keep what every face needs afterwards.

`plain` computes in the clear; `masked` runs the real roles over encoded, counted, encrypted messages. Both drive the
same procedure (`learning.two_phase_training`) and learn the same model, bit for bit, from the same private seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError
from fedsdg.job import RunSettings
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.objective import Objective, Score, guess_task, split_rows
from fedsdg.learning.plain_training import PlainFederation
from fedsdg.learning.randomness import RandomStreams, fresh_private_seed
from fedsdg.learning.two_phase_training import Progress, TrainingResult, train, train_on_all_columns
from fedsdg.runtime.in_process import InProcessChannel, Traffic
from fedsdg.server.federation import MaskedFederation
from fedsdg.server.label_privacy import inference_bound, randomised_response

SERVER = "server"


@dataclass(frozen=True, eq=False)
class PartyTables:
    """Aligned data of all parties: labels, and one table per client (the label owner may be one of them)."""

    labels: NDArray[np.generic]
    tables: Mapping[str, FeatureTable]
    label_owner: str = SERVER
    ids: tuple[str, ...] | None = None
    """One id per row, for the label draws of `label_epsilon`."""
    label_key: bytes | None = field(default=None, repr=False)
    """The label owner's lasting key for those draws; without it they are drawn for one run only."""

    def __post_init__(self) -> None:
        if not self.tables:
            raise ConfigError("no client takes part: at least one is needed")
        if SERVER in self.tables:
            raise ConfigError("a client cannot be called 'server'")
        for name, table in self.tables.items():
            if table.n_rows != len(self.labels):
                raise DataError(
                    f"client {name!r} has {table.n_rows} rows and there are {len(self.labels)} labels; align them first"
                )


@dataclass(frozen=True)
class Update:
    """What a watcher sees after every step."""

    phase: str
    step: int
    steps: int
    loss: float | None
    open_features: int | None
    open_embeddings: int | None
    score: float | None
    bytes: int
    seconds: float


@dataclass(eq=False)
class Simulation:
    """A finished run with all parties at hand."""

    settings: RunSettings
    clients: dict[str, LocalClient]
    result: TrainingResult
    federation: Any
    channel: InProcessChannel | None
    test_score: Score | None
    test_rows: IntArray
    seconds: dict[str, float]
    history: list[Update]
    seeds: Mapping[str, bytes] = field(repr=False)
    notes: list[str] = field(default_factory=list)
    _asked: int = 0

    @property
    def traffic(self) -> Traffic:
        """Messages and bytes (none in `plain`)."""
        return self.channel.traffic if self.channel is not None else Traffic()

    @property
    def objective(self) -> Objective:
        """The task, with the labels' own terms."""
        return self.result.server.objective

    def outputs(self, tables: Mapping[str, FeatureTable]) -> Tensor:
        """Return the model's raw outputs for new rows of all clients that hold selected columns."""
        self._asked += 1
        if self.channel is None:
            slots = self.federation.forward_tables(tables, self._asked)
        else:
            needed = list(self.federation.weights)
            missing = sorted(set(needed) - set(tables))
            if missing:
                raise DataError(
                    f"a prediction needs the tables of all clients with selected columns; missing: {missing}"
                )
            for name in needed:
                self.channel.roles[name].state.prediction_table = tables[name]
            rows = np.arange(tables[needed[0]].n_rows)
            slots = self.federation.forward(rows, self._asked, "prediction")
        return self.result.server.outputs(slots)

    def predict(self, tables: Mapping[str, FeatureTable]) -> NDArray[np.generic]:
        """Return predictions in the labels' own terms."""
        return self.objective.predictions(self.outputs(tables))

    def probabilities(self, tables: Mapping[str, FeatureTable]) -> FloatArray:
        """Return class probabilities."""
        return self.objective.probabilities(self.outputs(tables))


def simulate(
    data: PartyTables,
    settings: RunSettings,
    *,
    private_seeds: Mapping[str, bytes] | None = None,
    bottom_models: Mapping[str, BottomModelFactory] | None = None,
    watch: Callable[[Update], None] = lambda update: None,
    channel_type: type[InProcessChannel] = InProcessChannel,
    allow_test_keys: bool = False,
    key_bits: int | None = None,
) -> Simulation:
    """Run the whole method on aligned tables. Missing private seeds are drawn fresh."""
    with one_torch_thread():
        return _simulate(
            data,
            settings,
            private_seeds or {},
            bottom_models or {},
            watch,
            channel_type,
            allow_test_keys,
            key_bits or settings.key_bits,
        )


def _simulate(
    data: PartyTables,
    settings: RunSettings,
    private_seeds: Mapping[str, bytes],
    bottom_models: Mapping[str, BottomModelFactory],
    watch: Callable[[Update], None],
    channel_type: type[InProcessChannel],
    allow_test_keys: bool,
    bits: int,
) -> Simulation:
    started = time.perf_counter()
    seeds = {name: private_seeds.get(name) or fresh_private_seed() for name in (SERVER, *data.tables)}
    clients = {
        name: LocalClient(name, table, seeds[name], bottom_models.get(name)) for name, table in data.tables.items()
    }
    clock = _Clock()
    channel: InProcessChannel | None = None
    federation: Any
    if settings.profile == "plain":
        federation = PlainFederation(clients)
    else:
        roles = {
            name: ClientRole(ClientState(client, minimum_key_bits=min(bits, 2048), allow_test_keys=allow_test_keys))
            for name, client in clients.items()
        }
        channel = channel_type(roles)
        with clock("keys"):
            federation = MaskedFederation(
                channel,
                list(clients),
                settings.training,
                key_bits=bits,
                sigma=settings.sigma,
                n_rows=len(data.labels),
                allow_test_keys=allow_test_keys,
            )
    labels, notes = _protected_labels(data, settings, seeds[SERVER])
    # By the protected labels: clients see which rows train, and a split by true classes would say something about them.
    fit_rows, test_rows = _held_out(labels, settings, seeds[SERVER])
    history: list[Update] = []

    def on_progress(progress: Progress) -> None:
        update = Update(
            progress.phase,
            progress.step,
            progress.steps,
            progress.loss,
            progress.point.n_open if progress.point else None,
            federation.open_embeddings(),
            progress.point.score.value if progress.point else None,
            channel.traffic.total if channel else 0,
            time.perf_counter() - started,
        )
        history.append(update)
        clock.see(progress.phase)
        watch(update)

    clock.see("gini")
    watch(Update("gini", 0, 1, None, None, None, None, channel.traffic.total if channel else 0, 0.0))
    result = train(federation, labels, settings.training, seeds[SERVER], on_progress, rows=fit_rows)
    clock.stop()
    if result.chosen.step == 0 and settings.training.n_features is None:
        notes.append(
            "every gate closed before the first validation pass, so the starting gates were used instead: the columns "
            "say little about the labels, or the penalty is too strong for so few rows."
        )
    if sum(result.n_selected.values()) == sum(table.n_columns for table in data.tables.values()):
        notes.append("no column was dropped: validation preferred the model with all of them.")
    if settings.label_epsilon is not None:
        with clock("refit"):
            notes.append(_refit_on_clean_labels(federation, result, data.labels))
    test_score = None
    if len(test_rows):
        with clock("test"):
            test_score = result.server.score(federation.forward(test_rows, 0, "test"), test_rows)
    clock.seconds["total"] = time.perf_counter() - started
    return Simulation(
        settings,
        clients,
        result,
        federation,
        channel,
        test_score,
        test_rows,
        clock.seconds,
        history,
        seeds,
        notes,
    )


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch on one thread: the models are small, and results must not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def score_with_all_features(data: PartyTables, settings: RunSettings, seeds: Mapping[str, bytes]) -> float:
    """Train the same model on every column, in the clear, and score it on the same held-out rows."""
    clients = {name: LocalClient(name, table, seeds[name]) for name, table in data.tables.items()}
    federation = PlainFederation(clients)
    fit_rows, test_rows = _held_out(data.labels, settings, seeds[SERVER])
    with one_torch_thread():
        server = train_on_all_columns(federation, data.labels, settings.training, seeds[SERVER], rows=fit_rows)
        return server.score(federation.forward(test_rows, 0, "test"), test_rows).value


def _protected_labels(data: PartyTables, settings: RunSettings, seed: bytes) -> tuple[NDArray[np.generic], list[str]]:
    epsilon, labels = settings.label_epsilon, data.labels
    if epsilon is None:
        return labels, []
    objective = Objective.fit(settings.training.task, labels, np.arange(len(labels)))
    if objective.task == "regression":
        raise ConfigError("label_epsilon protects class labels; a regression target cannot be randomised that way.")
    protected = randomised_response(labels, epsilon, data.label_key or seed, data.ids)
    changed = float(np.mean(protected != labels))
    n_classes = len(np.unique(labels))
    bound = inference_bound(epsilon, n_classes)
    note = (
        f"label_epsilon = {epsilon:g}: {changed:.1%} of the labels were replaced in everything that clients take part "
        f"in. What a client receives about a person makes their label at most {bound:.1%} likely, from {n_classes} "
        "equally likely classes and nothing else known."
    )
    if data.label_key is None:
        return protected, [
            note,
            "labels were drawn for this run only: over several runs the bounds add up (label_key).",
        ]
    return protected, [note]


def _held_out(labels: NDArray[np.generic], settings: RunSettings, seed: bytes) -> tuple[IntArray, IntArray]:
    """Split off the test rows, class by class where there are classes."""
    if settings.test_fraction == 0:
        return np.arange(len(labels)), np.empty(0, np.int64)
    values = np.asarray(labels)
    task = guess_task(values) if settings.training.task == "auto" else settings.training.task
    stream = RandomStreams(seed, (SERVER,)).numpy("test-rows")
    return split_rows(values, task != "regression", settings.test_fraction, stream)


def _refit_on_clean_labels(federation: Any, result: TrainingResult, labels: ArrayLike) -> str:
    """Train the kept top model further on the true labels: after the last message that depends on a label."""
    learner = result.server
    rows = np.concatenate([result.train_rows, result.validation_rows])
    slots = federation.forward(rows, 0, "refit")
    learner.objective = Objective.fit(learner.objective.task, labels, result.train_rows)
    before, after = learner.refit(slots, rows, len(result.train_rows))
    return f"top model refitted on the true labels: validation score {before:.3f} -> {after:.3f}."


class _Clock:
    """Wall seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._phase: str | None = None
        self._since = 0.0

    def see(self, phase: str) -> None:
        """Note that a phase is going on."""
        if phase != self._phase:
            self.stop()
            self._phase, self._since = phase, time.perf_counter()

    def stop(self) -> None:
        """Close the present phase."""
        if self._phase is not None:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + time.perf_counter() - self._since
            self._phase = None

    def __call__(self, phase: str) -> _Span:
        return _Span(self, phase)


class _Span:
    def __init__(self, clock: _Clock, phase: str) -> None:
        self._clock, self._phase = clock, phase

    def __enter__(self) -> None:
        self._clock.see(self._phase)

    def __exit__(self, *exc: object) -> None:
        self._clock.stop()

"""The whole method as one procedure over a port: the same lines train in the clear and under encryption.

::

    split rows -> initialise gates (Algorithm 1)
               -> gated phase: (forward, backward)*  with validation passes on the way     (Algorithms 2 and
               3) -> choose a point of the path, restore it, select -> compact phase: a fresh model on the
               selected columns -> keep the better of the two by validation

:class:`Federation` is the port: what the server asks of all clients at once, in integers. `plain` implements
it in one process with clear weights; a `masked` run implements it with encrypted messages and shared weights.
Since every number that reaches a learner is the same integer in both, they learn the same model bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.local_client import GateReport
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.objective import Objective, Score, guess_task, split_rows
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.selection import PathPoint, choose_point, out_of_reach, quotas
from fedsdg.learning.server_learner import InteractiveGradient, ServerLearner


class Federation(Protocol):
    """All clients, as the server reaches them. Mappings are keyed by client, in a fixed order."""

    def columns(self) -> Mapping[str, int]:
        """Return the number of columns of every client."""
        ...

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Let every client prepare its columns."""
        ...

    def initialise_gates(self, labels: IntArray | None, n_classes: int) -> None:
        """Run Algorithm 1 with the class codes of the training rows (none: gates start alike)."""
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


@dataclass(frozen=True)
class Progress:
    """One training step or validation pass, for whoever watches."""

    phase: str
    step: int
    steps: int
    loss: float
    point: PathPoint | None = None


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What the server knows at the end."""

    kept: Literal["gated", "compact"]
    learners: Mapping[str, ServerLearner]
    """The server's learner per phase."""
    scores: Mapping[str, Score]
    """Validation score per phase."""
    path: tuple[PathPoint, ...]
    chosen: PathPoint
    n_selected: Mapping[str, int]
    losses: Mapping[str, tuple[float, ...]]
    train_rows: IntArray
    validation_rows: IntArray
    clipped_gradients: int

    @property
    def server(self) -> ServerLearner:
        """The server's learner of the phase that was kept."""
        return self.learners[self.kept]


def train(
    federation: Federation,
    labels: ArrayLike,
    config: TrainingConfig,
    server_seed: bytes,
    watch: Callable[[Progress], None] = lambda progress: None,
    rows: IntArray | None = None,
) -> TrainingResult:
    """Select features and train a model on them; with ``rows``, all other rows stay untouched."""
    return _Run(federation, labels, config, RandomStreams(server_seed, ("server",)), watch, rows).train()


def train_on_all_columns(
    federation: Federation,
    labels: ArrayLike,
    config: TrainingConfig,
    server_seed: bytes,
    watch: Callable[[Progress], None] = lambda progress: None,
    rows: IntArray | None = None,
) -> ServerLearner:
    """Train the compact phase's model on every column, without gates: what a selection is compared with."""
    run = _Run(federation, labels, config, RandomStreams(server_seed, ("server",)), watch, rows)
    federation.begin(config, run.train_rows)
    federation.initialise_gates(None, 0)
    return run.compact_phase(run.columns)


class _Run:
    """One run of the procedure, seen from the server."""

    def __init__(
        self,
        federation: Federation,
        labels: ArrayLike,
        config: TrainingConfig,
        streams: RandomStreams,
        watch: Callable[[Progress], None],
        rows: IntArray | None = None,
    ) -> None:
        self.federation, self.config, self.streams, self.watch = federation, config, streams, watch
        self.columns = dict(federation.columns())
        self.total_columns = sum(self.columns.values())
        if not self.columns:
            raise ConfigError("no client takes part: at least one is needed")
        if config.n_features is not None and config.n_features > self.total_columns:
            raise ConfigError(
                f"n_features={config.n_features}, but the clients have {self.total_columns} columns in total"
            )
        values = np.asarray(labels)
        if values.ndim != 1 or len(values) < 2:
            raise DataError(f"labels must be one value per row of at least 2 rows, got shape {values.shape}")
        task = guess_task(values) if config.task == "auto" else config.task
        usable = np.arange(len(values), dtype=np.int64) if rows is None else np.sort(np.asarray(rows, dtype=np.int64))
        training, validation = split_rows(
            values[usable], task != "regression", config.validation.fraction, streams.numpy("validation-rows")
        )
        self.train_rows, self.validation_rows = usable[training], usable[validation]
        self.objective = Objective.fit(task, values, self.train_rows)
        self.streams = streams.bound_to(
            config.model_dump_json().encode(), values[self.train_rows].tobytes(), self.train_rows.tobytes()
        )
        self.losses: dict[str, tuple[float, ...]] = {}

    def train(self) -> TrainingResult:
        config, federation = self.config, self.federation
        federation.begin(config, self.train_rows)
        if config.gates.initialization == "constant":
            federation.initialise_gates(None, 0)
        else:
            federation.initialise_gates(*self.objective.gini_classes(self.train_rows, config.binning.target_bins))

        gated, path, states = self.gated_phase()
        rule = config.validation.rule if config.penalty.strength == "auto" else "last"
        chosen = choose_point(path, rule, config.n_features)
        federation.restore_snapshot(chosen.step)
        gated.restore(states[chosen.step])
        n_selected = self.select(chosen)
        scores = {"gated": chosen.score}
        if sum(n_selected.values()) != chosen.n_open:
            scores["gated"] = self.validate(gated, chosen.step, "selected")

        kept: Literal["gated", "compact"] = "gated"
        learners: dict[str, ServerLearner] = {"gated": gated}
        if config.retrain:
            learners["compact"] = self.compact_phase(n_selected)
            scores["compact"] = self.validate(learners["compact"], config.compact_phase.steps, "validation")
            kept = self.better(scores)
        federation.use_phase(kept)
        clipped = sum(learner.clipped_gradients for learner in learners.values())
        return TrainingResult(
            kept,
            learners,
            scores,
            tuple(path),
            chosen,
            n_selected,
            self.losses,
            self.train_rows,
            self.validation_rows,
            clipped,
        )

    def gated_phase(self) -> tuple[ServerLearner, list[PathPoint], dict[int, StateArrays]]:
        """Train weights and gates together while the penalty rises; stop when nothing more can be gained."""
        config, plan = self.config, self.plan("gated", len(self.columns))
        server = self.start(plan, tuple(self.columns))
        path: list[PathPoint] = []
        self.federation.save_snapshot(0)
        states: dict[int, StateArrays] = {0: server.snapshot()}
        losses: list[float] = []
        for step in range(plan.steps):
            losses.append(self.step(server, plan, step))
            done = step + 1
            point = None
            if done % config.validation.every == 0 or done == plan.steps:
                n_open = sum(report.n_open for report in self.federation.gate_reports().values())
                point = PathPoint(done, n_open, self.validate(server, done, "validation"))
                path.append(point)
                self.federation.save_snapshot(done)
                states[done] = server.snapshot()
            self.watch(Progress("gated", done, plan.steps, losses[-1], point))
            if point is not None and self.finished(path):
                break
        self.losses["gated"] = tuple(losses)
        wanted = self.config.n_features or 1
        if all(point.n_open < wanted for point in path):
            path.append(self.starting_point(server, states))
        return server, path, states

    def starting_point(self, server: ServerLearner, states: Mapping[int, StateArrays]) -> PathPoint:
        """Return the point before the first step: what is left when too few gates survived to the first look."""
        self.federation.restore_snapshot(0)
        server.restore(states[0])
        n_open = sum(report.n_open for report in self.federation.gate_reports().values())
        return PathPoint(0, n_open, self.validate(server, 0, "validation"))

    def finished(self, path: list[PathPoint]) -> bool:
        """Return whether further steps of the gated phase would be wasted."""
        wish = self.config.n_features
        if wish is not None:
            return path[-1].n_open < wish
        if path[-1].n_open == 0:
            return True
        return self.config.penalty.strength == "auto" and out_of_reach(path, self.config.validation.patience)

    def select(self, chosen: PathPoint) -> dict[str, int]:
        """Let the clients fix their columns: all open ones, or their share of the wished number."""
        wish = self.config.n_features
        if wish is None:
            return dict(self.federation.select(None))
        open_means = {client: report.open_means for client, report in self.federation.gate_reports().items()}
        return dict(self.federation.select(quotas(open_means, wish)))

    def compact_phase(self, n_selected: Mapping[str, int]) -> ServerLearner:
        """Train a fresh model on the selected columns; clients without one do not take part."""
        clients = tuple(client for client, count in n_selected.items() if count > 0)
        plan = self.plan("compact", len(clients))
        server = self.start(plan, clients)
        losses: list[float] = []
        for step in range(plan.steps):
            losses.append(self.step(server, plan, step))
            self.watch(Progress("compact", step + 1, plan.steps, losses[-1]))
        self.losses["compact"] = tuple(losses)
        return server

    def step(self, server: ServerLearner, plan: PhasePlan, step: int) -> float:
        """Take one training step: Algorithm 2, then Algorithm 3."""
        rows = self.train_rows[plan.batches.batch(step)]
        if plan.gated:
            rows = np.tile(rows, self.config.mc_samples)  # each copy of a row meets its own gate draw
        loss = server.forward(self.federation.forward(rows, step, "training"), rows, step)
        gradients = server.backward(step)
        dithers = {client: server.backward_dither(client, len(rows), step) for client in server.clients}
        self.federation.backward(gradients, dithers, step)
        for client, dimensions in self.federation.drop_closed_dimensions().items():
            server.set_open_dimensions(client, dimensions)
        return loss

    def validate(self, server: ServerLearner, step: int, purpose: str) -> Score:
        """Score the present model on the validation rows: a forward pass with gates at their means."""
        return server.score(self.federation.forward(self.validation_rows, step, purpose), self.validation_rows)

    def start(self, plan: PhasePlan, clients: tuple[str, ...]) -> ServerLearner:
        return ServerLearner(plan, self.objective, self.federation.start_phase(plan, clients), self.streams)

    def plan(self, name: Literal["gated", "compact"], n_clients: int) -> PhasePlan:
        return PhasePlan(
            name, self.config, n_clients, self.total_columns, len(self.train_rows), self.objective.n_outputs
        )

    @staticmethod
    def better(scores: Mapping[str, Score]) -> Literal["gated", "compact"]:
        """Return the better phase: the compact one, unless the gated one is ahead by a standard error.

        The gated score was the choice among many on the same rows, so it flatters; the compact one was looked at once.
        """
        lead = scores["gated"].value - scores["compact"].value
        return "gated" if lead > scores["compact"].standard_error else "compact"

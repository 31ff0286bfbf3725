"""The whole method as one procedure over a port: the same lines train in the clear and under encryption.

::

    split rows -> initialise gates (Algorithm 1)
               -> gated phase: (forward, backward)*  with validation passes on the way     (Algorithms 2 and
               3) -> choose a point of the path, restore it, select -> compact phase: a fresh model on the
               selected columns -> keep the better of the two by validation

The port is `learning.federation.Federation`: what the server asks of all clients at once, in integers. `plain`
implements it in one process with clear weights; a `masked` run implements it with encrypted messages and shared
weights. Since every number that reaches a learner is the same integer in both, they learn the same model bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.federation import Federation, Keeper, NoKeeper
from fedsdg.learning.gini import sampled_rows
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.objective import Objective, Score, guess_task, split_rows
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.selection import PathPoint, Taste, choose_point, out_of_reach, quotas, steadied
from fedsdg.learning.server_learner import ServerLearner
from fedsdg.learning.training_result import Progress, TrainingResult
from fedsdg.state_files import under_prefix, with_prefix


def train(
    federation: Federation,
    labels: ArrayLike,
    config: TrainingConfig,
    server_seed: bytes,
    watch: Callable[[Progress], None] = lambda progress: None,
    rows: IntArray | None = None,
    keeper: Keeper | None = None,
) -> TrainingResult:
    """Select features and train a model on them; with ``rows``, all other rows stay untouched."""
    run = _Run(federation, labels, config, RandomStreams(server_seed, ("server",)), watch, rows, keeper)
    return run.train()


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
        keeper: Keeper | None = None,
    ) -> None:
        self.federation, self.config, self.streams, self.watch = federation, config, streams, watch
        self.keeper: Keeper = keeper or NoKeeper()
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
        self.losses: dict[str, list[float]] = {}
        self.learners: dict[str, ServerLearner] = {}
        self.path: list[PathPoint] = []
        self.states: dict[int, StateArrays] = {}
        self.chosen: PathPoint | None = None
        self.n_selected: dict[str, int] = {}
        self.scores: dict[str, Score] = {}

    def train(self) -> TrainingResult:
        config, federation = self.config, self.federation
        if self.keeper.resumed is not None:
            self.restore_state(*self.keeper.resumed)
        else:
            federation.begin(config, self.train_rows)
            self.initialise_gates()

        # Chosen already: a run that was resumed in the compact phase.
        chosen = self.chosen if self.chosen is not None else self.choose(self.gated_phase())
        kept: Literal["gated", "compact"] = "gated"
        if config.retrain:
            compact = self.compact_phase(self.n_selected)
            kept = "compact"
            if config.final_rows == "training":  # else they were learned from, and say nothing any more
                self.scores["compact"] = self.validate(compact, config.compact_phase.steps, "validation")
                kept = self.better(self.scores)
        federation.use_phase(kept)
        self.fix_constant_clients(self.learners[kept])
        return TrainingResult(
            kept,
            self.learners,
            self.scores,
            tuple(self.path),
            chosen,
            self.n_selected,
            {phase: tuple(losses) for phase, losses in self.losses.items()},
            self.train_rows,
            self.validation_rows,
            sum(learner.clipped_gradients for learner in self.learners.values()),
        )

    def initialise_gates(self) -> None:
        """Algorithm 1 over the scored rows, or gates that start alike."""
        if self.config.gates.initialization == "constant":
            self.federation.initialise_gates(None, 0)
            return
        codes, n_classes = self.objective.gini_classes(self.train_rows, self.config.binning.target_bins)
        self.federation.initialise_gates(codes[sampled_rows(len(codes), self.config.seed)], n_classes)

    def choose(self, gated: ServerLearner) -> PathPoint:
        """Choose a point of the path, go back to it and fix the columns."""
        config = self.config
        rule = config.validation.rule if config.penalty.strength == "auto" else "last"
        taste = Taste.of(config.validation, self.total_columns)
        step = choose_point(steadied(self.path), rule, config.n_features, taste).step
        chosen = next(point for point in self.path if point.step == step)
        self.federation.restore_snapshot(chosen.step)
        gated.restore(self.states[chosen.step])
        self.n_selected = self.select(chosen)
        self.states.clear()
        self.scores["gated"] = chosen.score
        if sum(self.n_selected.values()) != chosen.n_open:
            self.scores["gated"] = self.validate(gated, chosen.step, "selected")
        self.chosen = chosen
        return chosen

    def gated_phase(self) -> ServerLearner:
        """Train weights and gates together while the penalty rises; stop when nothing more can be gained."""
        config, plan = self.config, self.plan("gated", len(self.columns))
        if "gated" not in self.learners:
            self.start(plan, tuple(self.columns))
            self.federation.save_snapshot(0)
            self.states[0] = self.learners["gated"].snapshot()
        server, losses, path = self.learners["gated"], self.losses["gated"], self.path
        done_before = bool(path) and path[-1].step == len(losses) and self.finished(path)
        for step in range(len(losses), 0 if done_before else plan.steps):
            losses.append(self.step(server, plan, step))
            done = step + 1
            point = None
            if done % config.validation.every == 0 or done == plan.steps:
                n_open = sum(report.n_open for report in self.federation.gate_reports().values())
                point = PathPoint(done, n_open, self.validate(server, done, "validation"))
                path.append(point)
                self.federation.save_snapshot(done)
                self.states[done] = server.snapshot()
            self.watch(Progress("gated", done, plan.steps, losses[-1], point, server if point else None))
            self.keeper.after_step(done, self.to_state)
            if point is not None and self.finished(path):
                break
        wanted = self.config.n_features or 1
        if all(point.n_open < wanted for point in path):
            path.append(self.starting_point(server, self.states))
        return server

    def fix_constant_clients(self, server: ServerLearner) -> None:
        """Ask clients without a selected column once for what they send for every row; predictions leave them alone."""
        idle = [client for client in server.clients if self.n_selected[client] == 0]
        if idle:
            slots = self.federation.forward(self.train_rows[:1], 1, "refit")
            for client in idle:
                server.fix(client, slots[client][0])

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
        if "compact" not in self.learners:
            self.start(plan, clients)
        server, losses = self.learners["compact"], self.losses["compact"]
        before = len(self.losses.get("gated", ()))
        for step in range(len(losses), plan.steps):
            losses.append(self.step(server, plan, step))
            self.watch(Progress("compact", step + 1, plan.steps, losses[-1]))
            self.keeper.after_step(before + step + 1, self.to_state)
        return server

    def step(self, server: ServerLearner, plan: PhasePlan, step: int) -> float:
        """Take one training step: Algorithm 2, then Algorithm 3."""
        rows = self.rows_of(plan.name)[plan.batches.batch(step)]
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

    def start(self, plan: PhasePlan, clients: tuple[str, ...]) -> None:
        widths = self.federation.start_phase(plan, clients)
        self.learners[plan.name] = ServerLearner(plan, self.objective, widths, self.streams)
        self.losses[plan.name] = []

    def to_state(self) -> tuple[StateArrays, dict[str, Any]]:
        """Return where the procedure stands, between two steps."""
        arrays: StateArrays = {}
        for name, learner in self.learners.items():
            arrays |= with_prefix(f"learner/{name}/", learner.snapshot())
        for step, state in self.states.items():
            arrays |= with_prefix(f"state/{step}/", state)
        if self.path:
            arrays["path/row_losses"] = np.stack([point.score.row_losses for point in self.path])
        return arrays, {
            "widths": {name: learner.widths for name, learner in self.learners.items()},
            "states": list(self.states),
            "losses": self.losses,
            "path": [_facts(point) for point in self.path],
            "chosen": None if self.chosen is None else _facts(self.chosen),
            "n_selected": self.n_selected,
            "scores": {name: score.facts() for name, score in self.scores.items()},
        }

    def restore_state(self, arrays: StateArrays, facts: Mapping[str, Any]) -> None:
        """Go on from `to_state`; the federation has gone back to the same step."""
        for name, widths in facts["widths"].items():
            learner = ServerLearner(self.plan(name, len(widths)), self.objective, widths, self.streams)
            learner.restore(under_prefix(f"learner/{name}/", arrays))
            self.learners[name] = learner
        self.states = {step: under_prefix(f"state/{step}/", arrays) for step in facts["states"]}
        self.losses = {name: list(losses) for name, losses in facts["losses"].items()}
        row_losses = arrays.get("path/row_losses", [np.empty(0)] * len(facts["path"]))
        self.path = [_point(saved, losses) for saved, losses in zip(facts["path"], row_losses, strict=True)]
        self.chosen = None if facts["chosen"] is None else _point(facts["chosen"])
        self.n_selected = dict(facts["n_selected"])
        self.scores = {name: Score(**saved) for name, saved in facts["scores"].items()}

    def plan(self, name: Literal["gated", "compact"], n_clients: int) -> PhasePlan:
        return PhasePlan(
            name, self.config, n_clients, self.total_columns, len(self.rows_of(name)), self.objective.n_outputs
        )

    def rows_of(self, phase: Literal["gated", "compact"]) -> IntArray:
        """Return the rows that a phase learns from."""
        if phase == "compact" and self.config.final_rows == "all":
            return np.sort(np.concatenate([self.train_rows, self.validation_rows]))
        return self.train_rows

    @staticmethod
    def better(scores: Mapping[str, Score]) -> Literal["gated", "compact"]:
        """Return the better phase: the compact one, unless the gated one is ahead by a standard error.

        The gated score was the choice among many on the same rows, so it flatters; the compact one was looked at once.
        """
        lead = scores["gated"].value - scores["compact"].value
        return "gated" if lead > scores["compact"].standard_error else "compact"


def _facts(point: PathPoint) -> dict[str, Any]:
    return {"step": point.step, "n_open": point.n_open, "score": point.score.facts()}


def _point(saved: Mapping[str, Any], row_losses: FloatArray | None = None) -> PathPoint:
    score = Score(**saved["score"])
    return PathPoint(
        saved["step"], saved["n_open"], score if row_losses is None else replace(score, row_losses=row_losses)
    )

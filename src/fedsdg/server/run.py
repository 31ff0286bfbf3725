"""The whole method as the label owner runs it: the table of contents.

::

    align      find the rows that all parties hold (A0.3 to A0.5), unless they are aligned already
    protect    randomise the labels that clients take part in, if wished
    split      keep test rows apart, which nobody learns from
    train      initialise gates, gated phase, selection, compact phase      learning/two_phase_training.py
    refit      the top model on the true labels, if they were randomised
    test       one forward pass over the test rows
    finish     every client keeps its part of the model

It runs over the port `Federation`: in the clear, in one process, or across organisations, without a difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsdg.data.alignment import Alignment
from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError, StateFileError
from fedsdg.job import SERVER, RunSettings
from fedsdg.learning.federation import Federation
from fedsdg.learning.objective import Objective, Score, guess_task, split_rows
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.training_result import Progress, TrainingResult
from fedsdg.learning.two_phase_training import train
from fedsdg.messages.traffic import Traffic
from fedsdg.server.clock import Clock
from fedsdg.server.keeper import RunKeeper
from fedsdg.server.label_privacy import inference_bound, randomised_response
from fedsdg.server.narration import Narration
from fedsdg.state_files import Arrays, Checkpoints, Facts


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """What the label owner brings: a label per row, and ids where rows are not aligned or labels are protected."""

    labels: NDArray[np.generic]
    ids: tuple[str, ...] | None = None
    label_key: bytes | None = field(default=None, repr=False)
    """The lasting key of `label_epsilon`; without it labels are drawn for one run only."""

    def take(self, rows: IntArray) -> LabelledRows:
        """Return some rows, in the given order."""
        ids = None if self.ids is None else tuple(self.ids[row] for row in rows)
        return LabelledRows(self.labels[rows], ids, self.label_key)

    def digest(self, seed: bytes) -> str:
        """Return a digest of rows and seed, for their owner alone: a run goes on with what it was started with."""
        digest = hashlib.sha256(RandomStreams(seed, (SERVER,)).key("same data"))
        digest.update(json.dumps([self.labels.tolist(), self.ids], default=str).encode())
        return digest.hexdigest()


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


Watch = Callable[[Update], None]


@dataclass(eq=False)
class Outcome:
    """What the server knows when all is done."""

    result: TrainingResult
    rows: LabelledRows
    """The common rows, in the common order."""
    alignment: Alignment | None
    test_rows: IntArray
    test_score: Score | None
    seconds: dict[str, float]
    history: list[Update]
    notes: list[str]


def run_job(
    federation: Federation,
    data: LabelledRows,
    settings: RunSettings,
    seed: bytes,
    *,
    align: bool = False,
    watch: Watch = lambda update: None,
    traffic: Traffic | None = None,
    checkpoints: Checkpoints | None = None,
    resumed: tuple[Arrays, Facts] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run a job over a federation that has just been joined, or has gone back to the checkpoint `resumed`."""
    return _ServerRun(federation, data, settings, seed, watch, traffic, checkpoints, resumed, stop).run(align)


class _ServerRun:
    """One run, seen from the server."""

    def __init__(
        self,
        federation: Federation,
        data: LabelledRows,
        settings: RunSettings,
        seed: bytes,
        watch: Watch,
        traffic: Traffic | None,
        checkpoints: Checkpoints | None,
        resumed: tuple[Arrays, Facts] | None,
        stop: Callable[[], bool],
    ) -> None:
        self.federation, self.data, self.settings, self.seed = federation, data, settings, seed
        self.watch, self.traffic = watch, traffic or Traffic()
        self.before: dict[str, Any] = resumed[1]["run"] if resumed is not None else {}
        if self.before:
            self.check_same_job()
            self.traffic.add(Traffic(**self.before["traffic"]))
        self.resumed_rows = None if resumed is None else resumed[0].get("run/server_rows")
        self.clock = Clock(self.before.get("seconds"))
        self.alignment: Alignment | None = None
        self.history: list[Update] = []
        self.notes: list[str] = []
        self.narration = Narration()
        self.keeper = RunKeeper(
            federation, checkpoints, settings.checkpoint_every, stop=stop, extra=self.to_state, resumed=resumed
        )

    def check_same_job(self) -> None:
        """Refuse to go on with other settings or other labels than those of the checkpoint."""
        if RunSettings.from_json(self.before["settings"]) != self.settings:
            raise ConfigError("The run was started with other settings.")
        if self.before["labels"] != self.data.digest(self.seed):
            raise StateFileError(
                "The labels, their ids or the server's private seed have changed since the checkpoint; a run goes on "
                "with the same ones."
            )

    def run(self, align: bool) -> Outcome:
        federation, settings = self.federation, self.settings
        self.narration.joined(federation, settings)
        rows = self.align(align)
        labels = self.protect(rows)
        # By the protected labels: clients see which rows train, and a split by true classes would say something.
        fit_rows, test_rows = held_out(labels, settings, self.seed)
        self.narration.rows(len(fit_rows), len(test_rows))
        if not self.before:
            self.clock.see("gini")
            self.narration.starts("gini", self.clock.total)
            self.watch(Update("gini", 0, 1, None, None, None, None, self.traffic.total, 0.0))
        result = train(
            federation, labels, settings.training, self.seed, self.on_progress, rows=fit_rows, keeper=self.keeper
        )
        self.clock.stop()
        self.narration.ends(self.clock.total)
        self.narration.selected(result)
        self.remark(result)
        if settings.label_epsilon is not None:
            with self.clock("refit"):
                self.notes.append(refit_on_clean_labels(federation, result, rows.labels))
        test_score = None
        if len(test_rows):
            with self.clock("test"):
                test_score = result.server.score(federation.forward(test_rows, 0, "test"), test_rows)
        federation.finish()
        self.clock.seconds["total"] = self.clock.total
        messages = sum(self.traffic.messages.values())
        self.narration.finished(test_score, messages, self.traffic.total, self.clock.total)
        return Outcome(
            result, rows, self.alignment, test_rows, test_score, self.clock.seconds, self.history, self.notes
        )

    def align(self, wanted: bool) -> LabelledRows:
        """Find the common rows, or take those of the checkpoint."""
        if self.resumed_rows is not None:
            self.notes += self.before["alignment"]
            self._rows = np.asarray(self.resumed_rows, np.int64)
            return self.data.take(self._rows)
        self._rows = np.arange(len(self.data.labels), dtype=np.int64)
        if not wanted:
            return self.data
        if self.data.ids is None:
            raise ConfigError("the label owner's rows have no ids to align by")
        self.watch(Update("align", 0, 1, None, None, None, None, self.traffic.total, 0.0))
        with self.clock("align"):
            # A stream of its own: clients can compute what was drawn from it.
            order = RandomStreams(self.seed, (SERVER,)).numpy("row-order")
            self.alignment = self.federation.align(self.data.ids, order)
        self.narration.aligned(self.alignment)
        self._rows = self.alignment.server_rows
        self.notes += self.alignment.report()
        return self.data.take(self._rows)

    def protect(self, rows: LabelledRows) -> NDArray[np.generic]:
        """Randomise the labels that clients take part in, if wished."""
        epsilon, labels = self.settings.label_epsilon, rows.labels
        if epsilon is None:
            return labels
        objective = Objective.fit(self.settings.training.task, labels, np.arange(len(labels)))
        if objective.task == "regression":
            raise ConfigError("label_epsilon protects class labels; a regression target cannot be randomised that way.")
        protected = randomised_response(labels, epsilon, rows.label_key or self.seed, rows.ids)
        n_classes = len(np.unique(labels))
        self.notes.append(
            f"label_epsilon = {epsilon:g}: {float(np.mean(protected != labels)):.1%} of the labels were replaced in "
            f"everything that clients take part in. What a client receives about a person makes their label at most "
            f"{inference_bound(epsilon, n_classes):.1%} likely, from {n_classes} equally likely classes and nothing "
            "else known."
        )
        if rows.label_key is None:
            self.notes.append("labels were drawn for this run only: over several runs the bounds add up (label_key).")
        return protected

    def remark(self, result: TrainingResult) -> None:
        """Note what a reader of the result should know."""
        if result.chosen.step == 0 and self.settings.training.n_features is None:
            self.notes.append(
                "every gate closed before the first validation pass, so the starting gates were used instead: the "
                "columns say little about the labels, or the penalty is too strong for so few rows."
            )
        if sum(result.n_selected.values()) == sum(self.federation.columns().values()):
            self.notes.append("no column was dropped: validation preferred the model with all of them.")

    def on_progress(self, progress: Progress) -> None:
        update = Update(
            progress.phase,
            progress.step,
            progress.steps,
            progress.loss,
            progress.point.n_open if progress.point else None,
            self.federation.open_embeddings(),
            progress.point.score.value if progress.point else None,
            self.traffic.total,
            self.clock.total,
        )
        self.history.append(update)
        self.clock.see(progress.phase)
        self.narration.step(progress, update.open_embeddings, update.seconds)
        self.watch(update)

    def to_state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what the run around the procedure keeps in a checkpoint."""
        facts = {
            "seconds": self.clock.so_far(),
            "alignment": self.notes_of_alignment(),
            "traffic": asdict(self.traffic),
            "settings": self.settings.model_dump_json(),
            "labels": self.data.digest(self.seed),
        }
        return {"server_rows": self._rows}, facts

    def notes_of_alignment(self) -> list[str]:
        """Return what the alignment taught whom: said again when a run goes on."""
        return self.alignment.report() if self.alignment is not None else list(self.before.get("alignment", []))


def held_out(labels: NDArray[np.generic], settings: RunSettings, seed: bytes) -> tuple[IntArray, IntArray]:
    """Split off the test rows, class by class where there are classes."""
    if settings.test_fraction == 0:
        return np.arange(len(labels)), np.empty(0, np.int64)
    values = np.asarray(labels)
    task = guess_task(values) if settings.training.task == "auto" else settings.training.task
    stream = RandomStreams(seed, (SERVER,)).numpy("test-rows")
    return split_rows(values, task != "regression", settings.test_fraction, stream)


def refit_on_clean_labels(federation: Federation, result: TrainingResult, labels: ArrayLike) -> str:
    """Train the kept top model further on the true labels: after the last message that depends on a label."""
    learner = result.server
    rows = np.concatenate([result.train_rows, result.validation_rows])
    slots = federation.forward(rows, 0, "refit")
    learner.objective = Objective.fit(learner.objective.task, labels, result.train_rows)
    before, after = learner.refit(slots, rows, len(result.train_rows))
    return f"top model refitted on the true labels: validation score {before:.3f} -> {after:.3f}."

"""All attacks on generated data, as numbers: what a party learns, and what `label_epsilon` changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from fedsdg.audit import label_from_gini, label_from_gradients
from fedsdg.audit.embedding_from_outputs import explained_by_scale, explained_share
from fedsdg.audit.label_from_own_columns import smoothed_scores
from fedsdg.audit.observation import GradientBatch, Observation, observe
from fedsdg.audit.repeated_responses import majority_share
from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.binning import bin_columns
from fedsdg.data.feature_table import FeatureTable
from fedsdg.datasets.synthetic import madelon_like
from fedsdg.learning.gini import gini_scores
from fedsdg.learning.objective import Objective
from fedsdg.server.label_privacy import inference_bound, randomised_response

#: The client with the columns that matter, and one that brings noise and takes part all the same.
INFORMED, UNINFORMED = "informed", "uninformed"


@dataclass(frozen=True)
class Measurement:
    """One number of the audit."""

    attack: str
    setting: str
    measure: str
    value: float
    nothing: float
    """The value that would mean: nothing was learned."""
    bound: float | None = None
    """The value that cannot be passed, where there is a proof."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Generated data, dealt to two clients."""

    tables: dict[str, FeatureTable]
    labels: IntArray
    fit_rows: IntArray
    test_rows: IntArray


def generated_problem(n_rows: int = 1600, seed: int = 1) -> Problem:
    """Return rows with two classes; one client has all columns that matter."""
    data = madelon_like(n_rows, 24, n_informative=3, n_redundant=5, seed=seed)
    useful, useless = np.flatnonzero(data.relevant), np.flatnonzero(~data.relevant)
    parts = {INFORMED: np.r_[useful, useless[:4]], UNINFORMED: useless[4:]}
    tables = {name: FeatureTable.of(data.features[:, columns]) for name, columns in parts.items()}
    rows = np.random.default_rng(seed).permutation(n_rows)
    cut = n_rows * 3 // 4
    return Problem(tables, np.asarray(data.labels, np.int64), np.sort(rows[:cut]), np.sort(rows[cut:]))


def seeds_of(problem: Problem) -> dict[str, bytes]:
    """Return fixed seeds: an audit should give the same numbers twice."""
    return {name: f"audit seed of {name}".encode().ljust(32, b".") for name in (*problem.tables, "server")}


def run_observed(problem: Problem, labels: IntArray, config: TrainingConfig) -> Observation:
    """Train on these labels and keep all views."""
    return observe(problem.tables, labels, config, seeds_of(problem), problem.fit_rows)


def gradient_attack(observation: Observation, client: str, n_rows: int, steps: int | None = None) -> FloatArray:
    """Return a client's guess of all labels from its first steps of the gated phase (all, when not given)."""
    return label_from_gradients.label_scores(observation.gradients(client)[:steps], n_rows)


def gini_attack(labels: IntArray, n_columns: int, seed: int = 0, decimals: int | None = None) -> float:
    """Return the share of labels that a client with many unrelated columns computes from its (rounded) Gini scores."""
    columns = np.random.default_rng(seed).standard_normal((len(labels), n_columns))
    binning = bin_columns(columns, TrainingConfig().binning)
    scores = gini_scores(binning, labels, 2)
    if decimals is not None:
        scores = replace(scores, scores=np.round(scores.scores, decimals))
    return label_from_gradients.guessed_share(label_from_gini.label_scores(binning.codes, scores), labels)


def refitted_accuracy(observation: Observation, problem: Problem) -> float:
    """Refit the top model on the true labels, as a run does, and score it on rows that nobody learned from."""
    result, federation = observation.result, observation.federation
    rows = np.concatenate([result.train_rows, result.validation_rows])
    learner = result.server
    learner.objective = Objective.fit("binary", problem.labels, result.train_rows)
    learner.refit(federation.forward(rows, 0, "refit"), rows, len(result.train_rows))
    return learner.score(federation.forward(problem.test_rows, 0, "test"), problem.test_rows).value


def measure_gradients(problem: Problem, interactive: dict[str, Observation]) -> list[Measurement]:
    """Label inference from dL/dG without protection."""
    n_rows, out = len(problem.labels), []
    one_epoch = len(problem.fit_rows) // TrainingConfig().gated_phase.batch_size
    for layer, observation in interactive.items():
        for client in problem.tables:
            for steps, when in ((1, "first batch"), (one_epoch, "first epoch"), (None, "all steps")):
                scores = gradient_attack(observation, client, n_rows, steps)
                auc = label_from_gradients.ranking_quality(scores, problem.labels)
                out.append(Measurement("labels from dL/dG", f"{layer}, {client} client, {when}", "AUC", auc, 0.5))
    return out


def noisy(batches: list[GradientBatch], times: float, seed: int = 0) -> list[GradientBatch]:
    """Return gradients with Gaussian noise of so many times their own spread: a protection that is often proposed."""
    stream = np.random.default_rng(seed)
    out = []
    for batch in batches:
        noise = times * batch.gradient.std() * stream.standard_normal(batch.gradient.shape)
        out.append(GradientBatch(batch.phase, batch.step, batch.rows, batch.gradient + np.rint(noise).astype(np.int64)))
    return out


def measure_noise(problem: Problem, dense: Observation) -> list[Measurement]:
    """What noise on dL/dG would change."""
    out = []
    for times in (1.0, 3.0):
        scores = label_from_gradients.label_scores(noisy(dense.gradients(INFORMED), times), len(problem.labels))
        auc = label_from_gradients.ranking_quality(scores, problem.labels)
        out.append(
            Measurement("labels from dL/dG", f"with noise of {times:g} x its spread, all steps", "AUC", auc, 0.5)
        )
    return out


def measure_outputs(interactive: dict[str, Observation]) -> list[Measurement]:
    """Embedding inference from Z, with 30 rows known to the server."""
    out = []
    dense = interactive["dense"]
    for phase in dense.result.learners:
        seen = dense.outputs(INFORMED, phase, "validation")[-1]
        sizes = f"{seen.embeddings.shape[1]} dimensions, {seen.outputs.shape[1]} outputs"
        share = explained_share(seen.outputs, seen.embeddings, 30)
        out.append(Measurement("embeddings from Z", f"dense, {phase}: {sizes}", "R^2", share, 0.0))
    seen = interactive["elementwise"].outputs(INFORMED, "gated", "validation")[-1]
    share = explained_by_scale(seen.outputs, seen.embeddings)
    out.append(Measurement("embeddings from Z", "element-wise, 2 rows known", "R^2", share, 0.0))
    return out


def column_shares(observation: Observation, problem: Problem, phase: str = "gated") -> tuple[float, float]:
    """Return R^2 of the informed client's columns from Z with 30 known rows: of all columns, and of the best one."""
    seen = observation.outputs(INFORMED, phase, "validation")[-1]
    columns = problem.tables[INFORMED].values[seen.rows]
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    best = max(explained_share(seen.outputs, columns[:, [j]], 30) for j in range(columns.shape[1]))
    return explained_share(seen.outputs, columns, 30), best


def with_outputs(config: TrainingConfig, outputs: int) -> TrainingConfig:
    """Return the settings with that many interactive outputs in both phases."""
    phases = {name: getattr(config, name) for name in ("gated_phase", "compact_phase")}
    return config.with_changes(**{name: p.model_copy(update={"outputs": outputs}) for name, p in phases.items()})


def measure_number_of_outputs(problem: Problem, numbers: tuple[int, ...] = (1, 2, 8)) -> list[Measurement]:
    """What fewer interactive outputs keep from the server, and what they cost."""
    out = []
    for outputs in numbers:
        observation = run_observed(problem, problem.labels, with_outputs(TrainingConfig(), outputs))
        everything, best = column_shares(observation, problem)
        name = f"dense, {outputs} output{'s' if outputs > 1 else ''}"
        out.append(Measurement("columns from Z", f"{name}: all columns", "R^2", everything, 0.0))
        out.append(Measurement("columns from Z", f"{name}: the best one", "R^2", best, 0.0))
        out.append(Measurement("model", name, "accuracy", refitted_accuracy(observation, problem), 0.5))
    return out


def measure_gini(n_rows: int = 120) -> list[Measurement]:
    """Label inference from Gini scores, by the number of columns."""
    labels = (np.random.default_rng(7).random(n_rows) < 0.4).astype(np.int64)
    chance = float(max(labels.mean(), 1 - labels.mean()))
    return [
        Measurement(
            "labels from Gini",
            f"{per_row} columns per row{'' if decimals is None else f', rounded to {decimals} decimals'}",
            "right",
            gini_attack(labels, per_row * n_rows, decimals=decimals),
            chance,
        )
        for per_row, decimals in ((1, None), (2, None), (4, None), (4, 2))
    ]


def measure_protection(
    problem: Problem, open_run: Observation, epsilons: tuple[float, ...] = (3.0, 2.0, 1.0)
) -> list[Measurement]:
    """What `label_epsilon` does to the attacks and to the model, beside a run without it."""
    config, truth = TrainingConfig(), problem.labels
    seed = seeds_of(problem)["server"]
    out = [Measurement("model", "no protection", "accuracy", refitted_accuracy(open_run, problem), 0.5)]
    small = np.random.default_rng(7).integers(0, 2, 120)
    for epsilon in epsilons:
        name, bound = f"label_epsilon = {epsilon:g}", inference_bound(epsilon, 2)
        protected = np.asarray(randomised_response(truth, epsilon, seed), np.int64)
        observation = run_observed(problem, protected, config)
        scores = gradient_attack(observation, INFORMED, len(truth))
        share = label_from_gradients.guessed_share(scores, truth)
        out.append(Measurement("labels from dL/dG", name, "right", share, 0.5, bound))
        smoothed = smoothed_scores(problem.tables[INFORMED].values, scores)
        share = label_from_gradients.guessed_share(smoothed, truth)
        out.append(Measurement("the same, cleaned by own columns", name, "right", share, 0.5))
        masked = np.asarray(randomised_response(small, epsilon, seed), np.int64)
        columns = np.random.default_rng(0).standard_normal((len(small), 4 * len(small)))
        binning = bin_columns(columns, config.binning)
        found = label_from_gini.label_scores(binning.codes, gini_scores(binning, masked, 2))
        share = label_from_gradients.guessed_share(found, small)
        out.append(Measurement("labels from Gini", f"{name}, 120 rows", "right", share, 0.5, bound))
        out.append(Measurement("model", name, "accuracy", refitted_accuracy(observation, problem), 0.5))
    return out


def measure_repetition(problem: Problem, epsilon: float = 1.0, draws: int = 9) -> list[Measurement]:
    """What is lost when every run draws the randomised labels anew."""
    bound = inference_bound(epsilon, 2)
    return [
        Measurement(
            "labels, randomised",
            f"label_epsilon = {epsilon:g}, {draws} runs, {'one seed' if same else 'a new seed each'}",
            "right",
            majority_share(problem.labels, epsilon, draws, same_seed=same),
            0.5,
            bound if same else None,
        )
        for same in (True, False)
    ]


def measure() -> list[Measurement]:
    """Run everything; about half a minute on one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        problem = generated_problem()
        interactive = {
            "dense": run_observed(problem, problem.labels, TrainingConfig()),
            "elementwise": run_observed(problem, problem.labels, TrainingConfig(interactive="elementwise")),
        }
        return [
            *measure_gradients(problem, interactive),
            *measure_noise(problem, interactive["dense"]),
            *measure_gini(),
            *measure_outputs(interactive),
            *measure_number_of_outputs(problem),
            *measure_protection(problem, interactive["dense"]),
            *measure_repetition(problem),
        ]
    finally:
        torch.set_num_threads(threads)


def table(measurements: list[Measurement]) -> str:
    """Return the measurements as aligned text."""
    head = ("attack", "setting", "measure", "value", "nothing", "bound")
    rows = [
        (m.attack, m.setting, m.measure, f"{m.value:.3f}", f"{m.nothing:.3f}", f"{m.bound:.3f}" if m.bound else "")
        for m in measurements
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in (head, *rows))
    lines = ["  ".join(row).rstrip() for row in padded]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])

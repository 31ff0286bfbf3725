"""`fedsdg.run`: a job in, a selection and a model out, and a folder that records both."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.arrays import IntArray
from fedsdg.data.table_files import IdentifiedTable, label_values, numeric_table, read_frame
from fedsdg.errors import ConfigError, DataError
from fedsdg.job import Job, RunSettings, check_client_names, load_job
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.objective import Objective, split_rows
from fedsdg.learning.stochastic_gate import open_probabilities
from fedsdg.results import LEAKAGE, ClientSelection, SelectionResult
from fedsdg.run_folder import RunFolder
from fedsdg.server.label_privacy import load_label_key
from fedsdg.simulation import PartyTables, Simulation, Update, simulate

Watch = Callable[[Update], None]


def run(job: Job | str | Path, out: str | Path | None = None, watch: Watch = lambda update: None) -> SelectionResult:
    """Run a job (a file or an object) in this process; with `out`, write the run folder there.

    The default profile is `masked`: everything between the parties is encrypted, with real keys.
    """
    loaded = job if isinstance(job, Job) else load_job(Path(job))
    if out is not None:
        RunFolder.refuse_unusable(Path(out))  # before any table is read
    data = read_parties(loaded)
    if loaded.label_epsilon is not None:
        check_tables(data, loaded.settings)  # the lasting key is made for a job that runs, never for a refused one
        owner = loaded.server
        key = load_label_key(owner.label_key or owner.table.with_name(f"{owner.table.name}.label-key"))
        data = replace(data, label_key=key)
    return run_tables(data, loaded.settings, out=out, watch=watch)


def run_tables(
    data: PartyTables,
    settings: RunSettings,
    *,
    out: str | Path | None = None,
    watch: Watch = lambda update: None,
    truth: Mapping[str, frozenset[str]] | None = None,
    private_seeds: Mapping[str, bytes] | None = None,
) -> SelectionResult:
    """Run a job on tables in memory; `truth` (columns that matter, per client) adds precision and recall."""
    check_tables(data, settings)
    folder = RunFolder.create(Path(out)) if out is not None else None
    try:
        observe = folder.watch(watch) if folder is not None else watch
        simulation = simulate(data, settings, private_seeds=private_seeds, watch=observe)
        result = describe(simulation, truth)
        if folder is not None:
            folder.finish(simulation, result)
    except BaseException:
        if folder is not None:
            folder.discard()
        raise
    return result


@dataclass(frozen=True)
class Parts:
    """How many rows train, validate and test."""

    training: int
    validation: int
    test: int


def check_tables(data: PartyTables, settings: RunSettings) -> Parts:
    """Refuse what training would refuse later: names, labels, the numbers of rows and columns."""
    check_client_names(data.tables)
    training, columns = settings.training, sum(table.n_columns for table in data.tables.values())
    if training.n_features is not None and training.n_features > columns:
        raise ConfigError(
            f"training.n_features: {training.n_features}, but the clients have {columns} columns in total; ask for "
            "fewer"
        )
    labels = np.asarray(data.labels)
    if len(labels) < 2:
        raise DataError(f"the labels: {len(labels)} row cannot be learned from; at least 2 are needed")
    rows = np.arange(len(labels))
    task = Objective.fit(training.task, labels, rows).task
    if settings.label_epsilon is not None and task == "regression":
        raise ConfigError("job.label_epsilon protects class labels; a regression target cannot be randomised that way")
    validation = training.validation.fraction
    sizes = []
    for fraction, setting in (
        (settings.test_fraction, "job.test_fraction"),
        (validation, "training.validation.fraction"),
    ):
        before = len(rows)
        if fraction > 0:
            rows = rows[_rows_left(labels[rows], task, fraction, setting)]
        sizes.append(before - len(rows))
    return Parts(len(rows), validation=sizes[1], test=sizes[0])


def _rows_left(labels: NDArray[np.generic], task: str, fraction: float, setting: str) -> IntArray:
    """Return the rows that are left when a fraction is kept apart; how many does not depend on the draw."""
    try:
        return split_rows(labels, task != "regression", fraction, np.random.default_rng(0))[0]
    except DataError:
        of_classes = "" if task == "regression" else f" of {len(np.unique(labels))} classes"
        raise DataError(
            f"{len(labels)} rows{of_classes} are too few to keep {fraction:.0%} of them apart ({setting}); add rows or "
            "change it"
        ) from None


def read_parties(job: Job) -> PartyTables:
    """Read every party's table and bring the rows into the label owner's order."""
    owner = job.server
    ids, frame = read_frame(owner.table, owner.id, owner.name)
    labels = label_values(frame, owner.target, owner.name)
    tables = {}
    if owner.columns != "none":
        own = frame.drop(owner.target)
        tables[owner.name] = numeric_table(own, owner.columns, owner.name)
    for name, source in job.clients.items():
        client_ids, client_frame = read_frame(source.table, source.id, name)
        table = numeric_table(client_frame, source.columns, name)
        tables[name] = IdentifiedTable(client_ids, table).in_order_of(ids, name)
    return PartyTables(labels, tables, owner.name, ids)


def describe(simulation: Simulation, truth: Mapping[str, frozenset[str]] | None = None) -> SelectionResult:
    """Collect what was found and what it cost."""
    result, settings = simulation.result, simulation.settings
    masked = settings.profile == "masked"
    traffic = simulation.traffic
    metrics: dict[str, float | str | int] = {
        "task": simulation.objective.task,
        "metric": "r2" if simulation.objective.task == "regression" else "accuracy",
        "validation": result.scores[result.kept].value,
        "kept": result.kept,
        "steps": sum(len(losses) for losses in result.losses.values()),
        "n_selected": sum(result.n_selected.values()),
        "n_columns": sum(client.table.n_columns for client in simulation.clients.values()),
        "clipped_gradients": result.clipped_gradients,
    }
    if simulation.test_score is not None:
        metrics["test"] = simulation.test_score.value
        metrics["test_standard_error"] = simulation.test_score.standard_error
        metrics["test_rows"] = len(simulation.test_rows)
    settings_json = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
    return SelectionResult(
        profile=settings.profile,
        key_bits=simulation.federation.key_bits if masked else None,
        backend=simulation.federation.backend if masked else "none",
        clients={name: _client_selection(client) for name, client in simulation.clients.items()},
        metrics=metrics,
        bytes={
            "total": traffic.total,
            "to_clients": dict(traffic.to_clients),
            "to_server": dict(traffic.to_server),
        },
        messages=dict(traffic.messages),
        seconds={phase: round(seconds, 3) for phase, seconds in simulation.seconds.items()},
        versions=versions(),
        config_hash=hashlib.sha256(settings_json.encode()).hexdigest()[:16],
        leakage=LEAKAGE[
            settings.profile if settings.label_epsilon is None or not masked else "masked, labels protected"
        ],
        path=tuple({"step": p.step, "open_features": p.n_open, "score": p.score.value} for p in result.path),
        truth=precision_and_recall(simulation, truth) if truth is not None else None,
        notes=tuple(simulation.notes),
    )


def _client_selection(client: LocalClient) -> ClientSelection:
    names = client.table.columns
    gates = client.final_gates if client.final_gates is not None else np.zeros(len(names))
    sigma = client.gate_sigma
    gini = client.gini_scores.scores if client.gini_scores is not None else None
    return ClientSelection(
        selected=client.selected_columns,
        n_features=len(names),
        gates=dict(zip(names, (float(g) for g in gates), strict=True)),
        gate_probabilities=dict(zip(names, (float(p) for p in open_probabilities(gates, sigma)), strict=True)),
        gini=dict(zip(names, (float(g) for g in gini), strict=True)) if gini is not None else {},
    )


def precision_and_recall(simulation: Simulation, truth: Mapping[str, frozenset[str]]) -> dict[str, float]:
    """Compare the selection with the columns that are known to matter."""
    chosen = {(name, column) for name, client in simulation.clients.items() for column in client.selected_columns}
    relevant = {(name, column) for name, columns in truth.items() for column in columns}
    hits = len(chosen & relevant)
    return {
        "precision": hits / len(chosen) if chosen else 0.0,
        "recall": hits / len(relevant) if relevant else 0.0,
        "relevant": len(relevant),
    }


def versions() -> dict[str, str]:
    """Versions that decide a result."""
    found = {"python": platform.python_version()}
    for package in ("fedsdg", "torch", "numpy", "gmpy2"):
        found[package] = metadata.version(package)
    return found

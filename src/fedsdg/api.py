"""`fedsdg.run`: a job in, a selection and a model out, and a folder that records both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.alignment import Alignment, align_in_the_clear
from fedsdg.data.arrays import IntArray
from fedsdg.data.sources import read_labels, read_party
from fedsdg.errors import ConfigError, DataError, RunStopped
from fedsdg.job import SERVER, Job, RunSettings, check_client_names, load_job
from fedsdg.learning.client_files import client_selection
from fedsdg.learning.objective import Objective, split_rows
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.party_source import PartySource
from fedsdg.results import SelectionResult
from fedsdg.run_folder import RunFolder
from fedsdg.server.label_privacy import load_label_key
from fedsdg.server.model_files import leakage_of
from fedsdg.server.summary import deciding_versions, metrics_of, path_of
from fedsdg.simulation import PartyTables, Simulation, Update, simulate

Watch = Callable[[Update], None]
#: Frames of parties by name: polars, pandas or pyarrow, in place of the tables that a job names.
Frames = Mapping[str, Any]


def run(
    job: Job | str | Path,
    out: str | Path | None = None,
    watch: Watch = lambda update: None,
    *,
    frames: Frames | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> SelectionResult:
    """Run a job (a file or an object) in this process; with `out`, write the run folder there.

    The default profile is `masked`: everything between the parties is encrypted, with real keys. `frames` brings tables
    that are in memory already. With `out`, a run that is interrupted (or stopped by `stop`) goes on with `resume`.
    """
    job_file = None if isinstance(job, Job) else Path(job)
    loaded = job if isinstance(job, Job) else load_job(Path(job))
    if out is not None:
        RunFolder.refuse_unusable(Path(out))  # before any table is read
    data = _with_label_key(read_parties(loaded, frames), loaded)
    return run_tables(data, loaded.settings, out=out, watch=watch, stop=stop, job_file=job_file)


def run_tables(
    data: PartyTables,
    settings: RunSettings,
    *,
    out: str | Path | None = None,
    watch: Watch = lambda update: None,
    truth: Mapping[str, frozenset[str]] | None = None,
    private_seeds: Mapping[str, bytes] | None = None,
    stop: Callable[[], bool] = lambda: False,
    job_file: Path | None = None,
) -> SelectionResult:
    """Run a job on tables in memory; `truth` (columns that matter, per client) adds precision and recall."""
    check_tables(data, settings)
    seeds = {name: (private_seeds or {}).get(name) or fresh_private_seed() for name in (SERVER, *data.tables)}
    if out is None:
        return describe(simulate(data, settings, private_seeds=seeds, watch=watch, stop=stop), truth)
    folder = RunFolder.create(Path(out), seeds, settings, job_file, data.sources)
    return _run_in(folder, data, settings, watch, stop, truth, resume=False)


def resume(
    run: str | Path,
    watch: Watch = lambda update: None,
    *,
    job: Job | str | Path | None = None,
    frames: Frames | None = None,
    data: PartyTables | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> SelectionResult:
    """Go on with an interrupted run, from the newest checkpoint of all parties, to the result it would have had.

    The tables are read again from the job that the run was started with; a run that was started with tables in memory
    needs them again (`job` and `frames`, or `data`).
    """
    folder = RunFolder.reopen(Path(run))
    try:
        settings = folder.settings
        if data is None:
            source = job or folder.job_file
            if source is None:
                raise ConfigError(
                    f"{run} was started from Python with tables in memory: pass them again, as in fedsdg.resume(run, "
                    "data=...)."
                )
            loaded = source if isinstance(source, Job) else load_job(Path(source))
            if loaded.settings != settings:
                raise ConfigError(f"{run} was started with other settings than those of the job now; undo the changes.")
            data = _with_label_key(read_parties(loaded, frames), loaded)
        if set(folder.seeds) != {SERVER, *data.tables}:
            raise ConfigError(f"{run} was started with other parties than those of the job now.")
    except BaseException:
        folder.close()
        raise
    return _run_in(folder, data, settings, watch, stop, None, resume=True)


def _run_in(
    folder: RunFolder,
    data: PartyTables,
    settings: RunSettings,
    watch: Watch,
    stop: Callable[[], bool],
    truth: Mapping[str, frozenset[str]] | None,
    *,
    resume: bool,
) -> SelectionResult:
    try:
        simulation = simulate(
            data,
            settings,
            private_seeds=folder.seeds,
            watch=folder.watch(watch),
            storage=folder.storage,
            resume=resume,
            stop=stop,
        )
        result = describe(simulation, truth)
        folder.finish(simulation, result)
    except RunStopped as stopped:
        folder.leave()
        raise RunStopped(f"{stopped} It goes on with: fedsdg resume {folder.final}") from None
    except BaseException:
        folder.close() if resume else folder.leave()
        raise
    return result


def _with_label_key(data: PartyTables, job: Job) -> PartyTables:
    """Add the lasting key of the label draws, where labels are protected."""
    if job.label_epsilon is None:
        return data
    check_tables(data, job.settings)  # the lasting key is made for a job that runs, never for a refused one
    owner = job.server
    path = owner.label_key
    if path is None:
        assert owner.table is not None  # the job says so
        path = owner.table.with_name(f"{owner.table.name}.label-key")
    return replace(data, label_key=load_label_key(path))


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


def read_parties(job: Job, frames: Frames | None = None) -> PartyTables:
    """Read every party's rows. They are aligned by ids later, unless the job says that they are."""
    frames = frames or {}
    unknown = sorted(set(frames) - {job.server.name, *job.clients})
    if unknown:
        raise ConfigError(f"frames: {unknown[0]!r} is no party of this job")
    owner = job.server
    labels, own = read_labels(owner, owner.name, frames.get(owner.name))
    found = {} if own is None else {owner.name: own}
    found |= {name: read_party(source, name, frames.get(name)) for name, source in job.clients.items()}
    of_party: dict[str, PartySource] = {owner.name: owner, **job.clients}
    return PartyTables(
        labels.labels,
        {name: identified.table for name, identified in found.items()},
        owner.name,
        labels.ids,
        client_ids={name: identified.ids for name, identified in found.items()},
        encodings={name: of_party[name].encoding for name in found},
        sources={SERVER: {"name": owner.name, "id": owner.id}}
        | {
            name: {
                "id": of_party[name].id,
                "schema": {column: pin.model_dump(mode="json") for column, pin in identified.pins.items()},
                "notes": list(identified.notes),
            }
            for name, identified in found.items()
        },
    )


def align(job: Job, frames: Frames | None = None) -> tuple[PartyTables, Alignment]:
    """Find the common rows of all parties in the clear, in this process: for estimates and for a look."""
    data = read_parties(job, frames)
    return align_tables(data)


def align_tables(data: PartyTables) -> tuple[PartyTables, Alignment]:
    """Return the common rows of all parties, aligned in the clear."""
    assert data.ids is not None
    assert data.client_ids is not None
    alignment = align_in_the_clear(data.ids, data.client_ids, np.random.default_rng(0))
    assert alignment.client_rows is not None
    rows = alignment.server_rows
    return (
        replace(
            data,
            labels=data.labels[rows],
            ids=tuple(data.ids[row] for row in rows),
            tables={name: table.take(alignment.client_rows[name]) for name, table in data.tables.items()},
            client_ids=None,
        ),
        alignment,
    )


def describe(simulation: Simulation, truth: Mapping[str, frozenset[str]] | None = None) -> SelectionResult:
    """Collect what was found and what it cost."""
    result, settings = simulation.result, simulation.settings
    masked = settings.profile == "masked"
    traffic = simulation.traffic
    metrics = metrics_of(simulation.outcome, sum(client.table.n_columns for client in simulation.clients.values()))
    settings_json = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
    return SelectionResult(
        profile=settings.profile,
        key_bits=simulation.federation.key_bits if masked else None,
        backend=simulation.federation.backend if masked else "none",
        clients={name: client_selection(client) for name, client in simulation.clients.items()},
        metrics=metrics,
        bytes={
            "total": traffic.total,
            "to_clients": dict(traffic.to_clients),
            "to_server": dict(traffic.to_server),
        },
        messages=dict(traffic.messages),
        seconds={phase: round(seconds, 3) for phase, seconds in simulation.seconds.items()},
        versions=deciding_versions(),
        config_hash=hashlib.sha256(settings_json.encode()).hexdigest()[:16],
        leakage=leakage_of(settings),
        path=path_of(result),
        truth=precision_and_recall(simulation, truth) if truth is not None else None,
        notes=tuple(simulation.notes),
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

"""Run a grid: skip what is there, compute what is missing, write every row as soon as it is known.

Only names travel to worker processes; a worker loads the data set and looks the variant up itself. A failed task is
noted and the others go on.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedsdg.config import TrainingConfig
from fedsdg.datasets import registry
from fedsdg.datasets.dataset import DataSet
from fedsdg.errors import ConfigError, DataError
from fedsdg.experiments import catalogue
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.grid import Grid, Task, tasks_of
from fedsdg.experiments.measure import config_hash
from fedsdg.experiments.recorded import refuse_strangers
from fedsdg.experiments.results import RESULTS, Key, ResultsFolder, commit, key_of
from fedsdg.server.summary import deciding_versions as versions
from fedsdg.simulation import one_torch_thread

MOST_PROCESSES = 64
EVERY_ROW = ("selected", "ratio", "precision", "recall", "embedding_open", "bytes")
"""Beside its score, what every row tells; null where a question has no such number."""


@dataclass(frozen=True)
class Outcome:
    """How a grid ended."""

    done: int
    skipped: int
    failed: int


Watch = Callable[[int, int, Row], None]
"""(rows there, rows wanted, the new row or the note of a failure)"""


def run(
    grid: Grid,
    out: Path,
    *,
    processes: int = 1,
    watch: Watch = lambda done, total, row: None,
) -> Outcome:
    """Compute the missing rows of a grid."""
    if not 1 <= processes <= MOST_PROCESSES:
        raise ConfigError(f"processes: between 1 and {MOST_PROCESSES}, not {processes}")
    experiment = catalogue.find(grid.experiment)
    tasks = list(tasks_of(grid, experiment))
    folder, description = ResultsFolder(out), _description(grid, experiment)
    there = {key_of(row) for row in _rows_to_go_on_from(folder, experiment, description)}
    # Before anything is written: a data set that cannot be had is found out now, not in the middle of the night.
    names = dict.fromkeys(task.dataset for task in tasks if task.key not in there)
    sources = {name: asdict(_loaded_in_folds(name, grid.folds).provenance) for name in names}
    with folder.prepared({**description, "sources": sources}):
        return _fill(folder, grid, tasks, processes, watch)


def _rows_to_go_on_from(folder: ResultsFolder, experiment: Experiment, description: Row) -> list[Row]:
    """Return the rows that are there, and refuse now what the table of this experiment would refuse in the end."""
    rows = folder.rows()
    before = folder.asked_before(description)
    if before is not None:
        refuse_strangers(rows, experiment, before, folder.path / RESULTS)
    return rows


def _fill(folder: ResultsFolder, grid: Grid, tasks: Sequence[Task], processes: int, watch: Watch) -> Outcome:
    """Write the rows that the folder lacks, one by one as they are known."""
    there = {key_of(row): row for row in folder.rows()}
    missing = [task for task in tasks if task.key not in there]
    stamp = {"commit": commit(), "config_hash": config_hash(grid.settings()), "versions": _versions()}
    skipped = done = len(tasks) - len(missing)
    failed = 0
    for row in _compute(missing, there, catalogue.find(grid.experiment), processes):
        if "error" in row:
            failed += 1
            folder.note_failure({**row, **stamp})
        else:
            done += 1
            folder.append({**row, **stamp})
        watch(done, len(tasks), row)
    return Outcome(done - skipped, skipped, failed)


def run_task(task: Task) -> Row:
    """Compute one row; an error becomes a note, since one bad cell must not end a night's work."""
    asked = {"dataset": task.dataset, "method": task.method, "fold": task.fold, "seed": task.seed}
    started, cpu = time.perf_counter(), time.process_time()
    try:
        cell = cell_of(task.dataset, task.fold, task.folds, task.seed, task.config.model_dump_json())
        cell.earlier.update(task.earlier)
        variant = catalogue.find(task.experiment).variant(task.method)
        with one_torch_thread(), threadpool_limits(1):
            answer = variant.measure(cell)
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        return {**asked, "error": f"{type(problem).__name__}: {problem} ({Path(place.filename).name}:{place.lineno})"}
    unknown = dict.fromkeys(("r2" if cell.data.task == "regression" else "accuracy", *EVERY_ROW))
    surrogate = {"surrogate": True} if cell.data.provenance.surrogate else {}
    cost = {
        "seconds": round(time.perf_counter() - started, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
    }
    return {**asked, "folds": task.folds, **unknown, **surrogate, **answer, **cost}


@lru_cache(maxsize=1)
def load(name: str) -> DataSet:
    """Load a data set; tasks come ordered by data set, so one at a time is enough."""
    return registry.load(name)


@lru_cache(maxsize=1)
def cell_of(dataset: str, fold: int, folds: int, seed: int, config: str) -> Cell:
    """Return a cell; the tasks of one cell come together, so its methods share what the clients prepared."""
    return Cell(load(dataset), fold, folds, seed, TrainingConfig(**json.loads(config)))


def _loaded_in_folds(name: str, folds: int) -> DataSet:
    """Load a data set, and refuse more folds than it has rows, or than its rarest class has."""
    data = load(name)
    rows, needed = data.n_rows, "rows"
    if data.task != "regression":
        rows, needed = int(np.unique(data.y, return_counts=True)[1].min()), "every class"
    if folds > rows:
        raise ConfigError(f"{name} can be cut into at most {rows} folds, not {folds}: every fold needs {needed}")
    return data


def _versions() -> dict[str, str]:
    """Return the versions that decide a row: folds and ceilings come from scikit-learn and SciPy."""
    return {**versions(), **{name: metadata.version(name) for name in ("scikit-learn", "scipy")}}


def _description(grid: Grid, experiment: Experiment) -> Row:
    return {
        "name": experiment.name,
        "question": experiment.question,
        "datasets": grid.dataset_names(),
        "folds": grid.folds,
        "seeds": grid.seeds,
        "first_seed": grid.first_seed,
        "preset": grid.preset_name(),
        "config": grid.settings().model_dump(mode="json"),
        "config_hash": config_hash(grid.settings()),
        "commit": commit(),
        "versions": _versions(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _compute(missing: Sequence[Task], there: dict[Key, Row], experiment: Experiment, processes: int) -> Iterator[Row]:
    """Yield rows as they are finished; a task waits for the rows that it builds on."""
    waiting = list(missing)
    if processes == 1:
        while (task := _next_ready(waiting, there, experiment)) is not None:
            row = run_task(task)
            if "error" not in row:
                there[task.key] = row
            yield row
        yield from _given_up(waiting)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_start_worker)
    running: dict[Future[Row], Task] = {}
    try:
        while True:
            while len(running) < processes and (task := _next_ready(waiting, there, experiment)) is not None:
                with _ctrl_c_held():  # a new worker inherits it, and is silent from its first moment
                    running[pool.submit(run_task, task)] = task
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task, row = running.pop(future), future.result()
                if "error" not in row:
                    there[task.key] = row
                yield row
        yield from _given_up(waiting)
    except BrokenProcessPool:
        raise DataError(
            "a worker process died, perhaps for want of memory; run the same command again with --processes 1"
        ) from None
    finally:
        for worker in set(multiprocessing.active_children()) - others:  # after Ctrl-C: what they compute is lost
            worker.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Let Ctrl-C wait: it is the parent's business, and a worker that still imports torch would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _next_ready(waiting: list[Task], there: dict[Key, Row], experiment: Experiment) -> Task | None:
    """Take the first task whose predecessors are there."""
    for index, task in enumerate(waiting):
        needed = {name: (task.dataset, name, task.fold, task.seed) for name in experiment.variant(task.method).after}
        if all(key in there for key in needed.values()):
            del waiting[index]
            return replace(task, earlier=tuple((name, there[key]) for name, key in needed.items()))
    return None


def _given_up(waiting: Sequence[Task]) -> Iterator[Row]:
    for task in waiting:
        dataset, method, fold, seed = task.key
        reason = "a row that it builds on failed"
        yield {"dataset": dataset, "method": method, "fold": fold, "seed": seed, "error": reason}


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    torch.set_num_threads(1)

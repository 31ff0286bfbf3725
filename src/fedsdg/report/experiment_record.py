"""An experiment's folder as a report needs it: what was asked, and rows that belong together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsdg.datasets import registry
from fedsdg.errors import ConfigError, DataError
from fedsdg.experiments import catalogue
from fedsdg.experiments.cell import Row
from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.results import FAILURES, RESULTS, ResultsFolder, key_of
from fedsdg.experiments.statistics import group, metric
from fedsdg.state_files import damaged_if_unreadable


@dataclass(frozen=True)
class ExperimentRecord:
    """What is known about an experiment."""

    folder: str
    experiment: Experiment
    about: Mapping[str, Any]
    rows: tuple[Row, ...]
    """In the order of data sets and variants."""
    failures: int


def read_experiment(folder: Path) -> ExperimentRecord:
    """Read an experiment's folder; rows of another experiment, or made with other settings, are refused."""
    results = ResultsFolder(folder)
    with damaged_if_unreadable(folder / "experiment.json"):
        about = results.description()
        name, settings = str(about["name"]), about["config_hash"]
    experiment = catalogue.find(name)
    rows = results.rows()
    if not rows:
        raise ConfigError(
            f"{folder / RESULTS} has no rows yet; `fedsdg experiment run {name} --out {folder}` adds them."
        )
    order = {variant.name: index for index, variant in enumerate(experiment.variants)}
    for row in rows:
        if row["method"] not in order:
            raise DataError(
                f"{folder / RESULTS}: a row's method is none of the experiment {name!r}; the file mixes experiments"
            )
        if row.get("config_hash", settings) != settings:
            raise DataError(
                f"{folder / RESULTS}: rows were made with different training settings; the file mixes experiments"
            )
        if row["dataset"] not in registry.ENTRIES:
            raise DataError(f"{folder / RESULTS}: a row's data set is unknown; repair or remove it")
    with damaged_if_unreadable(folder / RESULTS):
        for row in rows:
            metric(row)
    first = {name: index for index, name in enumerate(dict.fromkeys((*experiment.datasets, *group(rows))))}
    rows.sort(key=lambda row: (first[row["dataset"]], order[row["method"]], row["seed"], row["fold"]))
    return ExperimentRecord(folder.resolve().name, experiment, about, tuple(rows), _failures(folder, rows))


def _failures(folder: Path, rows: list[Row]) -> int:
    """Return how many tasks failed and were not made good since."""
    path = folder / FAILURES
    if not path.is_file():
        return 0
    done = {key_of(row) for row in rows}
    with damaged_if_unreadable(path):
        return len({key_of(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()} - done)

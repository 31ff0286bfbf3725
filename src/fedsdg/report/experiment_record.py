"""An experiment's folder as a report needs it: what was asked, and rows that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsdg.datasets import registry
from fedsdg.errors import ConfigError, DataError
from fedsdg.experiments import catalogue
from fedsdg.experiments.cell import Row
from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.results import DESCRIPTION, RESULTS, ResultsFolder, key_of
from fedsdg.experiments.statistics import group


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
    about = results.description()
    name, settings = about["name"], about["config_hash"]
    try:
        experiment = catalogue.find(name)
    except ConfigError as problem:
        raise DataError(f"{folder / DESCRIPTION}: {problem}") from None
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
        if (row.get("config_hash") or settings) != settings:
            raise DataError(
                f"{folder / RESULTS}: rows were made with different training settings; the file mixes experiments"
            )
        if row["dataset"] not in registry.ENTRIES:
            raise DataError(f"{folder / RESULTS}: a row's data set is unknown; repair or remove it")
    first = {name: index for index, name in enumerate(dict.fromkeys((*experiment.datasets, *group(rows))))}
    rows.sort(key=lambda row: (first[row["dataset"]], order[row["method"]], row["seed"], row["fold"]))
    missing = results.failures() - {key_of(row) for row in rows}  # failed, and not made good since
    return ExperimentRecord(folder.resolve().name, experiment, about, tuple(rows), len(missing))

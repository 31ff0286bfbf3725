"""An experiment's folder as a report needs it: what was asked, and rows that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsdg.errors import ConfigError
from fedsdg.experiments.cell import Row
from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.recorded import read_recorded
from fedsdg.experiments.results import RESULTS, ResultsFolder, key_of
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
    """Read an experiment's folder that has rows."""
    found = read_recorded(folder)
    experiment, rows = found.experiment, found.rows
    if not rows:
        raise ConfigError(
            f"{folder / RESULTS} has no rows yet; `fedsdg experiment run {experiment.name} --out {folder}` adds them."
        )
    order = {variant.name: index for index, variant in enumerate(experiment.variants)}
    first = {name: index for index, name in enumerate(dict.fromkeys((*experiment.datasets, *group(rows))))}
    rows.sort(key=lambda row: (first[row["dataset"]], order[row["method"]], row["seed"], row["fold"]))
    missing = ResultsFolder(folder).failures() - {key_of(row) for row in rows}  # failed, and not made good since
    return ExperimentRecord(folder.resolve().name, experiment, found.about, tuple(rows), len(missing))

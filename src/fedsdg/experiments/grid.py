"""What a grid asks for: data sets, methods, folds and seeds, and the rows that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedsdg.config import TrainingConfig
from fedsdg.datasets import registry
from fedsdg.datasets.registry import not_at_hand
from fedsdg.errors import ConfigError
from fedsdg.experiments import catalogue
from fedsdg.experiments.cell import Row
from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.results import Key
from fedsdg.job import PRESETS


@dataclass(frozen=True)
class Grid:
    """What to run."""

    experiment: str
    datasets: tuple[str, ...]
    folds: int = 5
    seeds: int = 1
    first_seed: int = 0
    """Settings are made on other seeds than those that are reported."""
    preset: str | None = None
    """Training settings by name; None: those of the experiment."""
    methods: tuple[str, ...] | None = None
    """Variants to run; None: all."""
    config: TrainingConfig | None = None
    """Training settings instead of a preset."""

    def settings(self) -> TrainingConfig:
        """Return the training settings."""
        if self.config is not None:
            return self.config
        name = self.preset_name()
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
        return PRESETS[name]()

    def preset_name(self) -> str:
        """Return which preset was asked for; the empty name is a wrong one, not the experiment's own."""
        return catalogue.find(self.experiment).preset if self.preset is None else self.preset

    def dataset_names(self) -> list[str]:
        """Return the data sets, each once, by the names that the registry knows."""
        usual = [name for name in catalogue.find(self.experiment).datasets if name not in left_out(self)]
        return list(dict.fromkeys(registry.entry(name).name for name in self.datasets or usual))


@dataclass(frozen=True)
class Task:
    """One row to compute."""

    experiment: str
    dataset: str
    method: str
    fold: int
    folds: int
    seed: int
    config: TrainingConfig
    earlier: tuple[tuple[str, Row], ...] = ()

    @property
    def key(self) -> Key:
        """What the row will answer."""
        return self.dataset, self.method, self.fold, self.seed


def tasks_of(grid: Grid, experiment: Experiment) -> Iterator[Task]:
    """Yield the rows that a grid asks for, and those that they build on."""
    if grid.seeds < 1:
        raise ConfigError(f"seeds: at least 1, not {grid.seeds}")
    if grid.first_seed < 0:
        raise ConfigError(f"first_seed: at least 0, not {grid.first_seed}")
    for name in grid.methods or ():
        experiment.variant(name)
    settings = grid.settings()
    for dataset in grid.dataset_names():
        wanted = [
            variant
            for variant in experiment.methods_for(dataset)
            if grid.methods is None or variant.name in grid.methods
        ]
        if not wanted:
            where = _where_it_runs(grid, experiment)
            raise ConfigError(f"{experiment.name} has nothing to run on {dataset}" + (f": {where}" if where else ""))
        needed = {name for variant in wanted for name in variant.after}
        for seed in range(grid.first_seed, grid.first_seed + grid.seeds):
            for fold in range(grid.folds):
                for variant in experiment.methods_for(dataset):
                    if variant in wanted or variant.name in needed:
                        yield Task(experiment.name, dataset, variant.name, fold, grid.folds, seed, settings)


def _where_it_runs(grid: Grid, experiment: Experiment) -> str:
    """Say on which data sets the methods that were asked for run, or all of them together."""
    if grid.methods is None:
        sets = dict.fromkeys(name for variant in experiment.variants for name in variant.datasets or ())
        return f"it runs on {', '.join(sets)}" if sets else ""
    meant = {name: experiment.variant(name).datasets for name in grid.methods}
    return "; ".join(f"{name} runs on {', '.join(sets)}" for name, sets in meant.items() if sets)


def left_out(grid: Grid) -> list[str]:
    """Return the experiment's stand-ins that are not at hand, unless data sets were asked for by name."""
    return [] if grid.datasets else [name for name in catalogue.find(grid.experiment).datasets if not_at_hand(name)]


def idle_methods(grid: Grid) -> dict[str, tuple[str, ...]]:
    """Return the methods that were asked for and run on none of the data sets, with those on which they run."""
    experiment, names = catalogue.find(grid.experiment), set(grid.dataset_names())
    asked = {name: experiment.variant(name).datasets for name in grid.methods or ()}
    return {name: sets for name, sets in asked.items() if sets is not None and not names & set(sets)}

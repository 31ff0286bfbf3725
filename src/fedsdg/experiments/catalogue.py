"""All experiments by name."""

from __future__ import annotations

import difflib

from fedsdg.errors import ConfigError
from fedsdg.experiments import (
    accuracy,
    clients,
    communication,
    convergence,
    gini_ablation,
    model_table,
    motivation,
    overlap,
    paper_preset,
    permuted_labels,
    precision,
    security_cost,
    stability,
    two_by_two,
)
from fedsdg.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        accuracy,
        precision,
        motivation,
        overlap,
        gini_ablation,
        two_by_two,
        model_table,
        paper_preset,
        clients,
        stability,
        convergence,
        communication,
        security_cost,
        permuted_labels,
    )
}


def find(name: str) -> Experiment:
    """Return the experiment of this name."""
    found = EXPERIMENTS.get(name)
    if found is None:
        close = difflib.get_close_matches(name, list(EXPERIMENTS), n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ConfigError(f"there is no experiment {name!r}{meant}; there are {', '.join(EXPERIMENTS)}")
    return found

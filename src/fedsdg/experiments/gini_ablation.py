"""Gini impurity as a filter: score against the number of features, beside the F statistic, random and all features."""

from __future__ import annotations

from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.methods import ALL, with_share
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table

SHARES = (0.01, 0.02, 0.04, 0.1, 0.2, 0.5)

EXPERIMENT = Experiment(
    name="gini_ablation",
    question="How good is Gini impurity as a filter, for every number of features?",
    datasets=("MADELON", "FRIEDMAN"),
    variants=(*(with_share(base, share) for base in ("gini", "sffs", "random") for share in SHARES), ALL),
    table=method_table([column("features", "selected", ".0f"), SCORE, column("precision", "precision"), CELLS]),
)

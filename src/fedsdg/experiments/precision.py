"""Precision on data whose truth is known: how many of the selected columns matter, for several numbers of columns."""

from __future__ import annotations

from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.methods import ALL, FEDSDG, ORIGINAL_GATE, with_count
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table

COUNTS = (5, 10, 15, 20, 40, 100)

EXPERIMENT = Experiment(
    name="precision",
    question="How many of the selected features are those that carry the label?",
    datasets=("MADELON", "FRIEDMAN", "MADELON_LIKE"),
    variants=(
        FEDSDG,
        ORIGINAL_GATE,
        *(with_count(base, count) for base in ("fedsdg", "original_gate") for count in COUNTS[:4]),
        *(with_count(base, count) for base in ("gini", "sffs", "ms_gini") for count in COUNTS),
        ALL,
    ),
    table=method_table(
        [
            column("features", "selected", ".1f"),
            column("precision", "precision", ".3f"),
            column("recall", "recall", ".3f"),
            SCORE,
            CELLS,
        ]
    ),
)

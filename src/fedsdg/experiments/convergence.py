"""Convergence with and without Gini initialisation: how soon half and nine tenths of the features are out."""

from __future__ import annotations

from functools import partial

from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.gate_paths import record_path, shrinking
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table

EVERY = 5


def _measure(cell: Cell, gini: bool) -> Row:
    config = cell.vertical.config
    changed = config.with_changes(
        gates=config.gates if gini else config.gates.starting_alike(),
        validation=config.validation.model_copy(update={"every": EVERY, "patience": None}),
    )
    row = record_path(cell, changed)
    return row | shrinking(row["curve"], cell.data.n_columns)


EXPERIMENT = Experiment(
    name="convergence",
    question="Does Gini initialisation make selection faster?",
    datasets=("MADELON", "FRIEDMAN", "COIL20", "PCMAC"),
    variants=(
        Variant("by Gini", partial(_measure, gini=True)),
        Variant("alike", partial(_measure, gini=False)),
    ),
    table=method_table(
        [
            column("steps to half open", "steps_to_half", ".0f"),
            column("steps to a tenth open", "steps_to_tenth", ".0f"),
            column("features", "selected", ".0f"),
            SCORE,
            CELLS,
        ]
    ),
)

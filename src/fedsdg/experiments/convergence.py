"""Convergence with and without Gini initialisation: how soon half and nine tenths of the features are out.

Gates that start alike do so half open and, as a control, as low as those that start by Gini.
"""

from __future__ import annotations

from functools import partial

from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.gate_paths import alike_as_low, record_path, shrinking
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table

EVERY = 5
BY_GINI, ALIKE, AS_LOW = STARTS = ("by Gini", "alike", "alike, as low")


def _measure(cell: Cell, start: str) -> Row:
    config = cell.vertical.config
    gates = {BY_GINI: config.gates, ALIKE: config.gates.starting_alike()}
    changed = config.with_changes(
        gates=gates[start] if start in gates else alike_as_low(cell),
        validation=config.validation.model_copy(update={"every": EVERY, "patience": None}),
    )
    row = record_path(cell, changed)
    return row | shrinking(row["curve"], cell.data.n_columns)


EXPERIMENT = Experiment(
    name="convergence",
    question="Does Gini initialisation make selection faster?",
    datasets=("MADELON", "FRIEDMAN", "COIL20", "PCMAC"),
    variants=tuple(Variant(start, partial(_measure, start=start)) for start in STARTS),
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

"""The two ideas apart: Gini initialisation with and without, embedding gates with and without.

Gates without a Gini start are half open at first and, as a control, as low as those with one.
"""

from __future__ import annotations

from functools import partial

from fedsdg.baselines.gates import run_gates
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.communication import with_paper_embeddings
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.gate_paths import alike_as_low
from fedsdg.experiments.measure import describe
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table


def _measure(cell: Cell, gini: bool, embedding: bool, low: bool = False) -> Row:
    cell = with_paper_embeddings(cell)
    config = cell.vertical.config
    gates = config.gates if gini else alike_as_low(cell) if low else config.gates.starting_alike()
    changed = config.with_changes(gates=gates.model_copy(update={"embedding_gates": embedding}))
    return describe(cell, run_gates(cell.vertical, changed).selection)


NAMES = {
    (True, True): "Gini start, embedding gates",
    (True, False): "Gini start",
    (False, True): "embedding gates",
    (False, False): "neither",
}

LOW = {True: "embedding gates, low start", False: "neither, low start"}

EXPERIMENT = Experiment(
    name="two_by_two",
    question="What do Gini initialisation and embedding gates each contribute?",
    datasets=("MADELON", "FRIEDMAN", "COIL20", "PCMAC", "ISOLET"),
    variants=(
        *(
            Variant(name, partial(_measure, gini=gini, embedding=embedding))
            for (gini, embedding), name in NAMES.items()
        ),
        *(
            Variant(name, partial(_measure, gini=False, embedding=embedding, low=True))
            for embedding, name in LOW.items()
        ),
    ),
    table=method_table(
        [
            SCORE,
            column("share of features", "ratio", ".3f"),
            column("precision", "precision"),
            column("recall", "recall"),
            column("embedding values per prediction", "embedding_open", ".1f"),
            CELLS,
        ]
    ),
)

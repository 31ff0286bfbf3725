"""Why select at all: score and model size as one client brings more redundant or noisy columns.

ARCENE: client A holds 100 fixed columns, client B ever more. MADELON: A holds 3 columns that matter and 7 that do not,
B 2 that matter and ever more noise ("10:k" as in the paper, whose 480 would need more noise than there is).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from fedsdg.baselines.all_features import AllFeatures
from fedsdg.data.arrays import IntArray
from fedsdg.errors import DataError
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.measure import measure
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table

REDUNDANT = (100, 500, 1000, 2000, 5000, 9900)
NOISY = (10, 20, 50, 100, 200, 475)


def redundant_parts(cell: Cell, count: int) -> dict[str, IntArray]:
    """Return 100 columns for A and ``count`` others for B."""
    order = np.random.default_rng(cell.seed).permutation(cell.data.n_columns)
    if 100 + count > len(order):
        raise DataError(f"{cell.data.name} has {len(order)} columns; {100 + count} are needed")
    return {"client_1": np.sort(order[:100]), "client_2": np.sort(order[100 : 100 + count])}


def noisy_parts(cell: Cell, count: int) -> dict[str, IntArray]:
    """Return 3 relevant and 7 noise columns for A, 2 relevant and ``count - 2`` noise columns for B."""
    relevant = cell.data.relevant_mask()
    if relevant is None:
        raise DataError(f"{cell.data.name}: nobody knows which columns are noise")
    stream = np.random.default_rng(cell.seed)
    good, noise = stream.permutation(np.flatnonzero(relevant)), stream.permutation(np.flatnonzero(~relevant))
    count = min(count, len(noise) - 7 + 2)  # data sets of the reader's own may have less; `features` tells
    return {
        "client_1": np.sort(np.concatenate([good[:3], noise[:7]])),
        "client_2": np.sort(np.concatenate([good[3:5], noise[7 : 7 + count - 2]])),
    }


def _measure_redundant(cell: Cell, count: int) -> Row:
    return measure(cell.changed(custom_parts=redundant_parts(cell, count)), AllFeatures())


def _measure_noisy(cell: Cell, count: int) -> Row:
    return measure(cell.changed(custom_parts=noisy_parts(cell, count)), AllFeatures())


EXPERIMENT = Experiment(
    name="motivation",
    question="What do redundant and noisy features do to accuracy and model size?",
    datasets=("ARCENE", "MADELON"),
    variants=(
        *(Variant(f"100:{k}", partial(_measure_redundant, count=k), datasets=("ARCENE",)) for k in REDUNDANT),
        *(
            Variant(f"10:{k}", partial(_measure_noisy, count=k), datasets=("MADELON", "MADELON_LIKE", "FRIEDMAN"))
            for k in NOISY
        ),
    ),
    table=method_table(
        [SCORE, column("parameters", "parameters", ",.0f"), column("features", "selected", ".0f"), CELLS]
    ),
)

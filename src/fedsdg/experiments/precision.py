"""Precision on data whose truth is known: how many of the selected columns matter, for several numbers of columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedsdg.baselines.selector import Selection
from fedsdg.errors import ConfigError
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.measure import describe
from fedsdg.experiments.methods import ALL, FEDSDG, ORIGINAL_GATE, with_count
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table

COUNTS = (5, 10, 15, 20, 40, 100)


def _told_the_truth(cell: Cell, share: float) -> Row:
    """Score the final model on true columns, drawn by lot if not all are given: hardly a selection can beat that."""
    truth = cell.data.relevant_mask()
    if truth is None:
        raise ConfigError(f"nobody knows which columns of {cell.data.name} are true")
    held = np.concatenate(list(cell.parts.values()))
    true = held[truth[held]]
    count = max(1, round(share * len(true)))
    given = np.random.default_rng(1000 * cell.seed + cell.fold).permutation(true)[:count]
    return describe(cell, Selection({name: np.flatnonzero(np.isin(part, given)) for name, part in cell.parts.items()}))


_LINES = method_table(
    [
        column("features", "selected", ".1f"),
        column("precision", "precision", ".3f"),
        column("recall", "recall", ".3f"),
        SCORE,
        CELLS,
    ]
)


def table(rows: Sequence[Row]) -> str:
    """Return one line per method, and say where a dash means that nobody knows."""
    unknown = [name for name in group(rows) if all(r.get("precision") is None for r in rows if r["dataset"] == name)]
    note = f"Nobody knows which columns of {', '.join(unknown)} matter: no precision and recall." if unknown else ""
    return "\n\n".join(filter(None, (_LINES(rows), note)))


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
        Variant("told all true columns", partial(_told_the_truth, share=1.0)),
        Variant("told half of the true columns", partial(_told_the_truth, share=0.5)),
    ),
    table=table,
)

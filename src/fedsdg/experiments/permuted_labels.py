"""A check against leakage: with labels in random order nothing can be learned, so scores must fall to chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.methods import FEDSDG, FILTERS, LESS_VFL, ORIGINAL_GATE, label, validated, with_share
from fedsdg.experiments.statistics import group, is_regression, metric, summary
from fedsdg.experiments.tables import field_summary, label_of, markdown, score_text

RANKINGS = tuple(base for base in FILTERS if base != "random")
SHARE = 0.1
"""Of the columns, for methods that need to be told."""
ONE_IN_A_HUNDRED = 2.33
"""Standard errors that a guess exceeds once in a hundred times."""


def _measure(cell: Cell, method: Variant) -> Row:
    shuffled = np.random.default_rng(1000 + cell.seed).permutation(cell.data.y)
    row = method.measure(cell.changed(data=replace(cell.data, y=shuffled, truth=None)))
    return row | {"chance": chance(cell), "test_rows": len(cell.test_rows)}


def chance(cell: Cell) -> float:
    """Return the score of a model that knows only how frequent the classes are (R squared 0)."""
    if cell.data.task == "regression":
        return 0.0
    return float(np.unique(cell.data.y, return_counts=True)[1].max() / cell.data.n_rows)


def table(rows: Sequence[Row]) -> str:
    """Return scores beside chance, and whether they exceed it."""
    lines = [
        [label_of(name, of), label(method), score_text(of), _chance_text(of), str(len(of)), verdict(of)]
        for name, methods in group(rows).items()
        for method, of in methods.items()
    ]
    return markdown(["data set", "method", "test with permuted labels", "chance", "cells", "verdict"], lines)


def _chance_text(rows: Sequence[Row]) -> str:
    """Return chance in the unit of the scores beside it."""
    guess = field_summary(rows, "chance").mean
    return "-" if math.isnan(guess) else f"{guess:.3f}" if is_regression(rows) else f"{100 * guess:.1f}"


def verdict(rows: Sequence[Row]) -> str:
    """Say whether the mean score lies above the 99 % limit of somebody who guesses the most frequent class."""
    guess, tested = field_summary(rows, "chance").mean, sum(int(row.get("test_rows") or 0) for row in rows)
    if tested == 0 or is_regression(rows):
        return "-"
    limit = guess + ONE_IN_A_HUNDRED * math.sqrt(guess * (1 - guess) / tested)
    found = summary([metric(row) for row in rows]).mean
    return f"{'above' if found > limit else 'no better than'} chance (limit {100 * limit:.1f})"


EXPERIMENT = Experiment(
    name="permuted_labels",
    question="Does anything but the labels of the training rows reach the model?",
    datasets=("MADELON", "PCMAC", "ARCENE"),
    variants=tuple(
        Variant(method.name, partial(_measure, method=method))
        for method in (
            FEDSDG,
            ORIGINAL_GATE,
            LESS_VFL,
            *(with_share(base, SHARE) for base in ("group_lasso", "vflfs", *RANKINGS)),
            validated("sffs"),
        )
    ),
    table=table,
)

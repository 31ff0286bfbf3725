"""A small data set and small training settings, so that whole experiments run in a moment."""

from __future__ import annotations

import numpy as np

from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.datasets.dataset import make
from fedsdg.experiments.cell import Cell

SMALL = PhaseSettings(hidden=(4,), embedding=3, outputs=3, top_hidden=(4,), steps=6, batch_size=16)
TINY = TrainingConfig(gated_phase=SMALL, compact_phase=SMALL, validation=ValidationSettings(every=2))


def small_data(n_rows=60, n_columns=24, regression=False):
    """Columns 2 and 17 carry the label."""
    stream = np.random.default_rng(3)
    X = stream.standard_normal((n_rows, n_columns))
    signal = X[:, 2] + X[:, 17]
    y = signal if regression else (signal > 0).astype(np.int64)
    return make("SMALL", X, y, "a test", truth=np.array([2, 17]), regression=regression)


def small_cell(config=TINY, fold=0, seed=0, folds=3, **data):
    """One cell of a grid over the small data set."""
    return Cell(small_data(**data), fold, folds, seed, config)


def row(dataset="A", method="m", fold=0, seed=0, **more):
    """A row of results."""
    return {"dataset": dataset, "method": method, "fold": fold, "seed": seed, "accuracy": 0.5, **more}

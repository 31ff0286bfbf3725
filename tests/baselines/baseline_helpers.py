"""Small vertical data for tests of methods."""

from __future__ import annotations

import hashlib

import numpy as np

from fedsdg.baselines.selector import SERVER, VerticalData
from fedsdg.config import PhaseSettings, TrainingConfig
from fedsdg.data.feature_table import FeatureTable

TINY = TrainingConfig(
    gated_phase=PhaseSettings(hidden=(8,), embedding=4, outputs=4, top_hidden=(8,), steps=30, batch_size=32),
    compact_phase=PhaseSettings(hidden=(8,), embedding=4, outputs=4, top_hidden=(8,), steps=40, batch_size=32),
)


def easy_table(n_rows=200, n_columns=12, task="binary", seed=0):
    """Columns 1 and 8 carry the label, one at each client; the rest is noise, and column 5 is constant."""
    stream = np.random.default_rng(seed)
    X = stream.standard_normal((n_rows, n_columns))
    signal = X[:, 1] + X[:, 8]
    X[:, 5] = 3.0
    if task == "regression":
        return X, signal + 0.1 * stream.standard_normal(n_rows)
    if task == "multiclass":
        return X, np.digitize(signal, [-0.8, 0.8])
    return X, (signal > 0).astype(np.int64)


def vertical(X, y, config=TINY, test_share=0.25):
    """Deal the first half of the columns to one client, the rest to another; the last rows are for the test."""
    half = X.shape[1] // 2
    tables = {"a": FeatureTable.of(X[:, :half]), "b": FeatureTable.of(X[:, half:])}
    seeds = {name: hashlib.sha256(name.encode()).digest() for name in (SERVER, *tables)}
    return VerticalData(tables, y, np.arange(round(len(y) * (1 - test_share))), config, seeds)


def global_columns(selection, half=6):
    """Selected columns in the numbering of the whole table."""
    return sorted([*selection.columns["a"].tolist(), *(half + selection.columns["b"]).tolist()])

"""Helpers of these tests: fixed private seeds, and tables dealt to clients."""

from __future__ import annotations

import numpy as np

from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.vertical_split import split_columns, split_table


def private_seeds(names, run=0):
    """Seeds for tests: fixed, so that a failure can be repeated."""
    return {name: f"{name} of test run {run}".encode().ljust(32, b".") for name in (*names, "server")}


def deal(features, n_clients=2, seed=0):
    """Deal columns to clients; return their tables and the positions of their columns in ``features``."""
    parts = {f"client{i}": part for i, part in enumerate(split_columns(features.shape[1], n_clients, seed))}
    return split_table(FeatureTable.of(features), parts), parts


def selected(model, parts):
    """Positions of the selected columns in the undivided table."""
    return np.sort(np.concatenate([parts[name][columns] for name, columns in model.selected_positions.items()]))


def take(tables, rows):
    return {name: table.take(rows) for name, table in tables.items()}

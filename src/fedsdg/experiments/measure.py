"""From a selection to a row of results: scores, sizes, and the truth where it is known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedsdg.baselines.final_model import train_final
from fedsdg.baselines.selector import Selection, Selector
from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import IntArray
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.chosen_columns import record_columns
from fedsdg.experiments.parameters import count_parameters

SAMPLES = 100
"""Predictions whose bytes are counted, as in the paper."""
VALUE_BYTES = 4
"""An embedding value in the clear, as float32. Encrypted bytes depend on key and packing; see `security_cost`."""


def measure(cell: Cell, selector: Selector) -> Row:
    """Select, train the final model (unless the method brings its own) and score it on the fold's test rows."""
    return describe(cell, selector.select(cell.vertical))


def describe(cell: Cell, selection: Selection) -> Row:
    """Score a selection on the fold's test rows."""
    data = cell.vertical
    model = selection.model or train_final(data, selection)
    score = model.score(cell.test_rows)
    embedding = model.embedding
    counts = {name: len(columns) for name, columns in selection.columns.items()}
    phase = model.server.plan
    learned_all = phase.name == "compact" and phase.config.final_rows == "all"
    row: Row = {
        "r2" if cell.data.task == "regression" else "accuracy": score.value,
        "loss": score.loss,
        "validation": None if learned_all else model.score(data.validation_rows).value,
        "kept": phase.name,
        "parameters": count_parameters(
            phase.settings,
            counts if not phase.gated else {name: table.n_columns for name, table in data.tables.items()},
            embedding,
            phase.task_outputs,
        ),
        "embedding_open": model.embedding_open,
        "bytes": SAMPLES * VALUE_BYTES * model.embedding_open,
        "trained_with": config_hash(phase.config),
    }
    changed = differences(data.config, phase.config)
    if changed:
        row["settings_changed"] = changed
    return row | compare_with_truth(cell, selection.columns)


def compare_with_truth(cell: Cell, columns: Mapping[str, IntArray]) -> Row:
    """Return what was selected, and precision and recall where the truth is known."""
    chosen = np.sort(np.concatenate([cell.parts[name][positions] for name, positions in columns.items()]))
    row: Row = {
        "selected": len(chosen),
        "ratio": len(chosen) / sum(len(part) for part in cell.parts.values()),
        **record_columns(chosen, cell.data.n_columns),
        "precision": None,
        "recall": None,
    }
    truth = cell.data.relevant_mask()
    if truth is not None:
        held = np.concatenate(list(cell.parts.values()))
        hits = int(truth[chosen].sum())
        row["precision"] = hits / len(chosen) if len(chosen) else 0.0
        row["recall"] = hits / max(1, int(truth[held].sum()))
    return row


def differences(usual: TrainingConfig, used: TrainingConfig) -> Row:
    """Return the settings in which a model differs from the usual ones of its grid, by their dotted names."""
    before, after = (dict(_leaves(config.model_dump(mode="json"))) for config in (usual, used))
    return {name: value for name, value in after.items() if value != before[name]}


def _leaves(settings: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value


def config_hash(config: TrainingConfig) -> str:
    """Return a short digest of the training settings."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:16]

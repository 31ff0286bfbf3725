"""What an experiment really writes: its variants run on a tiny cell, through the runner that writes the rows.

Made-up rows that had fields of their own would still be drawn when the experiments no longer write those fields.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np

from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.datasets.dataset import make
from fedsdg.experiments import catalogue, runner
from fedsdg.experiments.cell import Cell
from fedsdg.experiments.experiment import Experiment
from fedsdg.results import to_json

PHASE = PhaseSettings(hidden=(4,), embedding=3, outputs=3, top_hidden=(4,), steps=6, batch_size=16)
TINY = TrainingConfig(gated_phase=PHASE, compact_phase=PHASE, validation=ValidationSettings(every=2))
COLUMNS = {"motivation": 210}
#: Its other variants train as long as the paper says, and write through the same function.
ONLY_ONE_RUNS = {"paper_preset": "fedsdg"}


def real_row(experiment: str, method: str) -> dict[str, Any]:
    """Return the row that a variant writes; of variants that differ in a number only, the first one's."""
    return _real_rows(experiment)[_kind(experiment, method)]


def _kind(experiment: str, method: str) -> str:
    """Return what a variant's row looks like: in ``sffs@0.5/2`` the share and the number of clients do not matter."""
    return ONLY_ONE_RUNS.get(experiment) or re.split("[@:]|/[0-9]|, [0-9]", method)[0]


@lru_cache
def _real_rows(name: str) -> dict[str, dict[str, Any]]:
    experiment = _with_small_keys(catalogue.find(name))
    rows: dict[str, dict[str, Any]] = {}
    earlier: dict[str, dict[str, Any]] = {}
    with (
        patch.object(catalogue, "find", lambda _: experiment),
        patch.object(runner, "cell_of", lambda *_: _cell(COLUMNS.get(name, 24))),
    ):
        for variant in experiment.variants:
            if _kind(name, variant.name) in rows or variant.name != ONLY_ONE_RUNS.get(name, variant.name):
                continue
            task = runner.Task(name, "MADELON", variant.name, 0, 3, 0, TINY, tuple(earlier.items()))
            row = json.loads(to_json(runner.run_task(task)))  # as it comes back from the file
            assert "error" not in row, row
            rows[_kind(name, variant.name)] = earlier[variant.name] = row
    return rows


def _cell(n_columns: int) -> Cell:
    """Columns 2 and 17 carry the label. The name is one that the paper's tables know."""
    stream = np.random.default_rng(3)
    X = stream.standard_normal((60, n_columns))
    y = (X[:, 2] + X[:, 17] > 0).astype(np.int64)
    return Cell(make("MADELON", X, y, "a test", truth=np.array([2, 17])), 0, 3, 0, TINY)


def _with_small_keys(experiment: Experiment) -> Experiment:
    if experiment.name != "security_cost":
        return experiment
    variants = (
        replace(each, measure=partial(each.measure, key_bits=512, allow_test_keys=True)) for each in experiment.variants
    )
    return replace(experiment, variants=tuple(variants))

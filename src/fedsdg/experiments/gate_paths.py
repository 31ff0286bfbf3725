"""Runs of the gated phase with everything on the way recorded: what the questions about paths share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsdg.baselines.gates import run_gates
from fedsdg.baselines.gini import scores_of
from fedsdg.baselines.ranking import top
from fedsdg.config import GateSettings, TrainingConfig
from fedsdg.data.arrays import BoolArray
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.measure import describe
from fedsdg.learning.gate_initialization import calibrated_gates
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.training_result import Progress

Curve = list[dict[str, float]]


def record_path(cell: Cell, config: TrainingConfig, *, overlap: bool = False) -> Row:
    """Run with these settings and return the usual row plus ``curve``: one entry per validation pass.

    An entry has the step, open features, embedding values that are sent, the scores on the validation rows (``score``)
    and on the fold's test rows (``test``: recorded, and never looked at by what chooses) and, if wished, the share of
    open features that are also among as many best ones by Gini impurity.
    """
    curve: Curve = []
    values_sent = 0

    def watch(progress: Progress, federation: PlainFederation) -> None:
        nonlocal values_sent
        sent = federation.open_embeddings()
        plan = federation.clients[next(iter(federation.layers))].learner.plan
        values_sent += 2 * sent * plan.rows_per_step  # embeddings there, slopes back
        if progress.point is None or progress.server is None:
            return
        test = federation.forward(cell.test_rows, progress.step, "test")
        entry = {
            "step": float(progress.step),
            "open": float(progress.point.n_open),
            "embedding": float(sent),
            "score": progress.point.score.value,
            "test": progress.server.score(test, cell.test_rows).value,
        }
        if overlap:
            entry["overlap"] = overlap_with_gini(federation)
        curve.append(entry)

    run = run_gates(cell.vertical, config, watch)
    return describe(cell, run.selection) | {"curve": curve, "training_values": values_sent}


def alike_as_low(cell: Cell) -> GateSettings:
    """Return gates that start alike, where those that start by Gini do on average.

    Gates that start by Gini start lower than those that start alike, so they close sooner whatever Gini knows. This
    control has their level and not their order.
    """
    data = cell.vertical
    starts = [calibrated_gates(scores_of(data, client), data.config.gates) for client in data.tables]
    mean = float(np.concatenate(starts).mean())
    return data.config.gates.starting_alike().model_copy(update={"constant_start": mean})


def overlap_with_gini(federation: PlainFederation) -> float:
    """Return the share of open gates that are among as many best columns by Gini impurity."""
    open_gates: dict[str, BoolArray] = {}
    deviations = {}
    for name, client in federation.clients.items():
        gates, scores = client.learner.input_gates, client.gini_scores
        if gates is None or scores is None:
            return float("nan")
        open_gates[name] = gates.means() > 0
        deviations[name] = scores.deviations_from_chance()
    count = int(sum(flags.sum() for flags in open_gates.values()))
    if count == 0:
        return float("nan")
    best = top(deviations, count).columns
    return float(sum(open_gates[name][best[name]].sum() for name in best) / count)


def steps_until(curve: Sequence[dict[str, Any]], share: float, n_columns: float) -> float | None:
    """Return the first recorded step with at most this share of the columns open, or None."""
    reached = [entry["step"] for entry in curve if entry["open"] <= share * n_columns]
    return float(np.min(reached)) if reached else None


SHRINKING = {"steps_to_half": 0.5, "steps_to_tenth": 0.1}


def shrinking(curve: Sequence[dict[str, Any]], n_columns: float) -> Row:
    """Return after how many steps half, and a tenth, of the columns are still open."""
    return {name: steps_until(curve, share, n_columns) for name, share in SHRINKING.items()}

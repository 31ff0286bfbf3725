"""Stability: score against the number of features, over the rounds of training, and of the selection between folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from fedsdg.baselines.fedsdg_fs import FedSDG
from fedsdg.baselines.original_gate import OriginalGate
from fedsdg.baselines.ranking import HowMany, RankingSelector
from fedsdg.config import TrainingConfig
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.chosen_columns import columns_of
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.gate_paths import SHRINKING, record_path, shrinking
from fedsdg.experiments.measure import measure
from fedsdg.experiments.methods import FILTERS
from fedsdg.experiments.statistics import group, summary
from fedsdg.experiments.tables import field_text, label_of, markdown, score_text

SHARES = (0.05, 0.1, 0.2, 0.4)


def _count(cell: Cell, share: float) -> int:
    return max(1, round(share * cell.data.n_columns))


def _gates_with_share(cell: Cell, share: float, method: type[FedSDG] | type[OriginalGate]) -> Row:
    return measure(cell, method(count=_count(cell, share)))


def _filter_with_share(cell: Cell, share: float) -> Row:
    return measure(cell, RankingSelector("sffs", FILTERS["sffs"], HowMany(count=_count(cell, share))))


def _path(cell: Cell, method: FedSDG | OriginalGate) -> Row:
    config: TrainingConfig = method.config(cell.vertical.config)
    return record_path(cell, config.with_changes(validation=config.validation.model_copy(update={"patience": None})))


def agreement(rows: Sequence[Row]) -> float:
    """Return how far cells select the same columns: 1 for the same, 0 for what chance would give at these numbers.

    Nogueira, Sechidis and Brown (2018): one minus the variance of a column's being selected over that of a draw by
    lot. Unlike plain overlap it does not reward a method for keeping nearly everything.
    """
    chosen = [(found, row["ratio"]) for row in rows if (found := columns_of(row)) and row.get("ratio")]
    if len(chosen) < 2:
        return float("nan")
    n_columns = max(round(len(found) / ratio) for found, ratio in chosen)
    times = np.array(list(Counter(column for found, _ in chosen for column in found).values()))
    share = times / len(chosen)
    observed = float((share * (1 - share)).sum()) * len(chosen) / (len(chosen) - 1) / n_columns
    kept = float(share.sum()) / n_columns
    return 1 - observed / (kept * (1 - kept)) if kept < 1 else float("nan")


def fall(row: Row) -> float:
    """Return how far the score on the test rows ends below its best while gates close, be it the last of them."""
    scores = [entry["score"] if entry.get("test") is None else entry["test"] for entry in row["curve"]]
    return max(scores) - scores[-1] if scores else float("nan")


def columns_in(row: Row) -> float:
    """Return how many columns a row's data set has; NaN where the row does not tell."""
    known = row.get("selected") and row.get("ratio")
    return round(float(row["selected"]) / float(row["ratio"])) if known else float("nan")


def nothing_left(row: Row) -> bool:
    """Return whether every gate had closed at the end of the path."""
    return bool(row["curve"]) and row["curve"][-1]["open"] == 0


def table(rows: Sequence[Row]) -> str:
    """Return scores by number of features, the fall at the end of the path, and agreement between cells."""
    lines = []
    for name, methods in group(rows).items():
        for method, of in methods.items():
            walked = [row for row in of if row.get("curve")]
            paths = [fall(row) for row in walked]
            agreed = agreement(of)
            lines.append(
                [
                    label_of(name, of),
                    method,
                    field_text(of, "selected", ".0f"),
                    score_text(of),
                    f"{100 * summary(paths).mean:.1f}" if paths else "-",
                    f"{sum(map(nothing_left, walked))} of {len(walked)}" if walked else "-",
                    f"{agreed:.2f}" if agreed == agreed else "-",
                    *(
                        field_text([shrinking(row["curve"], columns_in(row)) for row in walked], name, ".0f")
                        for name in SHRINKING
                    ),
                ]
            )
    header = [
        "data set",
        "method",
        "features",
        "test",
        "fall from best to last round",
        "cells where every gate closed",
        "same columns between cells (0: by chance, 1: all)",
        "steps to half open",
        "to a tenth",
    ]
    return markdown(header, lines)


EXPERIMENT = Experiment(
    name="stability",
    question="How stable is the score over numbers of features and rounds, and the selection over folds?",
    datasets=("ARCENE", "GISETTE_SURROGATE", "MADELON"),
    variants=(
        Variant("FedSDG-FS, path", partial(_path, method=FedSDG())),
        Variant("original-Gate, path", partial(_path, method=OriginalGate())),
        *(
            Variant(f"{name}, {share:g}", partial(_gates_with_share, share=share, method=method))
            for share in SHARES
            for name, method in (("FedSDG-FS", FedSDG), ("original-Gate", OriginalGate))
        ),
        *(Variant(f"SFFS, {share:g}", partial(_filter_with_share, share=share)) for share in SHARES),
    ),
    table=table,
)

"""The cost of secure filters: every filter in the clear and under encryption, on the same training rows.

Both must find the same scores to the last bit; what differs is seconds and bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from fedsdg.baselines.secure_filters import DEFAULT_KEY_BITS, PLAIN, plain_scores, run_filter
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.chosen_columns import MOST_COLUMNS_LISTED
from fedsdg.experiments.experiment import Variant
from fedsdg.experiments.methods import label
from fedsdg.experiments.statistics import by_cell, group
from fedsdg.experiments.tables import field_text, label_of, markdown
from fedsdg.job import Profile
from fedsdg.messages.filter_statistics import Statistic


def measure_filter(
    cell: Cell,
    statistic: Statistic,
    profile: Profile,
    key_bits: int = DEFAULT_KEY_BITS,
    allow_test_keys: bool = False,
) -> Row:
    """Score all columns with a profile: the ranking, a digest of the scores, seconds, and real messages."""
    data = cell.vertical
    if profile == "plain":
        start = time.perf_counter()
        scores, sent, messages = plain_scores(data, statistic), 0, 0
        seconds = time.perf_counter() - start
    else:
        run = run_filter(data, statistic, key_bits=key_bits, allow_test_keys=allow_test_keys)
        scores, seconds, sent = run.scores, run.seconds, run.traffic.total
        messages = sum(run.traffic.messages.values())
    found = np.concatenate([np.asarray(scores[name], np.float64) for name in cell.parts])
    columns = np.concatenate(list(cell.parts.values()))
    ranking = columns[np.argsort(-found, kind="stable")]
    return {
        "ranking": ranking[:MOST_COLUMNS_LISTED].tolist(),
        "scores_digest": hashlib.sha256(found.tobytes()).hexdigest(),
        "job_bytes": sent,
        "messages": messages,
        "job_seconds": round(seconds, 3),
    }


def table(rows: Sequence[Row]) -> str:
    """Return one line per data set and filter: costs, and whether both profiles found the same."""
    lines = []
    for dataset, methods in group(rows).items():
        for statistic in PLAIN:
            plain, masked = methods.get(f"{statistic}/plain", []), methods.get(f"{statistic}/masked", [])
            if not plain and not masked:
                continue
            ours, theirs = by_cell(masked), by_cell(plain)
            shared = sorted(set(ours) & set(theirs))
            same = sum(_found(ours[cell]) == _found(theirs[cell]) for cell in shared)
            lines.append(
                [
                    label_of(dataset, [*plain, *masked]),
                    label(statistic),
                    field_text(plain, "job_seconds", ".2f"),
                    field_text(masked, "job_seconds", ".2f"),
                    field_text(masked, "messages", ",.0f"),
                    field_text(masked, "job_bytes", ",.0f"),
                    f"{same} of {len(shared)}",
                ]
            )
    header = ["data set", "filter", "plain (s)", "masked (s)", "messages", "bytes", "cells with the same scores"]
    return markdown(header, lines)


def _found(row: Row) -> tuple[object, object]:
    return row.get("scores_digest"), row.get("ranking")


VARIANTS = tuple(
    Variant(f"{statistic}/{profile}", partial(measure_filter, statistic=statistic, profile=profile))
    for statistic in PLAIN
    for profile in ("plain", "masked")
)

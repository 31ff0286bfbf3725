"""Columns that nothing can be learned from: empty, constant, rare through and through, or a copy of another.

They stay in the table, because the number of columns is announced before anybody knows the training rows. Their owner
keeps their gates shut and is told why; nobody else learns of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from fedsdg.data.column_codes import ColumnCode
from fedsdg.data.feature_table import FeatureTable

EMPTY = "empty on the training rows"
CONSTANT = "constant on the training rows"
ALL_RARE = "every level is rare on the training rows"
NO_WORDS = "no word is frequent on the training rows"


def unusable_columns(training: FeatureTable, codes: Sequence[ColumnCode]) -> dict[str, str]:
    """Return the reason for every column that cannot be used; ``training`` holds the training rows."""
    reasons: dict[str, str] = {}
    seen: dict[bytes, str] = {}
    for code in codes:
        reason = _nothing_to_learn(training, code)
        if reason is None:
            same = seen.setdefault(_fingerprint(training, code.name), code.name)
            reason = None if same == code.name else f"repeats column {same!r}"
        if reason is not None:
            reasons[code.name] = reason
    return reasons


def _nothing_to_learn(training: FeatureTable, code: ColumnCode) -> str | None:
    cells = training.values[:, training.positions[code.name]]
    missing = np.isnan(cells)
    if missing.all():
        return EMPTY
    if not missing.any() and (cells == cells[0]).all():
        return CONSTANT
    if code.kind == "category" and not code.levels:
        return ALL_RARE
    if code.kind == "text" and not code.levels and not code.indicator:
        return NO_WORDS
    return None


def _fingerprint(training: FeatureTable, name: str) -> bytes:
    """Return what two columns share if and only if they are of one kind and all their cells are equal."""
    position = training.positions[name]
    kind, cells = training.kinds[position], training.values[:, position]
    digest = hashlib.blake2b(kind.encode())
    if kind != "number":
        levels = training.levels[name]
        used = np.unique(cells[~np.isnan(cells)]).astype(np.int64).tolist()
        used.sort(key=lambda code: levels[code])  # codes are the table's own; texts can be compared
        renumbered = np.full(len(levels), np.nan)
        renumbered[used] = np.arange(len(used))
        cells = np.where(np.isnan(cells), np.nan, renumbered[np.where(np.isnan(cells), 0, cells).astype(np.int64)])
        for code in used:
            digest.update(len(levels[code].encode()).to_bytes(8, "big") + levels[code].encode())
    # One bit pattern for all NaN, and 0 instead of -0.
    digest.update(np.where(np.isnan(cells), np.nan, cells + 0.0).tobytes())
    return digest.digest()

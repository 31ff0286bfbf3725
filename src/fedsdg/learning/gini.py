"""Gini impurity of columns, in the clear: the reference for the encrypted Algorithm 1.

For a column with bins U_1 ... U_b and class counts c_ik::

    G = 1 - (1/N) sum_i (1/|U_i|) sum_k c_ik^2          0 <= G <= G0, lower is better

Under encryption the division is folded into integer bin weights w_i = round(2**f / sqrt(|U_i|)) before
squaring, so that ``S = sum_ik (w_i c_ik)^2`` is an integer that both computations share exactly, and ``G = 1
- S / (2**(2f) N)``. This module computes the same S; the exact score differs from it by about 1e-6
(:func:`exact_gini`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np

from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.binning import Binning
from fedsdg.errors import DataError

WEIGHT_FRACTION_BITS = 24
MOST_ROWS = 20_000
"""Scores are taken over at most this many rows: more would sharpen a ranking that training refines anyway."""
CONSTANT_COLUMN_Z = -3.0
"""The z of a column with one bin: it cannot carry information, so it ranks below chance."""


@dataclass(frozen=True, eq=False)
class GiniScores:
    """What a client learns about its own columns in Algorithm 1."""

    scores: FloatArray
    """G per column."""
    label_impurity: float
    """G0: the impurity of the labels without any column."""
    n_bins: IntArray
    n_rows: int
    n_classes: int

    def deviations_from_chance(self) -> FloatArray:
        """Return z: how far each score lies from that of an unrelated column, in null standard deviations.

        For an unrelated column (N-1)(c-1)(1 - G/G0) is close to chi-square with df = (bins-1)(c-1). A raw
        score cannot be compared between columns: more bins lower it by chance alone.
        """
        degrees = (self.n_bins - 1) * (self.n_classes - 1)
        usable = degrees > 0
        safe = np.where(usable, degrees, 1).astype(np.float64)
        statistic = (self.n_rows - 1) * (self.n_classes - 1) * (1.0 - self.scores / self.label_impurity)
        return np.where(usable, (statistic - safe) / np.sqrt(2.0 * safe), CONSTANT_COLUMN_Z)


def sampled_rows(n_train_rows: int, joint_seed: int) -> IntArray:
    """Return the positions (among the training rows) that are scored: all, or a sample that every party can draw."""
    if n_train_rows <= MOST_ROWS:
        return np.arange(n_train_rows, dtype=np.int64)
    digest = hashlib.sha256(f"fedsdg gini rows v1|{joint_seed}|{n_train_rows}".encode()).digest()
    stream = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
    return np.sort(stream.choice(n_train_rows, MOST_ROWS, replace=False)).astype(np.int64)


def bin_weight(size: int, fraction_bits: int = WEIGHT_FRACTION_BITS) -> int:
    """Return round(2**f / sqrt(size)) in integer arithmetic."""
    return (isqrt((1 << (2 * fraction_bits + 2)) // size) + 1) // 2


def class_counts(codes: IntArray, n_bins: int, labels: IntArray, n_classes: int) -> IntArray:
    """Return bins x classes counts of one column."""
    return np.bincount(codes * n_classes + labels, minlength=n_bins * n_classes).reshape(n_bins, n_classes)


def weighted_square_sum(counts: IntArray, fraction_bits: int = WEIGHT_FRACTION_BITS) -> int:
    """Return S = sum_ik (w_i c_ik)^2 as an exact integer."""
    total = 0
    for row in counts.tolist():
        size = sum(row)
        if size:
            total += bin_weight(size, fraction_bits) ** 2 * sum(count * count for count in row)
    return total


def gini_from_square_sum(square_sum: int, n_rows: int, fraction_bits: int = WEIGHT_FRACTION_BITS) -> float:
    """Return G = 1 - S / (2**(2f) N)."""
    return float(1 - Fraction(square_sum, n_rows << (2 * fraction_bits)))


def exact_gini(counts: IntArray) -> Fraction:
    """Return the Gini score without any rounding."""
    rows = [row for row in counts.tolist() if sum(row)]
    n_rows = sum(sum(row) for row in rows)
    return 1 - sum((Fraction(sum(c * c for c in row), sum(row)) for row in rows), Fraction(0)) / n_rows


def gini_scores(binning: Binning, labels: IntArray, n_classes: int) -> GiniScores:
    """Score every column of one party against class labels 0 ... n_classes - 1."""
    n_rows = len(labels)
    if binning.codes.shape[0] != n_rows:
        raise DataError(f"gini: {binning.codes.shape[0]} rows of features and {n_rows} labels")
    if n_rows == 0 or np.all(labels == labels[0]):
        raise DataError(
            "gini: all training labels are equal, so no column can be scored; at least two classes are needed"
        )
    scores = np.empty(binning.codes.shape[1])
    for column, n_bins in enumerate(binning.n_bins.tolist()):
        counts = class_counts(binning.codes[:, column], n_bins, labels, n_classes)
        scores[column] = gini_from_square_sum(weighted_square_sum(counts), n_rows)
    whole = class_counts(np.zeros(n_rows, dtype=np.int64), 1, labels, n_classes)
    impurity = gini_from_square_sum(weighted_square_sum(whole), n_rows)
    return GiniScores(scores, impurity, binning.n_bins, n_rows, n_classes)

"""Filter statistics on integers: what the plain baselines compute and what the secure filters return, bit for bit.

Each statistic of a column is a function of one integer S, a sum of squares of linear sums of label numbers, and of
numbers that the owner of the column knows. In the clear and under encryption S is the same integer and the function is
the one below, so scores are equal as floating-point numbers, not merely close.

=========  ====================================================================  =====================================
statistic  S                                                                     against the textbook
=========  ====================================================================  =====================================
gini       sum over bins and classes of (w_b n_bk)^2                             `learning.gini`: about 1e-6
ms_gini    the same with two bins, split at the mean                             about 1e-6
chi2       sum over bins and classes of (w_b m_k n_bk)^2                         N times about 1e-8
sffs       sum over classes of (sum of m_k x)^2, x in 16 bits and a sign         F to about 1e-4
=========  ====================================================================  =====================================

Weights w_b = round(2^f / sqrt(bin size)) belong to the client, m_k = round(2^f / sqrt(class size)) to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.binning import Binning
from fedsdg.errors import DataError
from fedsdg.learning.gini import GiniScores, bin_weight

Statistic = Literal["gini", "ms_gini", "sffs", "chi2"]

CLASS_FRACTION_BITS = 32
"""f of chi2 and sffs: chi2 subtracts numbers that are nearly equal, so it needs more than Gini."""
CELL_BITS = 16
"""Cells of sffs lie between -(2^16 - 1) and 2^16 - 1."""


# --- The server's side: labels as numbers --------------------------------------------------------------------------


def label_columns(statistic: Statistic, codes: IntArray, n_classes: int) -> IntArray:
    """Return what the server encrypts, rows x label columns: indicators, or class weights in their place."""
    indicators: IntArray = (codes[:, None] == np.arange(n_classes)[None, :]).astype(np.int64)
    if statistic in ("gini", "ms_gini"):
        return indicators[:, :-1]  # the last class is implied by the bin sizes
    weights = np.array(class_weights(np.bincount(codes, minlength=n_classes)), np.int64)
    return np.asarray(indicators * weights)


def class_weights(sizes: IntArray) -> list[int]:
    """Return m_k; a class without rows weighs nothing."""
    return [bin_weight(int(size), CLASS_FRACTION_BITS) if size else 0 for size in sizes]


def target_column(target: NDArray[np.float64]) -> IntArray:
    """Return a numeric target as one label column: centred, its norm is 2^f but for the rounding."""
    centred = target - target.mean()
    norm = np.sqrt(centred @ centred)
    if not norm > 0:
        raise DataError("sffs: the target is constant on the training rows, so no column can be scored")
    numbers: IntArray = np.rint(centred / norm * 2.0**CLASS_FRACTION_BITS).astype(np.int64)
    return numbers.reshape(-1, 1)


# --- The client's side: columns as numbers -------------------------------------------------------------------------


def split_at_mean(values: NDArray[np.float64]) -> Binning:
    """Return two bins per column: at or below its mean, and above. Columns that do not vary have one."""
    # Constant columns first: a mean may be off by a rounding error and split equal values.
    above = (values > values.mean(axis=0)) & (values != values[0]).any(axis=0)
    codes = above.astype(np.int64)
    return Binning(codes, codes.max(axis=0) + 1)


def fixed_point_cells(values: NDArray[np.float64]) -> IntArray:
    """Return every column centred, with its largest deviation at 2^16 - 1; columns that do not vary are 0.

    F does not change when a column is moved or stretched, so neither number has to be told to anybody.
    """
    largest = np.abs(values).max(axis=0)
    scaled = values / np.where(largest > 0, largest, 1.0)  # first, so that no sum overflows
    centred = scaled - scaled.mean(axis=0)
    spread = np.abs(centred).max(axis=0)
    varies = (values != values[0]).any(axis=0) & (spread > 0)
    cells = np.rint(centred / np.where(varies, spread, 1.0) * ((1 << CELL_BITS) - 1))
    return np.where(varies, cells, 0.0).astype(np.int64)


# --- Sums in the clear ---------------------------------------------------------------------------------------------


def chi2_square_sum(counts: IntArray) -> int:
    """Return S of a bins x classes table."""
    m = class_weights(counts.sum(axis=0))
    total = 0
    for row in counts.tolist():
        w = bin_weight(sum(row), CLASS_FRACTION_BITS) if sum(row) else 0
        total += sum((w * m_k * count) ** 2 for m_k, count in zip(m, row, strict=True))
    return total


def class_square_sums(cells: IntArray, labels: IntArray) -> list[int]:
    """Return S of every column of cells, for label columns as `label_columns` or `target_column` make them."""
    sums = np.zeros((labels.shape[1], cells.shape[1]), np.int64)
    for k in range(labels.shape[1]):
        rows = np.flatnonzero(labels[:, k])
        sums[k] = labels[rows, k] @ cells[rows]  # below 2^63: the norms of both are bounded
    return [sum(value * value for value in of_column) for of_column in sums.T.tolist()]


# --- From S to the statistic ---------------------------------------------------------------------------------------


def chi2_from_square_sum(square_sum: int, n_rows: int) -> float:
    """Return Pearson's chi-square: N (S / 2^(4f) - 1)."""
    return float(n_rows * (Fraction(square_sum, 1 << (4 * CLASS_FRACTION_BITS)) - 1))


def standardised(chi2: float, n_bins: int, n_classes: int) -> float:
    """Return (chi2 - df) / sqrt(2 df): comparable between columns with different numbers of bins."""
    degrees = (n_bins - 1) * (n_classes - 1)
    return float((chi2 - degrees) / np.sqrt(2 * degrees))


def split_scores(of_splits: GiniScores) -> FloatArray:
    """Return minus N times the impurity of splits at the mean; columns that cannot be split come last."""
    impurity = of_splits.n_rows * of_splits.scores
    return np.where(of_splits.n_bins > 1, -impurity, -np.inf)


def f_from_square_sums(square_sums: Sequence[int], cells: IntArray, n_classes: int) -> FloatArray:
    """Return the F statistic of every column, with one class for a numeric target; constant columns come last."""
    n_rows = len(cells)
    above, below = (n_classes - 1, n_rows - n_classes) if n_classes > 1 else (1, n_rows - 2)
    if below < 1:
        raise DataError(f"sffs: {n_rows} training rows are too few for {n_classes} classes; there must be more rows")
    scores = np.full(cells.shape[1], -np.inf)
    sums, squares = cells.sum(axis=0).tolist(), (cells**2).sum(axis=0).tolist()
    for column, square_sum in enumerate(square_sums):
        offset = Fraction(sums[column] ** 2, n_rows)  # cells are centred before they are rounded: nearly 0
        total = squares[column] - offset
        if total == 0:
            continue
        between = Fraction(square_sum, 1 << (2 * CLASS_FRACTION_BITS)) - (offset if n_classes > 1 else 0)
        # The rounded weights may lead a hair's breadth outside.
        between = min(max(between, Fraction(0)), total)
        scores[column] = float(between * below / ((total - between) * above)) if between < total else np.inf
    return scores

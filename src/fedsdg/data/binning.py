"""Cut columns into bins: the partition U_1 ... U_b of the samples that the Gini score needs.

========================  =================================================================
column                    bins
========================  =================================================================
constant                  one
mostly zero               absent / present: quantiles of a sparse column say nothing
few distinct values       one per value
anything else             quantiles
levels of a category      one per level, most frequent first; the rest together
missing cells             one of their own
========================  =================================================================

A bin with fewer than the minimum number of rows is merged with its neighbour, because a class count over a
handful of samples is close to their labels. Bins are learned and used on training rows only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsdg.config import BinningSettings
from fedsdg.data.arrays import FloatArray, IntArray, as_feature_matrix
from fedsdg.errors import DataError


@dataclass(frozen=True, eq=False)
class Binning:
    """The bin of every sample in every column."""

    codes: IntArray
    """rows x columns, each column numbered 0 ... n_bins - 1 without gaps."""
    n_bins: IntArray
    """Number of bins per column."""


def bin_columns(values: FloatArray, settings: BinningSettings) -> Binning:
    """Bin every column of a rows x columns matrix."""
    matrix = as_feature_matrix(values, "binning")
    codes = np.empty(matrix.shape, dtype=np.int64)
    for column in range(matrix.shape[1]):
        codes[:, column] = bin_column(matrix[:, column], settings)
    return Binning(codes, codes.max(axis=0) + 1)


def bin_column(column: FloatArray, settings: BinningSettings) -> IntArray:
    """Return the bin of every value of one column."""
    distinct, positions = np.unique(column, return_inverse=True)
    if len(distinct) == 1:
        return np.zeros(len(column), dtype=np.int64)
    if np.mean(column == 0) >= settings.sparse_share:
        codes = (column != 0).astype(np.int64)
    elif len(distinct) <= settings.bins:
        codes = positions.astype(np.int64)
    else:
        bins = max(1, min(settings.bins, len(column) // settings.minimum_size))  # fewer rows, fewer bins
        levels = np.linspace(0, 1, bins + 1)[1:-1]
        # An edge is a value that occurs, never an interpolation: equal values share a bin, and the partition
        # depends on the order of the values only.
        edges = np.unique(np.quantile(column, levels, method="lower"))
        codes = np.searchsorted(edges, column, side="left").astype(np.int64)
    return merge_small_bins(codes, settings.minimum_size)


def bin_with_missing(column: FloatArray, settings: BinningSettings) -> IntArray:
    """Return the bin of every value of a column in which NaN stands for missing."""
    missing = np.isnan(column)
    if not missing.any():
        return bin_column(column, settings)
    codes = np.zeros(len(column), dtype=np.int64)
    if missing.all():
        return codes
    if settings.bins > 2:  # one of the bins is for the missing cells
        fewer = settings.model_copy(update={"bins": settings.bins - 1})
        codes[~missing] = bin_column(column[~missing], fewer)
    codes[missing] = codes.max() + 1
    return merge_small_bins(codes, settings.minimum_size)


def bin_levels(codes: IntArray, settings: BinningSettings) -> IntArray:
    """Return the bin of every cell of a category; what is missing has a code like any level.

    Rare levels stand at the end, so that small bins are merged with one another and not with a frequent level.
    """
    _, level, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    place = np.empty(len(sizes), dtype=np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return merge_small_bins(np.minimum(place[level], settings.bins - 1), settings.minimum_size)


def merge_small_bins(codes: IntArray, minimum_size: int) -> IntArray:
    """Join neighbouring bins until each has ``minimum_size`` rows, and number them without gaps."""
    sizes = np.bincount(codes)
    target: NDArray[np.int64] = np.zeros(len(sizes), dtype=np.int64)
    current, filled = 0, 0
    for code, size in enumerate(sizes):
        if filled >= minimum_size and size > 0:
            current, filled = current + 1, 0
        target[code] = current
        filled += int(size)
    if filled < minimum_size and current > 0:  # the last bin has no right neighbour: join the left one
        target[target == current] = current - 1
    return target[codes]


def bin_target(target: FloatArray, bins: int) -> IntArray:
    """Cut a regression target into classes of nearly equal size, for the Gini score."""
    values = np.asarray(target, dtype=np.float64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1], method="lower"))
    codes = np.searchsorted(edges, values, side="left").astype(np.int64)
    _, compact = np.unique(codes, return_inverse=True)
    if compact.max(initial=0) == 0:
        raise DataError("the regression target is constant: there is nothing to learn")
    return compact.astype(np.int64)

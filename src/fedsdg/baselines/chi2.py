"""Chi-square of bins against classes, standardised by its degrees of freedom.

Columns differ in their number of bins, so the raw statistics cannot be ranked: (chi2 - df) / sqrt(2 df) can.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.contingency import score_columns
from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray


def chi2_scores(data: VerticalData, client: str) -> FloatArray:
    """Return the standardised chi-square of every column."""
    return score_columns(data, client, standardised_chi2)


def standardised_chi2(counts: NDArray[np.float64]) -> float:
    """Return (chi2 - df) / sqrt(2 df) of a table of counts."""
    degrees = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    return float((chi2_statistic(counts) - degrees) / np.sqrt(2 * degrees))


def chi2_statistic(counts: NDArray[np.float64]) -> float:
    """Return Pearson's chi-square of a table of counts."""
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / counts.sum()
    return float(((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum())

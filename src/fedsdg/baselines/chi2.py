"""Chi-square of bins against classes, standardised by its degrees of freedom.

Columns differ in their number of bins, so the raw statistics cannot be ranked: (chi2 - df) / sqrt(2 df) can. Bin and
class sizes are folded into integer weights (`messages.filter_statistics`), so that the secure version finds the same
numbers, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.contingency import score_columns
from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray
from fedsdg.messages.filter_statistics import chi2_from_square_sum, chi2_square_sum, standardised


def chi2_scores(data: VerticalData, client: str) -> FloatArray:
    """Return the standardised chi-square of every column."""
    return score_columns(data, client, standardised_chi2)


def standardised_chi2(counts: NDArray[np.float64]) -> float:
    """Return (chi2 - df) / sqrt(2 df) of a table of counts."""
    return standardised(chi2_statistic(counts), *counts.shape)


def chi2_statistic(counts: NDArray[np.float64]) -> float:
    """Return Pearson's chi-square of a table of counts."""
    return chi2_from_square_sum(chi2_square_sum(counts.astype(np.int64)), int(counts.sum()))

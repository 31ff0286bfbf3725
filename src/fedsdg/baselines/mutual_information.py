"""Mutual information between a column's bins and the classes, less its expectation by chance.

The plain estimate grows with the number of bins; (b - 1)(c - 1) / 2N, its bias for an unrelated column, is taken off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.contingency import score_columns
from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray


def mutual_information_scores(data: VerticalData, client: str) -> FloatArray:
    """Return the corrected mutual information of every column, in nats."""
    return score_columns(data, client, corrected_information)


def corrected_information(counts: NDArray[np.float64]) -> float:
    """Return mutual information less its bias by chance."""
    bias = (counts.shape[0] - 1) * (counts.shape[1] - 1) / (2 * counts.sum())
    return mutual_information(counts) - float(bias)


def mutual_information(counts: NDArray[np.float64]) -> float:
    """Return the mutual information of a table of counts."""
    joint = counts / counts.sum()
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    filled = joint > 0
    return float((joint[filled] * np.log(joint[filled] / independent[filled])).sum())

"""Information value: ``IV = sum_i (p_i - q_i) ln(p_i / q_i)`` over bins, p and q the bin shares of two classes.

Half a row is added to every count, or an empty bin would make it infinite. With more than two classes each is set
against the rest, and the values are averaged by class size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.contingency import score_columns
from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray

SMOOTHING = 0.5


def information_value_scores(data: VerticalData, client: str) -> FloatArray:
    """Return the information value of every column."""
    return score_columns(data, client, information_value)


def information_value(counts: NDArray[np.float64]) -> float:
    """Return the information value of a table of counts, bins by classes."""
    sizes = counts.sum(axis=0)
    if counts.shape[1] == 2:
        return _two_classes(counts[:, 0], counts[:, 1])
    rest = counts.sum(axis=1)
    values = [_two_classes(counts[:, k], rest - counts[:, k]) for k in range(counts.shape[1])]
    return float(np.average(values, weights=sizes))


def _two_classes(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    p = (first + SMOOTHING) / (first + SMOOTHING).sum()
    q = (second + SMOOTHING) / (second + SMOOTHING).sum()
    return float(((p - q) * np.log(p / q)).sum())

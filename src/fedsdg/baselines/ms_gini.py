"""MS-GINI (Li, Dowsley, De Cock 2021): Gini impurity of a split at the column's mean, k given by the user.

``a`` rows lie at or below the mean, ``b`` above, with class counts A_k and B_k::

    G = (a - sum_k A_k^2 / a) + (b - sum_k B_k^2 / b)          an empty side counts 0; lower is better
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray, IntArray


def ms_gini_scores(data: VerticalData, client: str) -> FloatArray:
    """Return minus the impurity of every column's split, so that higher is better; constant columns come last."""
    return -mean_split_impurity(data.training_values(client), *data.classes())


def mean_split_impurity(values: NDArray[np.float64], codes: IntArray, n_classes: int) -> FloatArray:
    """Return G of every column, infinite for constant ones."""
    indicator = np.eye(n_classes)[codes]
    above = (values > values.mean(axis=0)).astype(np.float64)
    upper = above.T @ indicator
    lower = indicator.sum(axis=0) - upper
    impurity = _side(lower) + _side(upper)
    return np.where((values == values[0]).all(axis=0), np.inf, impurity)


def _side(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    sizes = counts.sum(axis=1)
    return np.asarray(sizes - (counts**2).sum(axis=1) / np.maximum(sizes, 1.0))

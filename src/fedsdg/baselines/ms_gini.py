"""MS-GINI (Li, Dowsley, De Cock 2021): Gini impurity of a split at the column's mean, k given by the user.

``a`` rows lie at or below the mean, ``b`` above, with class counts A_k and B_k::

    G = (a - sum_k A_k^2 / a) + (b - sum_k B_k^2 / b)          an empty side counts 0; lower is better

The divisions are folded into integer weights as in `learning.gini` (G is off by about one millionth), so that the
secure version finds the same numbers, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.learning.gini import gini_scores
from fedsdg.messages.filter_statistics import split_at_mean, split_scores


def ms_gini_scores(data: VerticalData, client: str) -> FloatArray:
    """Return minus the impurity of every column's split, so that higher is better; constant columns come last."""
    return -mean_split_impurity(data.training_values(client), *data.classes())


def mean_split_impurity(values: NDArray[np.float64], codes: IntArray, n_classes: int) -> FloatArray:
    """Return G of every column, infinite for constant ones."""
    return -split_scores(gini_scores(split_at_mean(values), codes, n_classes))

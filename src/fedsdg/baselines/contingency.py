"""Counts of bins against classes, column by column: what chi-square, mutual information and IV are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray
from fedsdg.data.binning import bin_columns
from fedsdg.learning.gini import class_counts


def score_columns(data: VerticalData, client: str, statistic: Callable[[NDArray[np.float64]], float]) -> FloatArray:
    """Return a statistic of the bins x classes counts of every column; columns with one bin come last."""
    binning = bin_columns(data.training_values(client), data.config.binning)
    codes, n_classes = data.classes()
    scores = np.full(len(binning.n_bins), -np.inf)
    for column, n_bins in enumerate(binning.n_bins.tolist()):
        if n_bins > 1:
            counts = class_counts(binning.codes[:, column], n_bins, codes, n_classes)
            scores[column] = statistic(counts.astype(np.float64))
    return scores

"""SFFS (Pan et al. 2020): the F statistic of each column, k given by the user.

With class sums ``S_k`` and class sizes ``n_k``::

    SSB = sum_k S_k^2 / n_k - (sum x)^2 / N          SST = sum x^2 - (sum x)^2 / N
    F   = [SSB / (c - 1)] / [(SST - SSB) / (N - c)]

For a regression ``F = r^2 / (1 - r^2) (N - 2)`` with the correlation r.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray, IntArray


def f_scores(data: VerticalData, client: str) -> FloatArray:
    """Return the F statistic of every column; constant columns come last."""
    values = data.training_values(client)
    if data.objective.task == "regression":
        return f_regression(values, data.objective.targets.numpy()[data.train_rows].astype(np.float64))
    return f_classes(values, *data.classes())


def f_classes(values: NDArray[np.float64], codes: IntArray, n_classes: int) -> FloatArray:
    """Return the F statistic of an analysis of variance between classes."""
    n_rows = len(values)
    centred = values - values.mean(axis=0)  # the same F, without cancellation in the squares
    indicator = np.eye(n_classes)[codes]
    sizes = indicator.sum(axis=0)
    class_sums = indicator.T @ centred
    between = (class_sums**2 / sizes[:, None]).sum(axis=0)
    total = (centred**2).sum(axis=0)
    within = np.maximum(total - between, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (between / (n_classes - 1)) / (within / (n_rows - n_classes))
    return np.where(total > 0, scores, -np.inf)


def f_regression(values: NDArray[np.float64], target: NDArray[np.float64]) -> FloatArray:
    """Return the F statistic of a regression on each column alone."""
    centred, goal = values - values.mean(axis=0), target - target.mean()
    total = (centred**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (centred.T @ goal) ** 2 / (total * (goal @ goal))
        scores = share / (1 - share) * (len(values) - 2)
    return np.where(total > 0, scores, -np.inf)

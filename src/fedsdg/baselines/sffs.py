"""SFFS (Pan et al. 2020): the F statistic of each column, k given by the user.

With class sums ``S_k`` and class sizes ``n_k``::

    SSB = sum_k S_k^2 / n_k - (sum x)^2 / N          SST = sum x^2 - (sum x)^2 / N
    F   = [SSB / (c - 1)] / [(SST - SSB) / (N - c)]

For a regression ``F = r^2 / (1 - r^2) (N - 2)`` with the correlation r. Cells are integers of 16 bits and a sign, class
weights integers, too (`messages.filter_statistics`), so that the secure version finds the same numbers, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.messages.filter_statistics import (
    class_square_sums,
    f_from_square_sums,
    fixed_point_cells,
    label_columns,
    target_column,
)


def f_scores(data: VerticalData, client: str) -> FloatArray:
    """Return the F statistic of every column; constant columns come last."""
    values = data.training_values(client)
    if data.objective.task == "regression":
        return f_regression(values, training_target(data))
    return f_classes(values, *data.classes())


def f_classes(values: NDArray[np.float64], codes: IntArray, n_classes: int) -> FloatArray:
    """Return the F statistic of an analysis of variance between classes."""
    cells = fixed_point_cells(values)
    sums = class_square_sums(cells, label_columns("sffs", codes, n_classes))
    return f_from_square_sums(sums, cells, n_classes)


def f_regression(values: NDArray[np.float64], target: NDArray[np.float64]) -> FloatArray:
    """Return the F statistic of a regression on each column alone."""
    cells = fixed_point_cells(values)
    return f_from_square_sums(class_square_sums(cells, target_column(target)), cells, 1)


def training_target(data: VerticalData) -> NDArray[np.float64]:
    """Return the numeric target of the training rows."""
    return data.objective.targets.numpy()[data.train_rows].astype(np.float64)

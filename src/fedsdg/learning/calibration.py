"""Losses of a model whose confidence has been set right: what two models are compared by.

A model that has learned its training rows by heart is too sure of itself, and its loss on other rows tells of that more
than of what it knows. One factor on all its outputs (a "temperature"), fitted to the rows it is judged by, takes the
difference out: one number for hundreds of rows, so it flatters nobody by much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.nn import functional

LOWEST, HIGHEST = math.log(1 / 256), math.log(16.0)
"""Between these logarithms the factor is looked for."""
HALVINGS = 40
GOLDEN = (math.sqrt(5) - 1) / 2


def row_losses(task: Literal["binary", "multiclass", "regression"], outputs: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per row, with the confidence as it is."""
    if task == "binary":
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")
    if task == "multiclass":
        return functional.cross_entropy(outputs, targets, reduction="none")
    return 0.5 * (outputs[:, 0] - targets) ** 2


def calibrated_row_losses(
    task: Literal["binary", "multiclass", "regression"], outputs: Tensor, targets: Tensor
) -> Tensor:
    """Return one loss per row, with the confidence that gives the lowest sum; a regression has no confidence."""
    outputs = outputs.detach().double()
    targets = targets.double() if task != "multiclass" else targets
    if task == "regression":
        return row_losses(task, outputs, targets)

    def loss_at(logarithm: float) -> float:
        return float(row_losses(task, outputs * math.exp(logarithm), targets).mean())

    return row_losses(task, outputs * math.exp(_lowest_point(loss_at)), targets)


def _lowest_point(value_at: Callable[[float], float]) -> float:
    """Return where a function with a single valley is lowest, by golden sections."""
    low, high = LOWEST, HIGHEST
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    value_left, value_right = value_at(left), value_at(right)
    for _ in range(HALVINGS):
        if value_left <= value_right:
            high, right, value_right = right, left, value_left
            left = high - GOLDEN * (high - low)
            value_left = value_at(left)
        else:
            low, left, value_left = left, right, value_right
            right = low + GOLDEN * (high - low)
            value_right = value_at(right)
    return (low + high) / 2

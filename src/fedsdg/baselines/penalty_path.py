"""What a path of rising group-lasso penalties needs besides the proximal step: rates at which it cannot diverge."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def curvature(values: Tensor) -> float:
    """Return the largest eigenvalue of the second moments of rows: how fast a gradient by a first layer turns."""
    return float(torch.linalg.matrix_norm(values, 2)) ** 2 / len(values)


def gain(layers: nn.Module) -> float:
    """Return by how much linear layers one after another can stretch a change of their input, at most."""
    stretch = 1.0
    for layer in layers.modules():
        if isinstance(layer, nn.Linear):
            stretch *= float(torch.linalg.matrix_norm(layer.weight.detach(), 2))
    return stretch


def root_mean_square(values: Tensor) -> float:
    """Return the standard deviation of a typical column."""
    return float(values.var(0, unbiased=False).mean().sqrt())

"""The Gaussian stochastic gate: a differentiable switch in front of a column or an embedding dimension.

A gate with mean mu passes ``clip(mu + sigma eps, 0, 1)`` of its value, eps ~ N(0, 1). Its probability of
being open at all is ``Phi(mu / sigma)``; the sum of these over all gates is the penalty, whose gradient
``phi(mu / sigma) / sigma`` is known in closed form. Outside training a gate passes ``clip(mu, 0, 1)``, so
``mu > 0`` is the same as "selected".
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fedsdg.data.arrays import BoolArray, FloatArray


def open_probability(mean: Tensor, sigma: float) -> Tensor:
    """Return Phi(mu / sigma), the probability that a gate passes anything."""
    return 0.5 * (1.0 + torch.erf(mean / (sigma * math.sqrt(2.0))))


def open_probabilities(means: FloatArray, sigma: float) -> FloatArray:
    """Return Phi(mu / sigma) of plain numbers."""
    return np.asarray(open_probability(torch.from_numpy(np.asarray(means, dtype=np.float64)), sigma).numpy())


def penalty(mean: Tensor, sigma: float) -> Tensor:
    """Return the expected number of open gates."""
    return open_probability(mean, sigma).sum()


def penalty_gradient(mean: Tensor, sigma: float) -> Tensor:
    """Return the derivative of :func:`penalty` by each mean: the normal density phi(mu / sigma) / sigma."""
    return torch.exp(-0.5 * (mean / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))


class StochasticGate:
    """A row of gates with trainable means."""

    def __init__(self, mean: FloatArray, sigma: float, per_sample: bool = True) -> None:
        self.mean = torch.tensor(np.asarray(mean), dtype=torch.float32, requires_grad=True)
        self.sigma = sigma
        self.per_sample = per_sample

    def draws(self, n_rows: int, copies: int = 1) -> tuple[int, int]:
        """Return how many draws of noise a batch takes: one per sample, or per repetition of the batch, and gate."""
        return n_rows if self.per_sample else copies, len(self.mean)

    def pass_on(self, noise: Tensor, n_rows: int) -> Tensor:
        """Return the gates of a batch under standard normal noise, as many draws as :meth:`draws` says.

        Gradients flow where a gate is neither shut nor fully open.
        """
        if len(noise) < n_rows:
            noise = noise.repeat_interleave(n_rows // len(noise), dim=0)
        return torch.clamp(torch.add(self.mean, noise, alpha=self.sigma), 0.0, 1.0)

    def expected(self) -> Tensor:
        """Return the gates as they are used outside training."""
        return torch.clamp(self.mean.detach(), 0.0, 1.0)

    def descend(self, rate: float, penalty_weight: float, evidence: float = 1.0) -> None:
        """Take one plain SGD step on evidence * loss + penalty_weight * penalty, and forget the gradient.

        Plain, because an adaptive step would drive every gate down at full speed once the loss is near zero.
        """
        with torch.no_grad():
            gradient = penalty_weight * penalty_gradient(self.mean, self.sigma)
            if self.mean.grad is not None:
                gradient += evidence * self.mean.grad
            self.mean -= rate * gradient
        self.mean.grad = None

    def selected(self) -> BoolArray:
        """Return which gates are open outside training."""
        return np.asarray(self.mean.detach().numpy() > 0)

    def means(self) -> FloatArray:
        """Return a copy of the means."""
        return np.array(self.mean.detach().numpy())

    def restore(self, mean: FloatArray) -> None:
        """Put back the means of a snapshot."""
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(np.asarray(mean, dtype=np.float32)))
        self.mean.grad = None

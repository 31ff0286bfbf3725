"""Noise that is drawn once per phase and cut anew at every step.

Gates, input noise and dropout take a draw per value and row. With thousands of columns that is most of a step's time,
and nothing in training needs the draws to be new: they must be unbiased, and meet another value at every step. So a
party draws one long tape and cuts each step's piece at a place of its own. A piece is a pure function of (private
seed, purpose, step, shape), like every other draw.

Regularisation only. Nothing that hides a value from somebody comes from a tape: dithers are drawn anew every time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedsdg.learning.randomness import RandomStreams

PLACES = 1 << 18
"""Places at which a piece can begin."""


class Draw(Protocol):
    """A kind of noise."""

    def __call__(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw so many values."""
        ...


class NoiseTape:
    """A tape of draws of one kind."""

    def __init__(self, streams: RandomStreams, purpose: str, draw: Draw) -> None:
        self._streams, self._purpose, self._draw = streams, purpose, draw
        self._tape = torch.empty(0)

    def cut(self, shape: tuple[int, ...], step: int) -> Tensor:
        """Return this step's piece: a view, not to be written to."""
        size = math.prod(shape)
        # Lengths grow by doubling, so that a piece never depends on what was cut before.
        length = PLACES + (1 << max(0, size - 1).bit_length())
        if len(self._tape) != length:
            self._tape = self._draw(length, self._streams.torch(f"{self._purpose}/tape", length))
        start = self._streams.torch_seed(self._purpose, step) % PLACES
        return self._tape[start : start + size].view(shape)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tape out of copies: it follows from the rest."""
        return {**self.__dict__, "_tape": torch.empty(0)}


@dataclass(frozen=True)
class Normal:
    """Draws from the normal distribution around zero."""

    spread: float = 1.0
    """Standard deviation."""

    def __call__(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw so many values."""
        return torch.randn(size, generator=generator).mul_(self.spread)


STANDARD_NORMAL = Normal()


@dataclass(frozen=True)
class KeptAfter:
    """Factors after dropout: zero for what is left out, and for the rest what keeps sums at their size."""

    dropout: float

    def __call__(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw so many factors."""
        return (torch.rand(size, generator=generator) >= self.dropout).float().div_(1 - self.dropout)

"""A client's bottom model: its own gated columns to an embedding. It never leaves the client.

Built in are a linear map and a multilayer perceptron; any ``torch.nn.Module`` from rows x columns to rows x
embedding can take their place through a :class:`BottomModelFactory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Protocol

import torch
from torch import nn

from fedsdg.config import Activation, PhaseSettings
from fedsdg.learning.randomness import RandomStreams


class BottomModelFactory(Protocol):
    """Builds a bottom model for a number of columns and an embedding width."""

    def __call__(self, n_columns: int, embedding: int) -> nn.Module:
        """Return a module from rows x n_columns to rows x embedding."""
        ...


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run torch code that knows only the global stream (layer initialisation, dropout) from a given seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def activation_layer(name: Activation) -> nn.Module:
    """Return the activation of this name."""
    if name == "tanh":
        return nn.Tanh()
    return nn.ReLU() if name == "relu" else nn.Identity()


def multilayer_perceptron(sizes: tuple[int, ...], last: Activation) -> nn.Sequential:
    """Return linear layers of these sizes with ReLU between them and ``last`` at the end; biases start at zero."""
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        linear = nn.Linear(inputs, outputs)
        nn.init.zeros_(linear.bias)
        layers.append(linear)
        layers.append(nn.ReLU() if index < len(sizes) - 2 else activation_layer(last))
    return nn.Sequential(*layers)


def build_bottom_model(
    kind: str,
    n_columns: int,
    settings: PhaseSettings,
    embedding: int,
    streams: RandomStreams,
    factory: BottomModelFactory | None = None,
) -> nn.Module:
    """Return a fresh bottom model; the same private seed gives the same weights."""
    with seeded(streams.torch_seed("bottom-model")):
        if factory is not None:
            return factory(n_columns=n_columns, embedding=embedding)
        if kind == "linear":
            return nn.Linear(n_columns, embedding, bias=False)  # the one bias of a linear model is the server's
        return multilayer_perceptron((n_columns, *settings.hidden, embedding), settings.embedding_activation)

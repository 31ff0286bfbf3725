"""The server's top model: interactive outputs to the task's outputs. It never leaves the server.

It runs in the clear beside the labels, so it costs no encryption and may be generous. Its first bias is the
bias of the interactive layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedsdg.config import PhaseSettings
from fedsdg.learning.bottom_model import multilayer_perceptron, seeded
from fedsdg.learning.randomness import RandomStreams


class BiasOnly(nn.Module):
    """The top of a linear model: interactive outputs are already the task's outputs, up to a bias."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, z: Tensor) -> Tensor:
        """Add the bias."""
        return z + self.bias


class SumWithBias(nn.Module):
    """The top of an element-wise linear model: add up all scaled embeddings of each output."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.outputs = outputs

    def forward(self, z: Tensor) -> Tensor:
        """Sum over clients (each contributes ``outputs`` columns) and add the bias."""
        return z.reshape(len(z), -1, self.outputs).sum(dim=1) + self.bias


def build_top_model(
    kind: str,
    interactive: str,
    width: int,
    settings: PhaseSettings,
    task_outputs: int,
    streams: RandomStreams,
) -> nn.Module:
    """Return a fresh top model for ``width`` interactive outputs."""
    if kind == "linear":
        return BiasOnly(task_outputs) if interactive == "dense" else SumWithBias(task_outputs)
    with seeded(streams.torch_seed("top-model")):
        if not settings.top_hidden:  # the paper's head: activate the interactive layer, one linear map
            return nn.Sequential(BiasOnly(width), nn.ReLU(), nn.Linear(width, task_outputs))
        return multilayer_perceptron((width, *settings.top_hidden, task_outputs), "identity")

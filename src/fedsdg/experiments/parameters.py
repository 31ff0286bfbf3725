"""How large a model is: its trainable numbers, counted from sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from fedsdg.config import PhaseSettings


def count_parameters(
    settings: PhaseSettings, columns: Mapping[str, int], embedding: Mapping[str, int], task_outputs: int
) -> int:
    """Return the parameters of all bottom models, the interactive layer and the top model; gates are not counted."""
    clients = sum(
        _layers((columns[name], *settings.hidden, embedding[name])) for name in embedding if columns[name] > 0
    )
    interactive = sum(embedding.values()) * settings.outputs
    if settings.top_hidden:
        return clients + interactive + _layers((settings.outputs, *settings.top_hidden, task_outputs))
    return clients + interactive + settings.outputs + _layers((settings.outputs, task_outputs))


def paper_parameters(n_columns: int, n_classes: int) -> int:
    """Return the count behind the paper's model table: 100 D + 30,450 + 51 c.

    Two clients d_m -> 100 -> 100, an interactive layer 200 -> 50 and a head 50 -> c, all with biases; two classes have
    two outputs there and one here.
    """
    return 100 * n_columns + 30_450 + 51 * n_classes


def _layers(sizes: tuple[int, ...]) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))

"""A plain vertical network in floating point, for methods that train in ways of their own.

Its shape is the compact phase's: a bottom model per client, an interactive layer over all embeddings, a top model. It
is used to *find* columns; the model that is judged is always that of `final_model`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from fedsdg.baselines.selector import VerticalData
from fedsdg.config import PhaseSettings
from fedsdg.data.arrays import IntArray
from fedsdg.data.preprocessing import Preprocessor
from fedsdg.learning.bottom_model import multilayer_perceptron, seeded
from fedsdg.learning.objective import Score
from fedsdg.learning.randomness import BatchOrder
from fedsdg.learning.top_model import build_top_model


class VerticalNetwork(nn.Module):
    """Bottom models, interactive layer and top model in one module."""

    def __init__(self, data: VerticalData, purpose: str) -> None:
        super().__init__()
        settings = data.config.compact_phase
        streams = data.streams(purpose)
        self.clients = tuple(data.tables)
        self.width = settings.embedding
        with seeded(streams.torch_seed("network")):
            self.bottoms = nn.ModuleList(
                multilayer_perceptron(
                    (table.n_columns, *settings.hidden, settings.embedding), settings.embedding_activation
                )
                for table in data.tables.values()
            )
            self.interactive = nn.Linear(settings.embedding * len(self.clients), settings.outputs, bias=False)
        self.top = build_top_model("mlp", "dense", settings.outputs, settings, data.objective.n_outputs, streams)

    def embed(self, features: Mapping[str, Tensor]) -> Tensor:
        """Return the embeddings of all clients side by side."""
        return torch.cat([bottom(features[name]) for name, bottom in zip(self.clients, self.bottoms, strict=True)], 1)

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """Return the model's outputs."""
        return self.finish(self.embed(features))

    def finish(self, embeddings: Tensor) -> Tensor:
        """Return the outputs for given embeddings: the server's part."""
        outputs: Tensor = self.top(self.interactive(embeddings))
        return outputs

    def first_layers(self) -> dict[str, nn.Parameter]:
        """Return the first weights of every client: hidden x columns."""
        return {name: bottom[0].weight for name, bottom in zip(self.clients, self.bottoms, strict=True)}  # type: ignore[index]


def prepared_features(data: VerticalData) -> dict[str, Tensor]:
    """Return every client's columns as its own preprocessing prepares them, learned from the training rows."""
    prepared = {}
    for name, table in data.tables.items():
        preprocessor = Preprocessor.fit(data.training_values(name))
        prepared[name] = torch.from_numpy(preprocessor.transform(table.values))
    return prepared


def batches(data: VerticalData, settings: PhaseSettings, purpose: str, steps: int) -> Iterator[IntArray]:
    """Yield the rows of every training batch."""
    order = BatchOrder(data.config.seed, purpose, len(data.train_rows), settings.batch_size)
    for step in range(steps):
        yield data.train_rows[order.batch(step)]


def at_rows(features: Mapping[str, Tensor], rows: IntArray) -> dict[str, Tensor]:
    """Return some rows of every client's columns."""
    index = torch.from_numpy(np.asarray(rows, dtype=np.int64))
    return {name: values[index] for name, values in features.items()}


def mean_loss(network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor], rows: IntArray) -> Tensor:
    """Return the mean training loss of a batch."""
    outputs: Tensor = network(at_rows(features, rows))
    loss: Tensor = data.objective.per_sample_loss(outputs, rows).mean()
    return loss


def validation_score(network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor]) -> Score:
    """Return the score on the validation rows."""
    with torch.no_grad():
        return data.objective.score(network(at_rows(features, data.validation_rows)), data.validation_rows)


def shrink_columns(weight: Tensor, threshold: float) -> None:
    """Take the proximal step of a group lasso over the columns of a first layer: small groups become exactly zero."""
    with torch.no_grad():
        norms = weight.norm(dim=0, keepdim=True)
        weight.mul_(torch.clamp(1 - threshold / torch.clamp(norms, min=1e-12), min=0.0))


def column_norms(weight: Tensor) -> Tensor:
    """Return the norm of every column's group."""
    norms: Tensor = weight.detach().norm(dim=0)
    return norms

"""VFLFS (Feng 2022), reconstructed from how others describe it, for aligned samples only: its text was not available.

Each client has an encoder and a decoder. Loss, reconstruction and sparse first layers are minimised together::

    loss(top(h), y) + alpha sum_m (1/N) ||X_m - dec(enc(X_m))||^2 + beta sum_m ||W_m||_{2,1}

A column's score is the norm of its weights in the first layer, and for those whose norm became zero how long it lived;
one half of the columns is kept, as in the published comparison. ``alpha`` and ``beta`` are our choice, and ``beta`` is
relative to what each client's strongest column can bear (`FairPenalty`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedsdg.baselines.ranking import HowMany, top
from fedsdg.baselines.selector import Selection, VerticalData
from fedsdg.baselines.survival import FairPenalty, Survival
from fedsdg.baselines.vertical_network import (
    VerticalNetwork,
    at_rows,
    batches,
    column_norms,
    prepared_features,
    shrink_columns,
)
from fedsdg.errors import ConfigError
from fedsdg.learning.bottom_model import multilayer_perceptron, seeded

HALF = HowMany(share=0.5)


@dataclass(frozen=True)
class VFLFS:
    """Auto-encoders with sparse first layers."""

    how_many: HowMany = HALF
    alpha: float = 0.1
    beta: float = 0.01
    steps: int = 400
    first_layer_rate: float = 0.1

    @property
    def name(self) -> str:
        """The method and how many columns it keeps."""
        return f"vflfs@{self.how_many}"

    def select(self, data: VerticalData) -> Selection:
        """Train and rank by the norms of the first layers."""
        count = self.how_many.fixed(data.n_columns)
        if count is None:
            raise ConfigError("vflfs needs a number or a share of columns")
        network, features = VerticalNetwork(data, "vflfs"), prepared_features(data)
        settings = data.config.compact_phase
        with seeded(data.streams("vflfs").torch_seed("decoders")):
            decoders = nn.ModuleList(
                multilayer_perceptron((network.width, *reversed(settings.hidden), table.n_columns), "identity")
                for table in data.tables.values()
            )
        first = network.first_layers()
        groups = {id(weight) for weight in first.values()}
        others = [p for p in (*network.parameters(), *decoders.parameters()) if id(p) not in groups]
        adam = torch.optim.Adam(others, lr=settings.learning_rate)
        sgd = torch.optim.SGD(list(first.values()), lr=self.first_layer_rate)
        found, fair = Survival(), FairPenalty()
        for name, weight in first.items():
            found.begin(name, weight)
        for rows in batches(data, settings, "vflfs", self.steps):
            batch = at_rows(features, rows)
            embeddings = [bottom(batch[name]) for name, bottom in zip(network.clients, network.bottoms, strict=True)]
            loss = data.objective.per_sample_loss(network.finish(torch.cat(embeddings, 1)), rows).mean()
            for name, embedding, decoder in zip(network.clients, embeddings, decoders, strict=True):
                loss = loss + self.alpha * ((decoder(embedding) - batch[name]) ** 2).mean()
            adam.zero_grad()
            sgd.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            shares = fair.shares(first)
            adam.step()
            sgd.step()
            for name, weight in first.items():
                shrink_columns(weight, self.first_layer_rate * self.beta * shares[name])
                found.note(name, weight)
        scores = found.scores(data)
        for name, weight in first.items():
            norms = column_norms(weight).numpy()
            # The norm is what counts; how long it took to become zero orders those that have none.
            scores[name] = np.where((norms > 0) & np.isfinite(scores[name]), 2 * self.steps + norms, scores[name])
        return top(scores, count)

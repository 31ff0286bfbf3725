"""LESS-VFL (Castiglia et al., ICML 2023): communication-efficient selection after a short joint training.

1. Train the vertical network for a few steps, without any penalty.
2. The server alone: group lasso on the rows of its first layer that belong to one embedding component each; components
   whose group dies are dropped.
3. Each client alone: fit the embeddings that were kept, by mean squared error, with a group lasso on its first layer;
   columns whose group dies are dropped.
4. Retrain on what is left, with embeddings of the width that is left (`final_model`).

The strengths of steps 2 and 3 are settings of the method; here a few are tried, from weak to strong, each starting from
the last, and validation takes the sparsest within one standard error of the best.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedsdg.baselines.selector import Selection, VerticalData, selection_of_masks
from fedsdg.baselines.vertical_network import (
    VerticalNetwork,
    batches,
    column_norms,
    mean_loss,
    prepared_features,
    shrink_columns,
    validation_score,
)
from fedsdg.data.arrays import BoolArray
from fedsdg.learning.selection import PathPoint, sparsest_that_loses_nothing


@dataclass(frozen=True)
class LessVFL:
    """Settings of the three steps."""

    pretraining_steps: int = 300
    steps_per_strength: int = 60
    server_strengths: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1)
    client_strengths: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3)
    rate: float = 0.1
    name: str = "less_vfl"

    def select(self, data: VerticalData) -> Selection:
        """Run all three steps and return columns and embedding widths."""
        network, features = VerticalNetwork(data, self.name), prepared_features(data)
        self.pretrain(network, data, features)
        kept = self.select_components(network, data, features)
        masks = self.select_columns(network, data, features, kept)
        widths = {
            name: max(1, int(kept[i * network.width : (i + 1) * network.width].sum()))
            for i, name in enumerate(network.clients)
        }
        return selection_of_masks(masks, embedding=widths)

    def pretrain(self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor]) -> None:
        """Step 1: an ordinary joint training."""
        settings = data.config.compact_phase
        adam = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
        for rows in batches(data, settings, f"{self.name}/pretraining", self.pretraining_steps):
            adam.zero_grad()
            mean_loss(network, data, features, rows).backward()  # type: ignore[no-untyped-call]
            adam.step()

    def select_components(
        self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor]
    ) -> BoolArray:
        """Step 2: the server drops embedding components that its first layer can do without."""
        with torch.no_grad():
            embeddings = network.embed(features)
        layer = network.interactive.weight
        adam = torch.optim.Adam(network.top.parameters(), lr=data.config.compact_phase.learning_rate)
        sgd = torch.optim.SGD([layer], lr=self.rate)
        path: list[PathPoint] = []
        states: dict[int, tuple[BoolArray, dict[str, Tensor]]] = {}
        for index, strength in enumerate(self.server_strengths):
            purpose = f"{self.name}/server/{index}"
            for rows in batches(data, data.config.compact_phase, purpose, self.steps_per_strength):
                outputs = network.finish(embeddings[torch.from_numpy(rows)])
                adam.zero_grad()
                sgd.zero_grad()
                data.objective.per_sample_loss(outputs, rows).mean().backward()  # type: ignore[no-untyped-call]
                adam.step()
                sgd.step()
                shrink_columns(layer, self.rate * strength)
            kept = np.asarray((column_norms(layer) > 0).numpy())
            if not kept.any():
                break
            path.append(PathPoint(index, int(kept.sum()), validation_score(network, data, features)))
            states[index] = (kept, copy.deepcopy(network.state_dict()))
        if not path:
            return np.ones(embeddings.shape[1], dtype=bool)
        kept, state = states[sparsest_that_loses_nothing(path).step]
        network.load_state_dict(state)
        return kept

    def select_columns(
        self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor], kept: BoolArray
    ) -> dict[str, BoolArray]:
        """Step 3: every client drops columns that its kept embeddings can do without."""
        targets = self.embeddings_per_client(network, features)
        components = {
            name: torch.from_numpy(np.flatnonzero(kept[i * network.width : (i + 1) * network.width]))
            for i, name in enumerate(network.clients)
        }
        path: list[PathPoint] = []
        masks: dict[int, dict[str, BoolArray]] = {}
        for index, strength in enumerate(self.client_strengths):
            for name, bottom in zip(network.clients, network.bottoms, strict=True):
                if len(components[name]):
                    self.fit_alone(bottom, data, features[name], targets[name], components[name], strength, index)
            mask = {
                name: (column_norms(weight) > 0).numpy() & bool(len(components[name]))
                for name, weight in network.first_layers().items()
            }
            n_open = int(sum(flags.sum() for flags in mask.values()))
            if n_open == 0:
                break
            path.append(PathPoint(index, n_open, validation_score(network, data, features)))
            masks[index] = mask
        if not path:
            return {name: np.ones(table.n_columns, dtype=bool) for name, table in data.tables.items()}
        return masks[sparsest_that_loses_nothing(path).step]

    def fit_alone(
        self,
        bottom: nn.Module,
        data: VerticalData,
        features: Tensor,
        target: Tensor,
        components: Tensor,
        strength: float,
        index: int,
    ) -> None:
        """Let one client fit its old embeddings with fewer columns."""
        first: nn.Parameter = bottom[0].weight  # type: ignore[index]
        others = [parameter for parameter in bottom.parameters() if parameter is not first]
        adam = torch.optim.Adam(others, lr=data.config.compact_phase.learning_rate)
        sgd = torch.optim.SGD([first], lr=self.rate)
        purpose = f"{self.name}/client/{index}"
        for rows in batches(data, data.config.compact_phase, purpose, self.steps_per_strength):
            at = torch.from_numpy(rows)
            adam.zero_grad()
            sgd.zero_grad()
            loss = functional.mse_loss(bottom(features[at])[:, components], target[at][:, components])
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            sgd.step()
            shrink_columns(first, self.rate * strength)

    @staticmethod
    def embeddings_per_client(network: VerticalNetwork, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the present embeddings, which the clients will fit."""
        with torch.no_grad():
            return {name: bottom(features[name]) for name, bottom in zip(network.clients, network.bottoms, strict=True)}

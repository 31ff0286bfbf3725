"""LESS-VFL, step 2: the server alone drops embedding components that its first layer can do without.

Group lasso on the rows of the interactive layer that belong to one component each, by proximal SGD; the top model is
trained along. The penalty rises from far too weak to far too strong. One point of the path is taken by the rule that
takes a point of the gates' path, by the validation rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsdg.baselines.penalty_path import curvature, gain, root_mean_square
from fedsdg.baselines.selector import VerticalData
from fedsdg.baselines.vertical_network import VerticalNetwork, batches, column_norms, shrink_columns
from fedsdg.data.arrays import BoolArray
from fedsdg.learning.schedule import exponential_ramp
from fedsdg.learning.selection import PathPoint, choose_point, steadied


@dataclass(frozen=True)
class ComponentPath:
    """Settings of the server's path."""

    steps: int = 1000
    weakest: float = 0.05
    """Strengths are relative to the size of a component: gradients by its weights grow with it."""
    strongest: float = 1000.0
    rate: float = 0.003
    decay: float = 0.1
    """As for `GroupLasso`: without decay the top model grows while the first layer shrinks."""
    batch_size: int = 512
    look_every: int = 5

    def select(self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor]) -> BoolArray:
        """Return which components are kept."""
        path, kept = self.walk(network, data, features)
        return kept[choose_point(steadied(path), data.config.validation.rule).step]

    def walk(
        self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor]
    ) -> tuple[list[PathPoint], dict[int, BoolArray]]:
        """Return the looks at the path, and the components that were open at each; the network stays as it is."""
        with torch.no_grad():
            embeddings = network.embed(features)
        seen, validation = embeddings[torch.from_numpy(data.train_rows)], torch.from_numpy(data.validation_rows)
        server = copy.deepcopy(network)
        layer, size, bend = server.interactive.weight, root_mean_square(seen), curvature(seen)
        adam = torch.optim.AdamW(server.top.parameters(), lr=self.rate, weight_decay=self.decay)
        sgd = torch.optim.SGD([layer])
        settings = data.config.compact_phase.model_copy(update={"batch_size": self.batch_size})
        path: list[PathPoint] = []
        kept: dict[int, BoolArray] = {}
        for step, rows in enumerate(batches(data, settings, "less_vfl/server", self.steps)):
            adam.zero_grad()
            sgd.zero_grad()
            outputs = server.finish(embeddings[torch.from_numpy(rows)])
            data.objective.per_sample_loss(outputs, rows).mean().backward()  # type: ignore[no-untyped-call]
            if step % self.look_every == 0:
                # The top model sharpens on the way; at a fixed rate the layer would leap out of every valley.
                sgd.param_groups[0]["lr"] = 1 / max(bend * max(1.0, gain(server.top)), 1e-12)
            adam.step()
            sgd.step()
            penalty = size * exponential_ramp(self.weakest, self.strongest, step, self.steps)
            shrink_columns(layer, sgd.param_groups[0]["lr"] * penalty)
            is_open = np.asarray((column_norms(layer) > 0).numpy())
            if not is_open.any():
                break
            if step % self.look_every == 0:
                with torch.no_grad():
                    score = data.objective.score(server.finish(embeddings[validation]), data.validation_rows)
                path.append(PathPoint(step, int(is_open.sum()), score))
                kept[step] = is_open
        return path, kept

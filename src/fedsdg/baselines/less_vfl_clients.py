"""LESS-VFL, step 3: every client alone drops columns that its kept embedding components can do without.

It fits what its pretrained bottom model says, by mean squared error, with a group lasso on its first layer: proximal
gradient steps with momentum. The penalty rises from so weak that nothing closes until nothing is left; a column is
worth the number of steps that it lived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedsdg.baselines.penalty_path import curvature, gain
from fedsdg.baselines.selector import VerticalData
from fedsdg.baselines.survival import Survival
from fedsdg.baselines.vertical_network import VerticalNetwork, batches, shrink_columns
from fedsdg.data.arrays import BoolArray
from fedsdg.learning.schedule import exponential_ramp


@dataclass(frozen=True)
class ColumnPath:
    """Settings of the clients' path."""

    steps: int = 800
    weakest: float = 0.002
    """Strengths are relative to the strongest penalty that any column of unit variance could bear at first."""
    strongest: float = 10.0
    """Beyond 1 for layers above that grow on the way; the path ends when nothing is left."""
    rate: float = 0.003
    decay: float = 0.1
    momentum: float = 0.9
    batch_size: int = 512

    def survival(
        self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor], kept: BoolArray
    ) -> Survival:
        """Walk the path at every client; only the components that are ``kept`` are fitted."""
        components = {
            name: torch.from_numpy(np.flatnonzero(kept[i * network.width : (i + 1) * network.width]))
            for i, name in enumerate(network.clients)
        }
        bottoms = dict(zip(network.clients, network.bottoms, strict=True))
        with torch.no_grad():
            targets = {name: bottoms[name](features[name])[:, components[name]] for name in network.clients}
        unit = max(self.bound(bottoms[name], targets[name][torch.from_numpy(data.train_rows)]) for name in targets)
        found = Survival(n_open=np.zeros(self.steps, dtype=np.int64))
        for name, bottom in bottoms.items():
            first: nn.Parameter = bottom[0].weight  # type: ignore[index]
            found.begin(name, first)
            if len(components[name]):
                self.walk(bottom, data, features[name], targets[name], components[name], unit, name, found)
        return found

    def bound(self, bottom: nn.Module, targets: Tensor) -> float:
        """Return a penalty that closes everything: by Cauchy and Schwarz no column's gradient is larger."""
        spread = float((targets - targets.mean(0)).square().sum(1).mean().sqrt())
        return 2 * spread * gain(after_first(bottom))

    def walk(
        self,
        bottom: nn.Module,
        data: VerticalData,
        features: Tensor,
        targets: Tensor,
        components: Tensor,
        unit: float,
        name: str,
        found: Survival,
    ) -> None:
        """Let one client fit its old embeddings with ever fewer columns."""
        drop_components(bottom, components)
        first: nn.Parameter = bottom[0].weight  # type: ignore[index]
        others = [parameter for parameter in bottom.parameters() if parameter is not first]
        adam = torch.optim.AdamW(others, lr=self.rate, weight_decay=self.decay)
        sgd = torch.optim.SGD([first])
        settings = data.config.compact_phase.model_copy(update={"batch_size": self.batch_size})
        bend = curvature(features[torch.from_numpy(data.train_rows[: self.batch_size])])
        before = first.detach().clone()
        for step, rows in enumerate(batches(data, settings, "less_vfl/client", self.steps)):
            with torch.no_grad():
                now = first.detach().clone()
                first.add_(now - before, alpha=self.momentum)
                before = now
            bottom.zero_grad()
            at = torch.from_numpy(rows)
            # Summed over components: one that is dropped must not make the others count for more.
            loss = ((bottom(features[at])[:, components] - targets[at]) ** 2).sum(1).mean()
            loss.backward()
            rate = sgd.param_groups[0]["lr"] = 1 / max(2 * bend * gain(after_first(bottom)) ** 2, 1e-12)
            adam.step()
            sgd.step()
            shrink_columns(first, rate * unit * exponential_ramp(self.weakest, self.strongest, step, self.steps))
            alive = found.note(name, first)
            if not alive.any():
                break
            found.n_open[step] += np.count_nonzero(alive)


def after_first(bottom: nn.Module) -> nn.Module:
    """Return the layers after the first."""
    return nn.Sequential(*list(bottom.children())[1:])


def drop_components(bottom: nn.Module, kept: Tensor) -> None:
    """Set the weights of all other components to zero: with one layer only they would keep columns alive."""
    last = [layer for layer in bottom.modules() if isinstance(layer, nn.Linear)][-1]
    keep = torch.zeros(len(last.bias), dtype=torch.bool)
    keep[kept] = True
    with torch.no_grad():
        last.weight[~keep] = 0
        last.bias[~keep] = 0

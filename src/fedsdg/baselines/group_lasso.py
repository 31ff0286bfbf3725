"""Group lasso in vertical federated learning: all weights that leave a column form one group.

The vertical network is trained with AdamW, its first layers with proximal SGD, whose step sets whole groups to zero.
(Without decay the upper layers grow while the first ones shrink, and the penalty loses its meaning.) The penalty rises
until hardly a column can bear it; columns are ranked by how long they lived, and the first k are kept. Batches are
large: with small ones, noise revives dead columns. The penalty is relative to what each client's strongest column can
bear (`FairPenalty`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedsdg.baselines.ranking import VALIDATED, HowMany, best_share, top
from fedsdg.baselines.selector import Selection, VerticalData
from fedsdg.baselines.survival import FairPenalty, Survival
from fedsdg.baselines.vertical_network import (
    VerticalNetwork,
    batches,
    mean_loss,
    prepared_features,
    shrink_columns,
)
from fedsdg.data.arrays import FloatArray
from fedsdg.learning.schedule import exponential_ramp


@dataclass(frozen=True)
class GroupLasso:
    """The rising penalty, on the scale of gradients of the mean loss."""

    how_many: HowMany = VALIDATED
    steps: int = 600
    weakest: float = 0.005
    strongest: float = 0.3
    rate: float = 0.003
    decay: float = 0.1
    first_layer_rate: float = 0.1
    batch_size: int = 512

    @property
    def name(self) -> str:
        """The method and how many columns it keeps."""
        return f"group_lasso@{self.how_many}"

    def select(self, data: VerticalData) -> Selection:
        """Rank by survival along the path and keep the first."""
        scores = self.survival(data)
        count = self.how_many.fixed(data.n_columns)
        return top(scores, count) if count is not None else best_share(data, scores)

    def survival(self, data: VerticalData) -> dict[str, FloatArray]:
        """Return what every column is worth: how many steps it lived, then its last norm."""
        network, features = VerticalNetwork(data, "group_lasso"), prepared_features(data)
        settings = data.config.compact_phase.model_copy(update={"batch_size": self.batch_size})
        first = network.first_layers()
        groups = {id(weight) for weight in first.values()}
        others = [parameter for parameter in network.parameters() if id(parameter) not in groups]
        adam = torch.optim.AdamW(others, lr=self.rate, weight_decay=self.decay)
        sgd = torch.optim.SGD(list(first.values()), lr=self.first_layer_rate)
        found, fair = Survival(), FairPenalty()
        for name, weight in first.items():
            found.begin(name, weight)
        for step, rows in enumerate(batches(data, settings, "group_lasso", self.steps)):
            adam.zero_grad()
            sgd.zero_grad()
            mean_loss(network, data, features, rows).backward()  # type: ignore[no-untyped-call]
            shares = fair.shares(first)
            adam.step()
            sgd.step()
            penalty = exponential_ramp(self.weakest, self.strongest, step, self.steps)
            for name, weight in first.items():
                shrink_columns(weight, self.first_layer_rate * penalty * shares[name])
                found.note(name, weight)
        return found.scores(data)

"""LESS-VFL (Castiglia et al., ICML 2023): communication-efficient selection after a short joint training.

1. Train the vertical network for a few steps, without any penalty.
2. The server alone: group lasso on the rows of its first layer that belong to one embedding component each; components
   whose group dies are dropped (`less_vfl_server`).
3. Each client alone: fit the embeddings that were kept, by mean squared error, with a group lasso on its first layer;
   columns whose group dies are dropped (`less_vfl_clients`).
4. Retrain on what is left, with embeddings of the width that is left (`final_model`).

The strengths of steps 2 and 3 are settings of the method, to be tuned. Here they rise along a path, each starting from
the last. The server takes a point of its path by the validation rows, as the gates do. Of the clients' path a few
points are retrained, and the smallest within one standard error of the best is taken, as for all methods that rank. Or
a number of columns is wished for: then those that lived longest are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsdg.baselines.final_model import train_candidate
from fedsdg.baselines.less_vfl_clients import ColumnPath
from fedsdg.baselines.less_vfl_server import ComponentPath
from fedsdg.baselines.ranking import SHARES, VALIDATED, HowMany, top
from fedsdg.baselines.selector import Selection, VerticalData
from fedsdg.baselines.vertical_network import VerticalNetwork, batches, mean_loss, prepared_features
from fedsdg.data.arrays import FloatArray
from fedsdg.learning.selection import PathPoint, smallest_as_accurate


@dataclass(frozen=True)
class LessVFL:
    """Settings of the three steps."""

    how_many: HowMany = VALIDATED
    pretraining_steps: int = 300
    own_widths: bool = True
    """Step 4 with as many embedding dimensions as step 2 kept; otherwise with all, as the models of other baselines."""
    components: ComponentPath = field(default_factory=ComponentPath)
    columns: ColumnPath = field(default_factory=ColumnPath)

    @property
    def name(self) -> str:
        """The method, and how many columns it keeps if it is told."""
        return "less_vfl" if self.how_many == VALIDATED else f"less_vfl@{self.how_many}"

    def select(self, data: VerticalData) -> Selection:
        """Run all three steps and return columns and embedding widths."""
        network, features = VerticalNetwork(data, "less_vfl"), prepared_features(data)
        self.pretrain(network, data, features)
        kept = self.components.select(network, data, features)
        scores = self.columns.survival(network, data, features, kept).scores(data)
        widths = {
            # A client that lost all its components has no columns either, unless more are wished for than are left.
            name: max(1, int(kept[i * network.width : (i + 1) * network.width].sum()))
            for i, name in enumerate(network.clients)
        }
        count = self.how_many.fixed(data.n_columns)
        embedding = widths if self.own_widths else {}
        return _first(scores, count, embedding) if count is not None else best_point(data, scores, embedding)

    def pretrain(self, network: VerticalNetwork, data: VerticalData, features: Mapping[str, Tensor]) -> None:
        """Step 1: an ordinary joint training."""
        settings = data.config.compact_phase
        adam = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
        for rows in batches(data, settings, "less_vfl/pretraining", self.pretraining_steps):
            adam.zero_grad()
            mean_loss(network, data, features, rows).backward()  # type: ignore[no-untyped-call]
            adam.step()


def best_point(data: VerticalData, scores: Mapping[str, FloatArray], widths: Mapping[str, int]) -> Selection:
    """Retrain at the path's start and where a few shares of the columns are left; return the smallest as accurate.

    The shares and the rule are those of `best_share`. The start is added: closing nothing is a strength, too.
    """
    candidates: dict[int, Selection] = {}
    path = []
    n_alive = max(1, sum(int((values >= 1).sum()) for values in scores.values()))
    for share in (*SHARES, 1.0):
        count = min(n_alive, max(1, round(share * data.n_columns)))
        if count in candidates:
            continue
        candidates[count] = _first(scores, count, widths)
        path.append(PathPoint(count, count, train_candidate(data, candidates[count]).score(data.validation_rows)))
    return candidates[smallest_as_accurate(path).n_open]


def _first(scores: Mapping[str, FloatArray], count: int, widths: Mapping[str, int]) -> Selection:
    chosen = top(scores, count)
    return Selection(chosen.columns, embedding=dict(widths), scores=chosen.scores)

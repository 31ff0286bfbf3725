"""original-Gate (STG, Yamada et al. 2020): stochastic gates on the columns, without Gini start and embedding gates.

It runs here with everything else that FedSDG-FS has: plain SGD for the gates, the rising penalty, the choice of a point
by validation, and the same last model. What rests on the Gini start goes with it: the loss always counts fully in its
gates. ``penalty`` fixes a strength instead, and ``reduction`` says whether the penalty is averaged over the gates (the
public `stg` code) or summed (the paper's formula).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedsdg.baselines.gates import run_gates
from fedsdg.baselines.selector import Selection, VerticalData
from fedsdg.config import TrainingConfig


@dataclass(frozen=True)
class OriginalGate:
    """Stochastic gates on the columns only, all starting alike."""

    count: int | None = None
    penalty: float | None = None
    reduction: Literal["mean", "sum"] = "mean"

    @property
    def name(self) -> str:
        """``original_gate``, with what differs from that."""
        name = "original_gate"
        if self.penalty is not None:
            name += f"[{self.reduction} {self.penalty:g}]"
        return name if self.count is None else f"{name}@k={self.count}"

    def select(self, data: VerticalData) -> Selection:
        """Select with gates that start alike."""
        return run_gates(data, self.config(data.config)).selection

    def config(self, base: TrainingConfig) -> TrainingConfig:
        """Return the settings of a run."""
        changes: dict[str, object] = {"reduction": self.reduction}
        if self.penalty is not None:
            changes |= {"strength": self.penalty, "ramp_start": self.penalty}
        return base.with_changes(
            n_features=self.count,
            gates=base.gates.starting_alike().model_copy(update={"embedding_gates": False}),
            penalty=base.penalty.model_copy(update=changes),
        )

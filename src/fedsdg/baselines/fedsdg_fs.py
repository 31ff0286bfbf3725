"""FedSDG-FS, the method of this package, as one selector among others."""

from __future__ import annotations

from dataclasses import dataclass

from fedsdg.baselines.gates import run_gates
from fedsdg.baselines.selector import Selection, VerticalData
from fedsdg.config import TrainingConfig


@dataclass(frozen=True)
class FedSDG:
    """The method of this package; ``count`` asks for exactly so many columns."""

    count: int | None = None

    @property
    def name(self) -> str:
        """``fedsdg``, with the number of columns if one is wished for."""
        return "fedsdg" if self.count is None else f"fedsdg@k={self.count}"

    def select(self, data: VerticalData) -> Selection:
        """Select with Gini-initialised dual gates."""
        return run_gates(data, self.config(data.config)).selection

    def config(self, base: TrainingConfig) -> TrainingConfig:
        """Return the settings of a run."""
        return base.with_changes(n_features=self.count)

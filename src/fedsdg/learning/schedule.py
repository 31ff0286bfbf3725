"""What changes with the step: learning rates and the penalty, as pure functions of public numbers.

All parties build the same :class:`PhasePlan`, so a rate never has to be sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedsdg.config import PhaseSettings, TrainingConfig
from fedsdg.errors import ConfigError
from fedsdg.learning.randomness import BatchOrder


def cosine(step: int, steps: int) -> float:
    """Fall from 1 to 0 along half a cosine."""
    return 0.5 * (1.0 + math.cos(math.pi * step / max(1, steps - 1)))


def exponential_ramp(start: float, end: float, step: int, steps: int) -> float:
    """Go from ``start`` to ``end`` by the same factor every step."""
    if start <= 0 or end <= 0:
        return end
    progress = min(1.0, step / max(1, steps - 1))
    return math.exp((1 - progress) * math.log(start) + progress * math.log(end))


@dataclass(frozen=True)
class PhasePlan:
    """One training phase, as every party knows it."""

    name: Literal["gated", "compact"]
    config: TrainingConfig
    n_clients: int
    total_columns: int
    n_train_rows: int
    task_outputs: int

    def __post_init__(self) -> None:
        if self.name not in ("gated", "compact"):  # from a file or a message
            raise ConfigError("a phase is 'gated' or 'compact'")

    def sizes(self) -> dict[str, int]:
        """Return the public sizes that, with the settings and the phase's name, make the plan."""
        return {
            "n_clients": self.n_clients,
            "total_columns": self.total_columns,
            "n_train_rows": self.n_train_rows,
            "task_outputs": self.task_outputs,
        }

    @property
    def gated(self) -> bool:
        """Whether columns and embeddings pass through gates."""
        return self.name == "gated"

    @property
    def embedding_gated(self) -> bool:
        """Whether embedding dimensions have gates; those of a linear model are its outputs, and stay."""
        return self.gated and self.config.gates.embedding_gates and self.config.model != "linear"

    @property
    def settings(self) -> PhaseSettings:
        """Sizes and rates of this phase."""
        return self.config.gated_phase if self.gated else self.config.compact_phase

    @property
    def steps(self) -> int:
        """Number of training steps."""
        return self.settings.steps

    @property
    def embedding(self) -> int:
        """Widest embedding of a client (a linear model needs one dimension per task output)."""
        return self.task_outputs if self.config.model == "linear" else self.settings.embedding

    @property
    def outputs(self) -> int:
        """Outputs of a dense interactive layer."""
        return self.task_outputs if self.config.model == "linear" else self.settings.outputs

    @property
    def batches(self) -> BatchOrder:
        """The batches of this phase."""
        return BatchOrder(self.config.seed, self.name, self.n_train_rows, self.settings.batch_size)

    @property
    def rows_per_step(self) -> int:
        """Rows of a training batch; a gated one repeats its rows, each time with other gate draws."""
        return self.batches.rows_per_batch * (self.config.mc_samples if self.gated else 1)

    def learning_rate(self, step: int) -> float:
        """Rate of Adam for bottom and top models."""
        return self.settings.learning_rate * self._decay(step)

    def interactive_rate(self, step: int) -> float:
        """Rate of plain SGD for the interactive layer, before the division by the batch size."""
        return self.settings.interactive_learning_rate * self._decay(step)

    def input_gate_rate(self) -> float:
        """Rate of plain SGD for the input gates.

        The penalty is a mean over all columns, so the rate grows with them.
        """
        gates = self.config.gates
        if not gates.scale_rates:
            return gates.input_rate
        return gates.input_rate * self.total_columns * self._shortness()

    def gate_evidence(self) -> float:
        """Weight of the loss in a step of the input gates: below 1 where columns far outnumber rows.

        A few rows can be told apart by almost any columns, so what moves the gates there is chance. The smaller the
        weight, the more the order of the Gini scores, from which the gates start, decides which of them close first.
        """
        enough = self.config.gates.rows_for_full_evidence * self.total_columns
        return 1.0 if self.n_train_rows >= enough else (self.n_train_rows / enough) ** 2

    def embedding_gate_rate(self) -> float:
        """Rate of plain SGD for the embedding gates."""
        gates = self.config.gates
        return gates.embedding_rate * (self._shortness() if gates.scale_rates else 1.0)

    def input_penalty(self, step: int) -> float:
        """Weight of the penalty on one input gate."""
        penalty = self.config.penalty
        if penalty.strength == "auto":
            strength = exponential_ramp(penalty.ramp_start, penalty.ramp_end, step, self.steps)
        else:
            start = min(penalty.ramp_start, penalty.strength)
            strength = exponential_ramp(start, penalty.strength, step, self.steps)
        return strength / self.total_columns if penalty.reduction == "mean" else strength

    def embedding_penalty(self) -> float:
        """Weight of the penalty on one embedding gate."""
        return self.config.penalty.embedding_strength

    def _decay(self, step: int) -> float:
        return cosine(step, self.steps) if self.settings.schedule == "cosine" else 1.0

    def _shortness(self) -> float:
        """Fewer steps need faster gates, by a square root."""
        return math.sqrt(self.config.gates.reference_steps / self.steps)

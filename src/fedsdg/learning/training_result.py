"""What a training run tells: one line per step while it goes on, and what the server knows at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fedsdg.data.arrays import IntArray
from fedsdg.learning.objective import Score
from fedsdg.learning.selection import PathPoint
from fedsdg.learning.server_learner import ServerLearner


@dataclass(frozen=True)
class Progress:
    """One training step or validation pass, for whoever watches."""

    phase: str
    step: int
    steps: int
    loss: float
    point: PathPoint | None = None
    server: ServerLearner | None = None
    """Beside a point: the label owner's learner as it stands there, for whoever wants to score other rows, too."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What the server knows at the end."""

    kept: Literal["gated", "compact"]
    learners: Mapping[str, ServerLearner]
    """The server's learner per phase."""
    scores: Mapping[str, Score]
    """Validation score per phase; none of a phase that learned from the validation rows."""
    path: tuple[PathPoint, ...]
    chosen: PathPoint
    n_selected: Mapping[str, int]
    losses: Mapping[str, tuple[float, ...]]
    train_rows: IntArray
    validation_rows: IntArray
    clipped_gradients: int

    @property
    def validation_score(self) -> Score:
        """Score of the kept model or, where that learned from the validation rows, too, of the gated one before it."""
        return self.scores.get(self.kept, self.scores["gated"])

    @property
    def server(self) -> ServerLearner:
        """The server's learner of the phase that was kept."""
        return self.learners[self.kept]

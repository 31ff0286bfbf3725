"""Filters: rank all columns by a score and keep the first k.

How many to keep is not part of a filter. Three ways are offered: a number (for instance as many as another method
kept), a share of all columns (the published comparisons use one half), or the choice of the validation rows: the final
model is trained for a few shares and the smallest within one standard error of the best is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedsdg.baselines.final_model import train_candidate
from fedsdg.baselines.selector import Selection, VerticalData
from fedsdg.data.arrays import FloatArray
from fedsdg.errors import ConfigError
from fedsdg.learning.selection import PathPoint, smallest_as_accurate

Score = Callable[[VerticalData, str], FloatArray]
"""(data, client) -> one score per column of that client, higher is better; unusable columns -inf."""

SHARES = (0.02, 0.05, 0.1, 0.2, 0.5)
"""The shares among which validation chooses."""


@dataclass(frozen=True)
class HowMany:
    """How many columns a filter keeps: a number, a share, or (neither) what validation prefers."""

    count: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.share is not None:
            raise ConfigError("give a number of columns or a share of them, not both")
        if self.count is not None and self.count < 1:
            raise ConfigError(f"{self.count} columns cannot be kept; at least 1")
        if self.share is not None and not 0 < self.share <= 1:
            raise ConfigError(f"a share of {self.share} columns cannot be kept; above 0, at most 1")

    def __str__(self) -> str:
        if self.count is not None:
            return f"k={self.count}"
        return f"{self.share:g}" if self.share is not None else "validated"

    def fixed(self, n_columns: int) -> int | None:
        """Return the number for a table of so many columns, or None if validation decides."""
        if self.count is not None:
            return min(self.count, n_columns)
        return None if self.share is None else max(1, round(self.share * n_columns))


VALIDATED = HowMany()


@dataclass(frozen=True)
class RankingSelector:
    """A filter with a rule for the number of columns."""

    base_name: str
    score: Score
    how_many: HowMany = VALIDATED

    @property
    def name(self) -> str:
        """The filter and how many columns it keeps, as in ``sffs@0.5``."""
        return f"{self.base_name}@{self.how_many}"

    def select(self, data: VerticalData) -> Selection:
        """Rank on the training rows and keep the first."""
        scores = {client: self.score(data, client) for client in data.tables}
        count = self.how_many.fixed(data.n_columns)
        return top(scores, count) if count is not None else best_share(data, scores)


def top(scores: Mapping[str, FloatArray], count: int) -> Selection:
    """Return the ``count`` best columns of all clients; equal scores in the order of clients and columns."""
    owners = np.repeat(np.arange(len(scores)), [len(values) for values in scores.values()])
    positions = np.concatenate([np.arange(len(values)) for values in scores.values()])
    order = np.argsort(-np.concatenate(list(scores.values())), kind="stable")[:count]
    columns = {
        client: np.sort(positions[order][owners[order] == index]).astype(np.int64)
        for index, client in enumerate(scores)
    }
    return Selection(columns, scores=dict(scores))


def best_share(data: VerticalData, scores: Mapping[str, FloatArray]) -> Selection:
    """Return the smallest of a few selections whose model is as good as the best, by the validation rows."""
    candidates: dict[int, Selection] = {}
    path = []
    for share in SHARES:
        count = max(1, round(share * data.n_columns))
        if count in candidates:
            continue
        candidates[count] = top(scores, count)
        path.append(PathPoint(count, count, train_candidate(data, candidates[count]).score(data.validation_rows)))
    return candidates[smallest_as_accurate(path).n_open]

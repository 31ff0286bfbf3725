"""Which features: choosing a point on the path of the gated phase.

While the penalty rises, gates close one after another. Each validation pass is a point on that path: a step,
the number of open gates, a score. Without a wish, the middle of all numbers of columns that the validation rows find
plausible is taken, or one of the other rules decides. With a wish for k features, the last point with at least k open
gates is taken, and the k widest gates on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsdg.config import SelectionRule, ValidationSettings
from fedsdg.data.arrays import FloatArray
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.objective import Score


@dataclass(frozen=True)
class PathPoint:
    """One validation pass of the gated phase."""

    step: int
    """Number of training steps taken before it."""
    n_open: int
    """Open input gates over all clients."""
    score: Score


@dataclass(frozen=True)
class Taste:
    """How much a number of columns counts before any row has spoken: most at ``plenty``, less on either side."""

    plenty: float
    below: float = 0.0
    """Power of the ratio by which smaller numbers count less; 0: all of them alike."""
    beyond: float = 2.0
    """The same for larger numbers."""

    @classmethod
    def of(cls, settings: ValidationSettings, total_columns: int) -> Taste:
        """Return the taste that the settings say, for so many columns."""
        plenty = max(settings.plenty * total_columns, settings.plenty_at_least)
        return cls(plenty, settings.below_plenty, settings.beyond_plenty)

    def log_weights(self, numbers: FloatArray) -> FloatArray:
        """Return the logarithm of what each number of columns counts, 0 at the most."""
        ratio = np.log(numbers) - math.log(self.plenty)
        return np.asarray(self.below * np.minimum(0.0, ratio) - self.beyond * np.maximum(0.0, ratio))


def choose_point(
    path: Sequence[PathPoint],
    rule: SelectionRule,
    n_features: int | None = None,
    taste: Taste | None = None,
) -> PathPoint:
    """Return the point of the path whose gates become the selection; ``taste`` is for the rule ``plausible``."""
    usable = [point for point in path if point.n_open > 0]
    if not usable:
        raise DataError("every gate closed before the first validation pass; lower the penalty or the gate rates")
    if n_features is not None:
        return _last_with_at_least(usable, n_features)
    if rule == "last":
        return usable[-1]
    if rule == "best":
        return max(usable, key=lambda point: (point.score.value, -point.score.loss))
    return middle_of_the_plausible(usable, taste) if rule == "plausible" else sparsest_that_loses_nothing(usable)


def middle_of_the_plausible(path: Sequence[PathPoint], taste: Taste | None = None) -> PathPoint:
    """Return the point below which lies half of all plausible numbers of columns: the median of a posterior.

    What the rows say: a number is as plausible as the normal density at the standard errors by which its loss exceeds
    the lowest. What is said before: numbers are told apart by their ratios, and ``taste`` says how much each counts
    (none: all alike). Where rows speak clearly, the point with the lowest loss is taken, however many columns it has.
    Where they do not (a few dozen rows, thousands of columns) the sparsest or the best point is a matter of luck,
    anywhere between a few columns and all; a median hardly moves with it.
    """
    best_of: dict[int, PathPoint] = {}
    for point in sorted(path, key=lambda point: (point.n_open, _mean_loss(point))):
        best_of.setdefault(point.n_open, point)
    points = list(best_of.values())
    lowest = min(points, key=_mean_loss)
    numbers = np.array([point.n_open for point in points], dtype=float)
    likely = np.array([-0.5 * standard_errors_lost(point, lowest) ** 2 for point in points])
    if taste is not None:
        likely += taste.log_weights(numbers)
    logs = np.log(numbers)
    borders = np.concatenate([logs[:1], (logs[1:] + logs[:-1]) / 2, logs[-1:]])
    reached = np.cumsum(np.exp(likely - likely.max()) * np.diff(borders))
    return points[int(np.searchsorted(reached, reached[-1] / 2))]


def sparsest_that_loses_nothing(path: Sequence[PathPoint]) -> PathPoint:
    """Return the sparsest point whose loss is within one standard error of the lowest."""
    lowest = min(path, key=_mean_loss)
    return min(
        (point for point in path if standard_errors_lost(point, lowest) <= 1),
        key=lambda point: (point.n_open, _mean_loss(point)),
    )


def smallest_as_accurate(path: Sequence[PathPoint]) -> PathPoint:
    """Return the sparsest point whose accuracy is within one standard error of the best: for separate models.

    Unlike the points of one path, models that were trained one by one differ in loss by the luck of their start.
    """
    best = max(path, key=lambda point: (point.score.value, -point.score.loss))
    return min(
        (point for point in path if within_one_standard_error(point, best)),
        key=lambda point: (point.n_open, -point.score.value),
    )


def steadied(path: Sequence[PathPoint]) -> list[PathPoint]:
    """Return the path with every point's row losses averaged over itself and its neighbours.

    A pass is one draw of a model that still moves from step to step; the luckiest draw must not set the mark.
    """
    around = [path[max(0, index - 1) : index + 2] for index in range(len(path))]
    return [
        replace(point, score=replace(point.score, row_losses=np.mean([p.score.row_losses for p in near], axis=0)))
        for point, near in zip(path, around, strict=True)
    ]


def _mean_loss(point: PathPoint) -> tuple[bool, float]:
    mean = float(point.score.row_losses.mean())
    return math.isnan(mean), mean


def standard_errors_lost(point: PathPoint, lowest: PathPoint) -> float:
    """Return by how many standard errors of the difference, row by row, a point's loss is above the lowest.

    Both models are judged by the same rows, so what makes a row hard cancels in the difference and a small loss of
    information shows; and losses move before any answer turns wrong, where accuracies of a few hundred rows are blind.
    """
    difference = point.score.row_losses - lowest.score.row_losses
    lost = float(difference.mean())
    if lost <= 0 or point is lowest:
        return 0.0
    error = float(difference.std()) / math.sqrt(len(difference))
    return lost / error if error > 0 else math.inf  # also where a loss is no number


def within_one_standard_error(point: PathPoint, best: PathPoint) -> bool:
    """Return whether a point is as good as the best, up to one standard error of their difference.

    Both are estimates from the same few rows, and the best is the luckiest of many: its own error alone is too strict.
    """
    difference = best.score.value - point.score.value
    return difference <= math.hypot(best.score.standard_error, point.score.standard_error)


def out_of_reach(path: Sequence[PathPoint], patience: int | None) -> bool:
    """Return whether the last ``patience`` points all fell below the best by more than one standard error.

    The penalty only rises, so a path that has left that band does not come back: further steps would be wasted. Points
    whose scores still rise, or whose losses still fall, are on their way in, not out: before anything is learned, one
    lucky pass among many near chance would otherwise end the run.
    """
    if patience is None or len(path) <= patience:
        return False
    best = max(path, key=lambda point: point.score.value)
    last = path[-patience:]
    first, now = last[0].score, last[-1].score
    still_learning = now.value > first.value or now.loss < first.loss
    return not still_learning and not any(within_one_standard_error(point, best) for point in last)


def quotas(open_means: Mapping[str, FloatArray], n_features: int) -> dict[str, int]:
    """Return how many of its widest gates each client keeps, so that exactly ``n_features`` stay in total.

    Works on gate values without names: in a run over messages, clients report values and never columns.
    """
    entries = sorted(
        ((-float(mean), client) for client, means in open_means.items() for mean in np.asarray(means)),
    )
    if len(entries) < n_features:
        raise ConfigError(f"n_features={n_features}, but only {len(entries)} gates are open")
    counts = dict.fromkeys(open_means, 0)
    for _, client in entries[:n_features]:
        counts[client] += 1
    return counts


def _last_with_at_least(path: Sequence[PathPoint], n_features: int) -> PathPoint:
    enough = [point for point in path if point.n_open >= n_features]
    if not enough:
        raise ConfigError(
            f"n_features={n_features}, but at most {max(point.n_open for point in path)} gates were open; "
            "ask for fewer features or lower the penalty"
        )
    return enough[-1]

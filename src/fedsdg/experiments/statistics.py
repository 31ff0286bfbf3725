"""Means, spreads and paired tests over the cells of a grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from fedsdg.experiments.cell import Row

ROUNDING = 1e-20
SCORES = ("accuracy", "r2")
"""What a row's score is called; a data set has one of them."""


@dataclass(frozen=True)
class Summary:
    """A number over several cells."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True)
class PairedTest:
    """How much one method is ahead of another on the same cells, and how likely that is by chance."""

    difference: float
    p_value: float
    count: int
    half_width: float = 0.0
    """Half of the difference's 95 % confidence interval: how much a tie leaves open."""

    @property
    def verdict(self) -> str:
        """``ahead``, ``behind`` or ``tied`` at the 5 % level."""
        if not self.p_value < 0.05:
            return "tied"
        return "ahead" if self.difference > 0 else "behind"


def metric(row: Row) -> float:
    """Return a row's accuracy or R squared; NaN if it could not be computed."""
    return next((float(row[name]) for name in SCORES if row.get(name) is not None), math.nan)


def is_regression(rows: Iterable[Row]) -> bool:
    """Return whether these rows' scores are R squared."""
    return any(row.get("r2") is not None for row in rows)


def summary(values: Sequence[float]) -> Summary:
    """Return mean and sample standard deviation."""
    numbers = np.asarray([value for value in values if value is not None and not math.isnan(value)], dtype=float)
    if len(numbers) == 0:
        return Summary(math.nan, math.nan, 0)
    return Summary(float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0, len(numbers))


def paired_test(first: Sequence[Row], second: Sequence[Row], folds: int) -> PairedTest | None:
    """Compare two methods on the cells that both have, by the corrected resampled t test.

    The training rows of different folds overlap, so their scores are not independent and the plain paired t test finds
    differences that are not there; Nadeau and Bengio add the ratio of test to training rows to the variance.
    """
    shared = shared_cells(first, second)
    if len(shared) < 2:
        return None
    differences = np.array([metric(left) - metric(right) for left, right in shared])
    mean, variance = float(differences.mean()), float(differences.var(ddof=1))
    if variance <= ROUNDING * mean**2:  # a few cells that happen to differ alike show no spread, and prove nothing
        return None if mean else PairedTest(0.0, 1.0, len(shared))
    error, freedom = math.sqrt((1 / len(shared) + 1 / (folds - 1)) * variance), len(shared) - 1
    p_value = float(2 * stats.t.sf(abs(mean) / error, freedom))
    return PairedTest(mean, p_value, len(shared), error * float(stats.t.ppf(0.975, freedom)))


def by_cell(rows: Sequence[Row]) -> dict[tuple[int, int], Row]:
    """Return the rows of one data set and method by seed and fold."""
    return {(int(row["seed"]), int(row["fold"])): row for row in rows}


def shared_cells(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of two methods pair by pair, where both have a score.

    A method that was run with fewer seeds must not look better or worse for the folds that it was spared.
    """
    left, right = (by_cell([row for row in rows if not math.isnan(metric(row))]) for rows in (first, second))
    return [(left[cell], right[cell]) for cell in sorted(set(left) & set(right))]


def lead(first: Sequence[Row], second: Sequence[Row]) -> float:
    """Return by how much the first method is better on the cells that both have; NaN without such cells."""
    return summary([metric(left) - metric(right) for left, right in shared_cells(first, second)]).mean


def group(rows: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """Return rows by data set and method, in the order of their first appearance."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        groups.setdefault(row["dataset"], {}).setdefault(row["method"], []).append(row)
    return groups


def folds_of(rows: Sequence[Row]) -> int:
    """Return the number of folds of a grid (at least 2), as its rows tell or, where they do not, as they reach."""
    return max([2, *(int(row.get("folds") or row["fold"] + 1) for row in rows)])

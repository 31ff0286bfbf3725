"""How one column becomes inputs, as the training rows taught it.

=========  ==========================================================================================================
kind       inputs before scaling
=========  ==========================================================================================================
number     the number, filled in if missing (this one is scaled by `preprocessing`); a flag for missing
ordinal    the rank of its level; a flag for missing
category   a flag per frequent level (missing is a level like any other), and one for all other levels
text       counts of frequent words, as `words` shapes them; a flag for missing
=========  ==========================================================================================================

A flag for missing exists only if a training row lacks the cell. A level that no training row held counts as one of the
other levels; if there are none, all flags are down. A new level of an ordinal column takes its place between its
neighbours if levels are sorted; if their order was listed, a level that is not listed is missing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.feature_table import FeatureTable, Kind
from fedsdg.data.levels import are_in_order, level_order
from fedsdg.data.words import frequent_words, word_inputs
from fedsdg.party_source import EncodingSettings

Cells = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnCode:
    """One column's treatment; frozen plain data, so that it can be written to a file and read again."""

    name: str
    kind: Kind
    levels: tuple[str | None, ...] = ()
    """category: levels with a flag (None: missing); ordinal: rising order; text: counted words."""
    other: bool = False
    """A category has a flag for all other levels."""
    indicator: bool = False
    """There is a flag for missing cells."""
    fill: float = 0.0
    """The rank that stands for a missing cell of an ordinal column."""

    @property
    def n_inputs(self) -> int:
        """Number of inputs; at least one."""
        return (1 if self.kind == "number" else 0) + self.n_flags

    @property
    def n_flags(self) -> int:
        """Number of inputs besides the number itself."""
        if self.kind == "number":
            return int(self.indicator)
        if self.kind == "ordinal":
            return 1 + self.indicator
        return max(1, len(self.levels) + self.other + self.indicator)

    @property
    def n_words(self) -> int:
        """How many of the inputs are word counts; they come first."""
        return len(self.levels) if self.kind == "text" else 0

    def flags(self, table: FeatureTable) -> NDArray[np.float64]:
        """Return all inputs besides the number itself, before scaling: rows x n_flags."""
        inputs = np.zeros((table.n_rows, self.n_flags))
        if self.kind == "number":
            if self.indicator:
                inputs[:, 0] = np.isnan(table.number(self.name))
            return inputs
        cells, levels = table.coded(self.name)
        if self.kind == "category":
            self._raise_flags(inputs, cells, levels)
        elif self.kind == "ordinal":
            ranks = self.ranks(cells, levels)
            missing = np.isnan(ranks)
            inputs[:, 0] = np.where(missing, self.fill, ranks)
            if self.indicator:
                inputs[:, 1] = missing
        else:
            self._count_words(inputs, cells, levels)
        return inputs

    def ranks(self, cells: Cells, levels: tuple[str, ...]) -> Cells:
        """Return the rank of every cell of an ordinal column; NaN: missing, or no level of a listed order."""
        order = [level for level in self.levels if level is not None]
        rank = {level: float(position) for position, level in enumerate(order)}
        keys = [level_order(level) for level in order] if are_in_order(order) else None
        of_level = np.full(len(levels) + 1, np.nan)
        for code, level in enumerate(levels):
            if level in rank:
                of_level[code] = rank[level]
            elif keys is not None:  # half way between its neighbours
                of_level[code] = bisect_left(keys, level_order(level)) - 0.5
        return of_level[_codes(cells, levels)]

    def _raise_flags(self, inputs: NDArray[np.float64], cells: Cells, levels: tuple[str, ...]) -> None:
        place = {level: position for position, level in enumerate(self.levels)}
        elsewhere = len(self.levels) if self.other else -1
        flag = np.array([place.get(level, elsewhere) for level in (*levels, None)])[_codes(cells, levels)]
        rows = np.flatnonzero(flag >= 0)
        inputs[rows, flag[rows]] = 1.0

    def _count_words(self, inputs: NDArray[np.float64], cells: Cells, levels: tuple[str, ...]) -> None:
        present = ~np.isnan(cells)
        used, of_row = np.unique(cells[present].astype(np.int64), return_inverse=True)
        words = [word for word in self.levels if word is not None]
        inputs[present, : len(words)] = word_inputs([levels[code] for code in used], words)[of_row]
        if self.indicator:
            inputs[:, -1] = ~present


def learn_column(table: FeatureTable, name: str, settings: EncodingSettings) -> ColumnCode:
    """Learn the treatment of a column from a table of training rows."""
    kind = table.kinds[table.positions[name]]
    if kind == "number":
        missing = np.isnan(table.number(name))
        return ColumnCode(name, kind, indicator=bool(missing.any() and not missing.all()))
    cells, levels = table.coded(name)
    counts = np.bincount(_codes(cells, levels), minlength=len(levels) + 1)
    missing_rows = int(counts[-1])
    indicator = 0 < missing_rows < len(cells)
    if kind == "category":
        return _learn_category(name, levels, counts.tolist(), settings)
    if kind == "text":
        held = [(level, count) for level, count in zip(levels, counts.tolist(), strict=False) if count]
        return ColumnCode(name, kind, frequent_words(held, settings.words, settings.rare_below), indicator=indicator)
    # A sorted order is learned from the training rows; another order was listed by the owner and is kept whole.
    order = tuple(level for level, count in zip(levels, counts.tolist(), strict=False) if count)
    code = ColumnCode(name, kind, order if are_in_order(levels) else levels, indicator=indicator)
    ranks = code.ranks(cells, levels)
    return ColumnCode(name, kind, code.levels, indicator=indicator, fill=middle(ranks))


def middle(cells: Cells) -> float:
    """Return the median of what is not missing, always a value that occurs; 0 if there is nothing."""
    present = cells[~np.isnan(cells)]
    return float(np.quantile(present, 0.5, method="lower")) if len(present) else 0.0


def medians(cells: Cells) -> Cells:
    """Return the `middle` of every column."""
    whole = ~np.isnan(cells).any(axis=0)
    found = np.empty(cells.shape[1])
    found[~whole] = [middle(column) for column in cells[:, ~whole].T]
    at = (len(cells) - 1) // 2
    found[whole] = np.partition(cells[:, whole], at, axis=0)[at]  # all at once: a table may have thousands of columns
    return found


def _learn_category(name: str, levels: tuple[str, ...], counts: list[int], settings: EncodingSettings) -> ColumnCode:
    held = [(level, count) for level, count in zip((*levels, None), counts, strict=True) if count]
    held.sort(key=lambda pair: (-pair[1], pair[0] is None, pair[0] or ""))
    frequent = [level for level, count in held if count >= settings.rare_below]
    other = len(frequent) < len(held)
    if len(frequent) + other > settings.levels:
        frequent, other = frequent[: settings.levels - 1], True
    frequent.sort(key=lambda level: (level is None, level_order(level or "")))
    return ColumnCode(name, "category", tuple(frequent), other=other)


def _codes(cells: Cells, levels: tuple[str, ...]) -> NDArray[np.int64]:
    """Return codes as positions; missing cells take the position after the last level."""
    return np.where(np.isnan(cells), len(levels), cells).astype(np.int64)

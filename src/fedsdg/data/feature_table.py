"""A party's table: named columns, one row per sample.

=========  ============================================================================================
kind       a cell is
=========  ============================================================================================
number     the number itself; dates were turned into days when the table was read
category   a code: the position of its text in ``levels[column]``
ordinal    a code, too; ``levels[column]`` is in rising order
text       a code, too; a level is a whole text
=========  ============================================================================================

NaN is a missing cell, whatever the kind. The dictionary in ``levels`` is the table's own: two tables may number the
same texts differently, so codes of different tables are never compared. Names, texts and codes stay with their owner;
no message carries them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsdg.data.arrays import as_feature_matrix
from fedsdg.data.levels import number_text
from fedsdg.errors import DataError

Kind = Literal["number", "category", "ordinal", "text"]


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Named columns of numbers and of coded texts."""

    columns: tuple[str, ...]
    values: NDArray[np.float64]
    kinds: tuple[Kind, ...] = ()
    """One per column; nothing means that all are numbers."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of every column that is no number: the text of each code."""

    def __post_init__(self) -> None:
        if not self.kinds:
            object.__setattr__(self, "kinds", ("number",) * len(self.columns))
        if len(self.kinds) != len(self.columns):
            raise DataError(f"the table has {len(self.columns)} columns and {len(self.kinds)} kinds; give one for each")
        for position, (name, kind) in enumerate(zip(self.columns, self.kinds, strict=True)):
            if kind == "number":
                continue
            if name not in self.levels:
                raise DataError(f"column {name!r} is of kind {kind} and has no levels")
            codes = self.values[:, position]
            codes = codes[~np.isnan(codes)]
            if ((codes < 0) | (codes >= len(self.levels[name])) | (codes != np.floor(codes))).any():
                raise DataError(f"column {name!r}: a cell is no code of its {len(self.levels[name])} levels")

    @classmethod
    def of(cls, values: ArrayLike, columns: Sequence[str] | None = None, owner: str = "the table") -> FeatureTable:
        """Check an array of numbers (NaN: missing) and name its columns (``x0``, ``x1``, ... without names)."""
        matrix = as_feature_matrix(values, owner, allow_missing=True)
        names = tuple(columns) if columns is not None else tuple(f"x{j}" for j in range(matrix.shape[1]))
        if len(names) != matrix.shape[1]:
            raise DataError(f"{owner}: {len(names)} column names for {matrix.shape[1]} columns")
        if len(set(names)) != len(names):
            raise DataError(f"{owner}: column names repeat; every column needs a name of its own")
        return cls(names, matrix)

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Where each column stands."""
        return {name: position for position, name in enumerate(self.columns)}

    def take(self, rows: ArrayLike) -> FeatureTable:
        """Return the table of some rows, in the given order."""
        return FeatureTable(self.columns, self.values[np.asarray(rows)], self.kinds, self.levels)

    def select(self, positions: Sequence[int]) -> FeatureTable:
        """Return the table of some columns, in the given order."""
        names = tuple(self.columns[position] for position in positions)
        return FeatureTable(
            names,
            self.values[:, list(positions)],
            tuple(self.kinds[position] for position in positions),
            {name: self.levels[name] for name in names if name in self.levels},
        )

    def numbers(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return the cells of columns that must hold numbers: rows x names."""
        where = [self._number_position(name) for name in names]
        return self.values if where == list(range(self.n_columns)) else self.values[:, where]

    def number(self, name: str) -> NDArray[np.float64]:
        """Return the cells of a column that must hold numbers."""
        return self.values[:, self._number_position(name)]

    def coded(self, name: str) -> tuple[NDArray[np.float64], tuple[str, ...]]:
        """Return the codes of a column and their texts; numbers are written out as text first."""
        position = self._position(name)
        cells = self.values[:, position]
        if self.kinds[position] != "number":
            return cells, self.levels[name]
        present = ~np.isnan(cells)
        distinct, inverse = np.unique(cells[present], return_inverse=True)
        codes = np.full(len(cells), np.nan)
        codes[present] = inverse
        return codes, tuple(number_text(value) for value in distinct.tolist())

    def _number_position(self, name: str) -> int:
        position = self._position(name)
        # An entirely empty column has no kind that could be wrong.
        if self.kinds[position] != "number" and not np.isnan(self.values[:, position]).all():
            raise DataError(
                f"column {name!r} held numbers in training and holds text now; pin its kind in the schema, or correct "
                "the cells"
            )
        return position

    def _position(self, name: str) -> int:
        if name not in self.positions:
            raise DataError(f"the table has no column {name!r}, which the model was trained on")
        return self.positions[name]

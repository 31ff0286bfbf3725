"""A client's table: named numeric columns, one row per sample.

Names stay with their owner. No other party needs them, and no message carries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsdg.data.arrays import as_feature_matrix
from fedsdg.errors import DataError


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Named columns of finite numbers."""

    columns: tuple[str, ...]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike, columns: Sequence[str] | None = None, owner: str = "the table") -> FeatureTable:
        """Check ``values`` and name its columns (``x0``, ``x1``, ... when no names are given)."""
        matrix = as_feature_matrix(values, owner)
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

    def take(self, rows: ArrayLike) -> FeatureTable:
        """Return the table of some rows, in the given order."""
        return FeatureTable(self.columns, self.values[np.asarray(rows)])

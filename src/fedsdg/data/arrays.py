"""Names for the array types of the package, and the checks every table passes at the door."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsdg.errors import DataError

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]


def as_feature_matrix(
    values: ArrayLike, owner: str = "the table", *, allow_missing: bool = False
) -> NDArray[np.float64]:
    """Return ``values`` as a finite rows x columns float matrix, or say what is wrong with it.

    With ``allow_missing``, NaN stands for a missing cell and is let through.
    """
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{owner}: the features are not all numbers; read text and dates from a frame or a file instead"
        ) from None
    if matrix.ndim != 2:
        raise DataError(f"{owner}: features must be rows x columns, got {matrix.ndim} dimension(s)")
    rows, columns = matrix.shape
    if columns == 0:
        raise DataError(f"{owner}: there are no feature columns; a party without columns cannot be a client")
    if rows < 2:
        raise DataError(f"{owner}: {rows} row(s) cannot be learned from; at least 2 are needed")
    broken = np.isinf(matrix).any(axis=0) if allow_missing else ~np.isfinite(matrix).all(axis=0)
    if broken.any():
        shown = ", ".join(str(column) for column in np.flatnonzero(broken)[:5])
        raise DataError(
            f"{owner}: {int(broken.sum())} column(s) hold {'' if allow_missing else 'NaN or '}infinite values "
            f"(positions {shown}{', ...' if broken.sum() > 5 else ''}); fill or drop them before the run"
        )
    return matrix

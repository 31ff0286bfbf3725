"""One data set as every experiment sees it: features, labels, what is known about them, and where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.arrays import BoolArray, IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.vertical_split import split_columns, split_table
from fedsdg.errors import ConfigError, DataError

DataTask = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Provenance:
    """Where a data set came from, so that a number in a table can be traced."""

    source: str
    """An address, a file, or the call that generated it."""
    sha256: str | None
    """Digest of the features and labels (:func:`content_sha256`)."""
    surrogate: bool = False
    """True for a stand-in: it must never be reported under the name of what it stands for."""
    note: str = ""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features and labels, with the truth where it is known."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64] | NDArray[np.float64]
    task: DataTask
    feature_names: tuple[str, ...]
    provenance: Provenance
    truth: IntArray | None = None
    """Columns that carry the label, in ascending order; None where nobody knows."""
    image_shape: tuple[int, int] | None = None
    """Rows and columns of the image, for flattened images."""

    def __post_init__(self) -> None:
        rows, columns = self.X.shape
        if len(self.y) != rows or len(self.feature_names) != columns:
            raise DataError(
                f"{self.name}: {rows} rows, {len(self.y)} labels, {columns} columns, {len(self.feature_names)} names"
            )
        if self.image_shape is not None and self.image_shape[0] * self.image_shape[1] != columns:
            raise DataError(f"{self.name}: images of {self.image_shape} do not have {columns} pixels")

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 for a regression, as in the paper's parameter counts."""
        return 1 if self.task == "regression" else len(np.unique(self.y))

    @property
    def label(self) -> str:
        """The name to print: a surrogate says so wherever it appears."""
        return f"{self.name} (surrogate)" if self.provenance.surrogate else self.name

    def relevant_mask(self) -> BoolArray | None:
        """Return True for the columns that carry the label, or None where nobody knows."""
        return None if self.truth is None else np.isin(np.arange(self.n_columns), self.truth)


def make(
    name: str,
    X: NDArray[np.generic],
    y: NDArray[np.generic],
    source: str,
    *,
    truth: NDArray[np.generic] | None = None,
    image_shape: tuple[int, int] | None = None,
    feature_names: tuple[str, ...] | None = None,
    regression: bool = False,
    surrogate: bool = False,
    note: str = "",
) -> DataSet:
    """Return a data set from raw arrays; names default to ``x0``, ``x1``, ..."""
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise DataError(f"{name}: features of shape {X.shape} and labels of shape {y.shape} do not fit together")
    _refuse_gaps(name, X, y)
    task: DataTask = "regression"
    if not regression:
        task = "binary" if len(np.unique(y)) == 2 else "multiclass"
        if not np.array_equal(y, y.astype(np.int64)):
            raise DataError(f"{name}: classes are whole numbers, and some labels have fractions; is it a regression?")
    labels: NDArray[np.int64] | NDArray[np.float64] = y.astype(np.float64) if regression else y.astype(np.int64)
    return DataSet(
        name,
        np.ascontiguousarray(X, dtype=np.float64),
        labels,
        task,
        feature_names or tuple(f"x{j}" for j in range(X.shape[1])),
        Provenance(source, content_sha256(X, y), surrogate, note),
        None if truth is None else np.sort(np.asarray(truth, dtype=np.int64)),
        image_shape,
    )


def _refuse_gaps(name: str, X: NDArray[np.generic], y: NDArray[np.generic]) -> None:
    """Refuse what not every method can read: one that copes with gaps would be compared with others that do not."""
    numbers = np.asarray(X, dtype=np.float64)
    gaps = np.flatnonzero(~np.isfinite(numbers).all(axis=0))
    if len(gaps) or not np.isfinite(np.asarray(y, dtype=np.float64)).all():
        where = f"a column ({gaps[0]})" if len(gaps) else "labels"
        raise DataError(f"{name} has {where} with gaps or infinite values; fill them first, alike for all methods")


def content_sha256(X: NDArray[np.generic], y: NDArray[np.generic]) -> str:
    """Digest features and labels whatever file they lay in: shapes, then little-endian float32 values row by row.

    A MATLAB file, a text file and a NumPy archive of the same table have one digest, so it pins the content.
    """
    digest = hashlib.sha256(b"fedsdg data set v1")
    for array in (X, y):
        digest.update(repr(tuple(int(size) for size in array.shape)).encode())
        values = np.ascontiguousarray(array, dtype="<f4") + np.float32(0)  # no negative zeros
        digest.update(values.astype("<f4", copy=False).tobytes())
    return digest.hexdigest()


def deal_columns(data: DataSet, n_clients: int, seed: int | None) -> dict[str, IntArray]:
    """Deal the columns to clients at random, images by whole rows of pixels (a client sees a few strips)."""
    names = [f"client_{i + 1}" for i in range(n_clients)]
    if data.image_shape is None:
        return dict(zip(names, split_columns(data.n_columns, n_clients, seed), strict=True))
    height, width = data.image_shape
    if n_clients > height:
        raise ConfigError(f"{data.name}: images of {height} rows cannot be dealt to {n_clients} clients by rows")
    strips = split_columns(height, n_clients, seed)
    return {
        name: (rows[:, None] * width + np.arange(width)).reshape(-1) for name, rows in zip(names, strips, strict=True)
    }


def tables_of(data: DataSet, parts: Mapping[str, IntArray]) -> dict[str, FeatureTable]:
    """Return one table per client."""
    return split_table(FeatureTable(data.feature_names, data.X), parts)

"""Prepare a party's own columns for learning, by kind of column, learned from its training rows only.

=================================  ==================================================================
columns                            treatment
=================================  ==================================================================
word counts (many, >= 80 % zeros)  log1p, rows to unit length, one common scale; with them, less than "many"
                                   counts with 20-80 % zeros: the common words of the same texts
dense counts (many, 20-80 % zeros) rows to unit length, centred, one common scale
everything else                    standardised and clipped to +-6
=================================  ==================================================================

Row lengths are taken over the party's own columns of that kind: nobody sees another party's. "Many" matters
because a row length over two or three count columns would destroy them; a few count columns are log-scaled
and standardised instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.arrays import BoolArray, FloatArray, as_feature_matrix
from fedsdg.errors import DataError

CLIP = 6.0
SPARSE_SHARE = 0.8
DENSE_COUNT_SHARE = 0.2
MANY_COLUMNS = 50


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """What the training rows taught: column kinds, centres and scales."""

    word_counts: BoolArray
    dense_counts: BoolArray
    log_scaled: BoolArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def fit(cls, training_values: FloatArray) -> Preprocessor:
        """Learn the treatment from training rows."""
        values = as_feature_matrix(training_values, "preprocessing")
        zero_share = (values == 0).mean(axis=0)
        counts = ((values >= 0) & (values == np.floor(values))).all(axis=0)
        sparse = counts & (zero_share >= SPARSE_SHARE) & (zero_share < 1)
        dense = counts & (zero_share >= DENSE_COUNT_SHARE) & (zero_share < SPARSE_SHARE)
        several = values.max(axis=0) > 1
        nothing = np.zeros_like(counts)
        # Flags (0/1) alone are no counts; among word counts many words occur at most once.
        word_counts = sparse if (sparse & several).sum() >= MANY_COLUMNS else nothing
        if word_counts.any() and (dense & several).sum() < MANY_COLUMNS:
            word_counts = word_counts | dense  # the few words that most texts contain are words, too
        dense_counts = dense if (dense & several).sum() >= MANY_COLUMNS else nothing
        log_scaled = sparse & several & ~word_counts
        shaped = shape_columns(values, word_counts, dense_counts, log_scaled)
        centre = shaped.mean(axis=0)
        scale = shaped.std(axis=0)
        scale[scale < 1e-8] = 1.0
        centre[word_counts] = 0.0
        for group in (word_counts, dense_counts):
            if group.any():  # one scale for all, so that rare words stay small
                scale[group] = max(1e-8, float(np.sqrt(np.mean((shaped[:, group] - centre[group]) ** 2))))
        return cls(word_counts, dense_counts, log_scaled, centre, scale)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything learned, as named arrays."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Preprocessor:
        """Build it again from `to_arrays`."""
        flags = (np.asarray(arrays[name], dtype=bool) for name in ("word_counts", "dense_counts", "log_scaled"))
        return cls(*flags, *(np.asarray(arrays[name], dtype=np.float64) for name in ("centre", "scale")))

    def needed_for(self, wanted: BoolArray) -> BoolArray:
        """Return the columns that the wanted ones are prepared from: a row length needs all columns of its kind."""
        needed = wanted.copy()
        for group in (self.word_counts, self.dense_counts):
            if (wanted & group).any():
                needed |= group
        return needed

    def restricted(self, kept: BoolArray) -> Preprocessor:
        """Return the treatment of some columns; `kept` holds all that they need."""
        return Preprocessor(*(getattr(self, name)[kept] for name in self.__dataclass_fields__))

    def transform(self, values: FloatArray) -> NDArray[np.float32]:
        """Prepare any rows of the same table."""
        matrix = np.asarray(values, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.centre):
            raise DataError(
                f"preprocessing: expected rows x {len(self.centre)} columns, got shape {matrix.shape}; "
                "use the columns of the training table, in the same order"
            )
        if not np.isfinite(matrix).all():
            raise DataError("preprocessing: NaN or infinite values; fill or drop them first")
        prepared = shape_columns(matrix, self.word_counts, self.dense_counts, self.log_scaled)
        # In place: a large table is not copied once more for every operation.
        prepared -= self.centre
        prepared /= self.scale
        rest = ~(self.word_counts | self.dense_counts)
        if rest.all():
            np.clip(prepared, -CLIP, CLIP, out=prepared)
        else:
            prepared[:, rest] = np.clip(prepared[:, rest], -CLIP, CLIP)
        return prepared.astype(np.float32)


def shape_columns(
    values: NDArray[np.float64], word_counts: BoolArray, dense_counts: BoolArray, log_scaled: BoolArray
) -> NDArray[np.float64]:
    """Apply what needs no statistics: logarithms and row lengths."""
    if len(values) == 1:
        # A row alone lies in memory like a column, and numpy then sums it in another order: the last bit of its length
        # would differ from that of the same row among others.
        return shape_columns(np.repeat(values, 2, axis=0), word_counts, dense_counts, log_scaled)[:1]
    shaped = values.copy()
    logarithmic = word_counts | log_scaled
    # New rows may bring a negative value to a column that held counts so far.
    shaped[:, logarithmic] = np.log1p(np.maximum(values[:, logarithmic], 0.0))
    for group in (word_counts, dense_counts):
        if group.any():
            length = np.linalg.norm(shaped[:, group], axis=1, keepdims=True)
            shaped[:, group] /= np.where(length > 0, length, 1.0)
    return shaped

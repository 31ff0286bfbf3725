"""A party's table to the inputs of its model, learned from its training rows only.

::

    encoder = TableEncoder.fit(table, train_rows)
    inputs  = encoder.transform(any rows of such a table)      rows x n_inputs, float32

A column (a *feature*) becomes one input or several; ``feature_of_input`` says whose each is, and inputs of one column
share one gate. Numbers pass through :mod:`preprocessing`, all other inputs are standardised here (words keep one common
scale), so a flag is never taken for a word count. A row gets the same bits alone and among others.

``restricted`` keeps what some columns need. A row length of word counts needs every count column of the party: those
stay in ``needed_columns``, although they are no features any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsdg.config import BinningSettings
from fedsdg.data.arrays import BoolArray, FloatArray, IntArray
from fedsdg.data.binning import Binning, bin_levels, bin_with_missing
from fedsdg.data.column_codes import ColumnCode, learn_column, medians
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.preprocessing import CLIP, Preprocessor
from fedsdg.data.unusable import unusable_columns
from fedsdg.errors import DataError
from fedsdg.party_source import EncodingSettings

__all__ = ["ColumnDescription", "EncodingSettings", "TableEncoder"]

FORMAT = 1


@dataclass(frozen=True)
class ColumnDescription:
    """What becomes of one column, in words for its owner."""

    name: str
    kind: str
    inputs: int
    treatment: str
    unusable: str | None


@dataclass(frozen=True, eq=False)
class TableEncoder:
    """What the training rows taught about the columns of one party."""

    features: tuple[ColumnCode, ...]
    numbers: tuple[str, ...]
    """The number columns in table order, with those that are kept for row lengths only."""
    fills: FloatArray
    """What stands for a missing cell in each of them."""
    preprocessor: Preprocessor | None
    """Their treatment; None without numbers."""
    centre: FloatArray
    scale: FloatArray
    """Of all other inputs."""
    unusable: Mapping[str, str]
    """Columns that nothing can be learned from, and why."""

    @classmethod
    def fit(cls, table: FeatureTable, train_rows: IntArray, settings: EncodingSettings | None = None) -> TableEncoder:
        """Learn from the training rows."""
        settings, training = settings or EncodingSettings(), table.take(train_rows)
        features = tuple(learn_column(training, name, settings) for name in table.columns)
        numbers = tuple(code.name for code in features if code.kind == "number")
        cells = training.numbers(numbers)
        fills = medians(cells)
        preprocessor = Preprocessor.fit(_filled(cells, fills)) if numbers else None
        scaling = [_scaling(code, code.flags(training)) for code in features if code.n_flags]
        centre, scale = (np.concatenate([np.empty(0), *(pair[part] for pair in scaling)]) for part in (0, 1))
        return cls(features, numbers, fills, preprocessor, centre, scale, unusable_columns(training, features))

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return sum(code.n_inputs for code in self.features)

    @property
    def feature_of_input(self) -> IntArray:
        """Input j belongs to column ``feature_of_input[j]``; never falling, and every column has an input."""
        return np.repeat(np.arange(len(self.features)), [code.n_inputs for code in self.features]).astype(np.int64)

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """Names that a table must have: all features, and count columns that row lengths are taken over."""
        own = {code.name for code in self.features}
        return (*(code.name for code in self.features), *(name for name in self.numbers if name not in own))

    def transform(self, table: FeatureTable) -> NDArray[np.float32]:
        """Return the inputs of any rows; columns are found by name."""
        prepared = None
        if self.preprocessor is not None:
            prepared = self.preprocessor.transform(_filled(table.numbers(self.numbers), self.fills))
            if self.n_inputs == len(self.numbers) and self.numbers == tuple(code.name for code in self.features):
                return prepared  # nothing but numbers
        inputs = np.empty((table.n_rows, self.n_inputs), dtype=np.float32)
        place = {name: position for position, name in enumerate(self.numbers)}
        column = flag = 0
        for code in self.features:
            if code.kind == "number" and prepared is not None:
                inputs[:, column] = prepared[:, place[code.name]]
                column += 1
            if code.n_flags:
                own = slice(flag, flag + code.n_flags)
                scaled = (code.flags(table) - self.centre[own]) / self.scale[own]
                scaled[:, code.n_words :] = np.clip(scaled[:, code.n_words :], -CLIP, CLIP)
                inputs[:, column : column + code.n_flags] = scaled
                column, flag = column + code.n_flags, flag + code.n_flags
        return inputs

    def bins(self, table: FeatureTable, rows: IntArray, settings: BinningSettings) -> Binning:
        """Cut every feature into bins over these rows, for the Gini score."""
        some = table.take(rows)
        codes = np.empty((some.n_rows, len(self.features)), dtype=np.int64)
        for position, code in enumerate(self.features):
            codes[:, position] = _bin_feature(code, some, settings)
        return Binning(codes, codes.max(axis=0) + 1)

    def restricted(self, features: IntArray | Sequence[int]) -> TableEncoder:
        """Return what these features need, in table order; their inputs come out bit by bit as before."""
        kept = np.zeros(len(self.features), dtype=bool)
        kept[np.asarray(features, dtype=np.int64)] = True
        codes = tuple(code for code, keep in zip(self.features, kept, strict=True) if keep)
        names = {code.name for code in codes}
        flags = np.repeat(kept, [code.n_flags for code in self.features])
        needed, preprocessor = np.zeros(len(self.numbers), dtype=bool), None
        if self.preprocessor is not None:
            needed = self.preprocessor.needed_for(np.array([name in names for name in self.numbers], dtype=bool))
            preprocessor = self.preprocessor.restricted(needed) if needed.any() else None
        return TableEncoder(
            codes,
            tuple(name for name, keep in zip(self.numbers, needed, strict=True) if keep),
            self.fills[needed],
            preprocessor,
            self.centre[flags],
            self.scale[flags],
            {name: reason for name, reason in self.unusable.items() if name in names},
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all numbers that were learned."""
        arrays: dict[str, NDArray[Any]] = {"fills": self.fills, "flag_centre": self.centre, "flag_scale": self.scale}
        return arrays | (self.preprocessor.to_arrays() if self.preprocessor is not None else {})

    def to_json(self) -> dict[str, Any]:
        """Return the rest, as plain data."""
        return {
            "format": FORMAT,
            "features": [asdict(code) | {"levels": list(code.levels)} for code in self.features],
            "numbers": list(self.numbers),
            "unusable": dict(self.unusable),
        }

    @classmethod
    def from_parts(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> TableEncoder:
        """Build an encoder again from `to_arrays` and `to_json`."""
        try:
            if facts["format"] != FORMAT:
                raise DataError("the preprocessing was written by another version of fedsdg; train again")
            encoder = cls(
                tuple(ColumnCode(**{**code, "levels": tuple(code["levels"])}) for code in facts["features"]),
                tuple(facts["numbers"]),
                np.asarray(arrays["fills"], np.float64),
                Preprocessor.from_arrays(arrays) if "centre" in arrays else None,
                np.asarray(arrays["flag_centre"], np.float64),
                np.asarray(arrays["flag_scale"], np.float64),
                dict(facts["unusable"]),
            )
            fits = encoder._fits()
        except (KeyError, TypeError, ValueError):
            fits = False
        if not fits:
            raise DataError("the preprocessing is damaged: its parts do not fit one another")
        return encoder

    def describe(self) -> tuple[ColumnDescription, ...]:
        """Say what becomes of every column."""
        treatments = self._number_treatments()
        return tuple(
            ColumnDescription(
                code.name, code.kind, code.n_inputs, _treatment(code, treatments), self.unusable.get(code.name)
            )
            for code in self.features
        )

    def _number_treatments(self) -> dict[str, str]:
        if self.preprocessor is None:
            return {}
        words, dense, logs = (
            self.preprocessor.word_counts,
            self.preprocessor.dense_counts,
            self.preprocessor.log_scaled,
        )
        texts = np.select(
            [words, dense, logs],
            ["word count: logarithm, rows of unit length", "count: rows of unit length", "logarithm, standardised"],
            "standardised",
        )
        return dict(zip(self.numbers, texts.tolist(), strict=True))

    def _fits(self) -> bool:
        stage = self.preprocessor
        lengths = {} if stage is None else {len(array) for array in stage.to_arrays().values()} - {len(self.numbers)}
        own = {code.name for code in self.features if code.kind == "number"}
        flags = sum(code.n_flags for code in self.features)
        return (
            not lengths
            and (stage is not None) == bool(self.numbers)
            and own <= set(self.numbers)
            and len(self.fills) == len(self.numbers)
            and self.centre.shape == self.scale.shape == (flags,)
        )


def _filled(cells: NDArray[np.float64], fills: FloatArray) -> NDArray[np.float64]:
    missing: BoolArray = np.isnan(cells)
    return np.where(missing, fills, cells) if missing.any() else cells


def _scaling(code: ColumnCode, flags: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
    """Return centre and scale of a column's flags, ranks and words."""
    centre, scale = flags.mean(axis=0), flags.std(axis=0)
    scale[scale < 1e-8] = 1.0
    if code.n_words:  # one scale for all, so that rare words stay small
        words = flags[:, : code.n_words]
        centre[: code.n_words] = 0.0
        scale[: code.n_words] = max(1e-8, float(np.sqrt(np.mean(words**2))))
    return centre, scale


def _bin_feature(code: ColumnCode, table: FeatureTable, settings: BinningSettings) -> IntArray:
    if code.kind == "number":
        return bin_with_missing(table.number(code.name), settings)
    cells, levels = table.coded(code.name)
    if code.kind == "category":
        return bin_levels(np.where(np.isnan(cells), len(levels), cells).astype(np.int64), settings)
    if code.kind == "ordinal":
        return bin_with_missing(code.ranks(cells, levels), settings)
    # A text has no single value to cut. Its words' main direction tells the two largest groups of texts apart.
    words = code.flags(table)[:, : code.n_words]
    words = words - words.mean(axis=0)
    if not words.any():
        return bin_with_missing(np.where(np.isnan(cells), np.nan, 0.0), settings)
    direction = np.linalg.eigh(words.T @ words)[1][:, -1]
    return bin_with_missing(np.where(np.isnan(cells), np.nan, words @ direction), settings)


def _treatment(code: ColumnCode, numbers: Mapping[str, str]) -> str:
    missing = ", missing: a flag" if code.indicator else ""
    if code.kind == "number":
        return numbers[code.name] + (", missing: the median and a flag" if code.indicator else "")
    if code.kind == "ordinal":
        return f"rank of {len(code.levels)} levels, standardised{missing}"
    if code.kind == "text":
        return f"counts of {len(code.levels)} words: logarithm, rows of unit length{missing}"
    own = sum(level is not None for level in code.levels)
    parts = [f"{own} level{'s' if own != 1 else ''}"] if own else []
    parts += ["missing"] if None in code.levels else []
    parts += ["all other levels"] if code.other else []
    return "a flag for each of: " + ", ".join(parts)

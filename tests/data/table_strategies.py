"""Small tables of all kinds of columns, for properties."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.levels import in_order

WORDS = ("red", "green", "blue", "10", "9", "Äpfel", "x y", "the end", "the red end of it", "")
KINDS = ("number", "category", "ordinal", "text")


@st.composite
def tables(draw, kinds=KINDS, missing=True, min_rows=4, max_rows=60, max_columns=5):
    """A table with a random generator's cells: columns of few and of many values, with and without holes."""
    rows = draw(st.integers(min_rows, max_rows))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=max_columns))
    stream = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns, levels = [], {}
    for position, kind in enumerate(chosen):
        if kind == "number":
            shape = draw(st.sampled_from(["normal", "count", "flag", "constant", "huge"]))
            cells = {
                "normal": stream.normal(3, 2, rows),
                "count": stream.poisson(0.3, rows).astype(float),
                "flag": stream.integers(0, 2, rows).astype(float),
                "constant": np.full(rows, 7.0),
                "huge": stream.normal(size=rows) * 1e90,
            }[shape]
        else:
            words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=len(WORDS), unique=True))
            ordered = in_order(words) if draw(st.booleans()) else tuple(words)
            levels[f"c{position}"] = ordered
            cells = stream.integers(0, len(ordered), rows).astype(float)
        if missing and draw(st.booleans()):
            cells[stream.random(rows) < draw(st.sampled_from([0.05, 0.5, 1.0]))] = np.nan
        columns.append(cells)
    names = tuple(f"c{position}" for position in range(len(chosen)))
    return FeatureTable(names, np.column_stack(columns), tuple(chosen), levels)


def word_counts(rows: int = 80, columns: int = 120, rate: float = 0.12, seed: int = 0) -> np.ndarray:
    """Return counts that are mostly zero, as words of documents are."""
    counts = np.random.default_rng(seed).poisson(rate, size=(rows, columns)).astype(float)
    counts[0] = 3
    return counts

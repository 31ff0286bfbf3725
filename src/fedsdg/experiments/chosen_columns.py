"""The columns in a row of results: a list where they are few, packed bits where they are many.

Thousands of numbers in every row would fill a repository; a bit per column is short enough, and any two selections can
be compared.
"""

from __future__ import annotations

import base64

import numpy as np

from fedsdg.data.arrays import IntArray
from fedsdg.experiments.cell import Row

MOST_COLUMNS_LISTED = 500


def record_columns(chosen: IntArray, n_columns: int) -> Row:
    """Return the fields of a row that say which of a data set's columns were chosen."""
    if len(chosen) <= MOST_COLUMNS_LISTED:
        return {"columns": chosen.tolist()}
    mask = np.zeros(n_columns, dtype=bool)
    mask[chosen] = True
    return {"columns": None, "packed_columns": base64.b64encode(np.packbits(mask).tobytes()).decode()}


def columns_of(row: Row) -> frozenset[int] | None:
    """Return which columns were chosen, or None where the row does not say."""
    if row.get("columns") is not None:
        return frozenset(row["columns"])
    if row.get("packed_columns") is not None:
        return frozenset(unpack(row["packed_columns"]))
    return None


def unpack(text: str) -> list[int]:
    """Return the columns of packed bits; a ValueError says that they are none."""
    try:
        bits = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    except ValueError:  # binascii.Error is one, and letters that are not ASCII raise one
        raise ValueError("should be base64") from None
    return [int(column) for column in np.flatnonzero(np.unpackbits(bits))]

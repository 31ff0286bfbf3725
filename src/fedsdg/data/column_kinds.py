"""What a column of a raw table is: pinned by its owner, or inferred from its cells.

========================================  ===========================================================================
cells                                     kind, unless the schema says another
========================================  ===========================================================================
numbers, true and false, text of these    number
dates and times, ISO 8601 text of them    date: days since 1970 (UTC), a number from here on
text that is numbers but for `NA` etc.    number, those cells missing
text, > 20 different, >= 3 words          text
text, > 20 different, > 90 % of the rows  ignore: one word each and hardly two alike, so probably an identifier
other text, categorical types             category
nothing at all                            number, every cell missing
========================================  ===========================================================================

Empty text, null and NaN are missing. Infinite numbers and numbers beyond +-1e100 are refused, as are lists and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsdg.data.cells import (
    FloatColumn,
    all_numbers,
    clean_text,
    codes,
    days,
    numbers,
    parsed_dates,
    parsed_numbers,
    written_out,
)
from fedsdg.data.feature_table import Kind
from fedsdg.data.levels import in_order, level_text
from fedsdg.data.wording import count_cells, type_name
from fedsdg.errors import DataError
from fedsdg.party_source import ColumnPin

#: Larger magnitudes could overflow when the spread of a column is computed.
LARGEST = 1e100
MANY_DIFFERENT = 20
NEARLY_ALL = 0.9
WORDS_OF_A_TEXT = 3.0
WORDS_OF_AN_IDENTIFIER = 1.5
ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?$"
IDENTIFIER = (
    'left out: hardly two cells are alike, so it looks like an identifier; pin it as "category" or "text" to use it'
)
NUMBER, DATE, CATEGORY, TEXT = (ColumnPin(kind=kind) for kind in ("number", "date", "category", "text"))
IGNORE = ColumnPin(kind="ignore")


@dataclass(frozen=True, eq=False)
class Column:
    """A column's cells, as a table holds them; no values if it is left out."""

    pin: ColumnPin
    kind: Kind = "number"
    values: FloatColumn | None = None
    levels: tuple[str, ...] = ()
    note: str | None = None


def read_column(column: pl.Series, pin: ColumnPin | None, where: str) -> Column:
    """Return a column by its pinned or inferred kind; `where` begins a complaint."""
    if pin is not None and pin.kind == "ignore":
        return Column(pin)
    kind = column.dtype
    if kind.is_nested() or kind in (pl.Binary, pl.Object):
        raise DataError(
            f"{where} holds {type_name(kind)}, which cannot be used. Leave it out with the setting `columns`, or "
            'pin it as "ignore".'
        )
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        if kind == pl.String and (pin is None or pin.kind == "number"):
            plain = all_numbers(column)  # the quick way for what is simply a column of numbers
            if plain is not None:
                return _number_column(plain, pin or NUMBER, where)
        text = clean_text(column)
        if pin is not None:
            return _pinned_text(text, pin, where)
        return _inferred_text(text, where) if kind == pl.String else _coded(text, CATEGORY)
    if kind.is_temporal() and (pin is None or pin.kind in ("date", "number")):
        return _number_column(days(column), pin or DATE, where)
    if pin is None or pin.kind == "number":
        return _number_column(numbers(column), pin or NUMBER, where)
    if pin.kind == "date" and not kind.is_numeric():
        raise DataError(f"{where} is pinned as a date and holds {type_name(kind)}; correct the pin.")
    return _pinned_text(written_out(column), pin, where)


def _inferred_text(column: pl.Series, where: str) -> Column:
    present = column.drop_nulls()
    if present.is_empty():
        return _number_column(np.full(len(column), np.nan), NUMBER, where)
    found, unknown = parsed_numbers(column)
    if unknown == 0 and not np.isnan(found).all():
        return _number_column(found, NUMBER, where)
    if present.str.contains(ISO_DATE).all():
        found, unknown = parsed_dates(column, None)
        if unknown == 0:
            return _number_column(found, DATE, where)
    different = present.n_unique()
    words = float(np.mean(present.str.count_matches(r"\S+").to_numpy()))
    if different > MANY_DIFFERENT and words >= WORDS_OF_A_TEXT:
        return _coded(column, TEXT)
    if different > max(MANY_DIFFERENT, NEARLY_ALL * len(present)) and words < WORDS_OF_AN_IDENTIFIER:
        return Column(IGNORE, note=IDENTIFIER)
    return _coded(column, CATEGORY)


def _pinned_text(column: pl.Series, pin: ColumnPin, where: str) -> Column:
    if pin.kind == "number":
        found, wrong = parsed_numbers(column)
        if wrong:
            raise DataError(f"{where} is pinned as a number and has {count_cells(wrong, 'other')}; correct them.")
        return _number_column(found, pin, where)
    if pin.kind == "date":
        found, wrong = parsed_dates(column, pin.format)
        if wrong:
            form = f"in the format {pin.format!r}" if pin.format else "as 2024-12-31 or 2024-12-31T23:59:59"
            raise DataError(
                f"{where} is pinned as a date and has {count_cells(wrong, 'other')}; dates are written {form}."
            )
        return _number_column(found, pin, where)
    if pin.levels is None:
        return _coded(column, pin)
    listed = tuple(level_text(level) for level in pin.levels)
    known = column.is_in(listed).fill_null(False)
    unknown = int((~known).sum()) - column.null_count()
    note = f"{count_cells(unknown, 'other')} than the levels in the schema, taken as missing" if unknown else None
    return Column(pin, "ordinal", codes(column.set(~known, None), listed), listed, note)


def _coded(column: pl.Series, pin: ColumnPin) -> Column:
    levels = in_order(column.drop_nulls().unique().to_list())
    kind: Kind = "ordinal" if pin.kind == "ordinal" else "text" if pin.kind == "text" else "category"
    return Column(pin, kind, codes(column, levels), levels)


def _number_column(values: FloatColumn, pin: ColumnPin, where: str) -> Column:
    infinite, huge = int(np.isinf(values).sum()), int((np.abs(values) > LARGEST).sum())
    if infinite:
        raise DataError(f"{where} has {count_cells(infinite, 'infinite')}. Empty them, or leave the column out.")
    if huge:
        raise DataError(f"{where} has {count_cells(huge, f'huge (beyond {LARGEST:.0e})')}. Rescale them.")
    return Column(pin, "number", values)

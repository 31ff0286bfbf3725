"""What columns are taken for, and what the schema can say instead."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from fedsdg.data.column_kinds import read_column
from fedsdg.errors import DataError
from fedsdg.party_source import ColumnPin

NAN = np.nan


def read(cells, pin=None, dtype=None):
    pinned = None if pin is None else ColumnPin(**pin) if isinstance(pin, dict) else ColumnPin(kind=pin)
    return read_column(pl.Series("c", cells, dtype=dtype), pinned, "left: column 'c'")


def same(found, wanted):
    np.testing.assert_array_equal(found.values, np.array(wanted, dtype=float))


MANY = [f"k{i}" for i in range(50)]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2, None], "number"),
        ([1.5, NAN], "number"),
        ([True, False, None], "number"),
        (["1", " 2.5 ", "1e3", None], "number"),
        (["1", "NA", "?", "-", "n/a", "null"], "number"),
        (["true", "false"], "number"),
        (["True", "FALSE", None], "number"),
        ([None, None], "number"),
        (["", "  "], "number"),
        ([datetime.date(2020, 1, 1)], "date"),
        ([datetime.datetime(2020, 1, 1, 12)], "date"),
        ([datetime.time(12)], "date"),
        ([datetime.timedelta(hours=6)], "date"),
        (["2020-01-31", None, "2021-12-01"], "date"),
        (["2020-01-31T10:00", "2020-01-31 10:00:00.5", "2020-01-31T10:00:00Z"], "date"),
        (["2020-02-31", "2020-01-01"], "category"),
        (["NA", "none"], "category"),
        (["1", "2", "many"], "category"),
        (["yes", "no"], "category"),
        (["one two three four"] * 30, "category"),
        ([f"word{i} and two more" for i in range(30)], "text"),
        (MANY, "ignore"),
        (MANY[:20], "category"),
        (MANY + MANY, "category"),
        ([f"First{i} Last{i}" for i in range(50)], "category"),
    ],
)
def test_a_kind_is_inferred(cells, kind):
    assert read(cells).pin.kind == kind


def test_polars_categories_are_categories():
    assert read(["a", "b"], dtype=pl.Categorical).kind == "category"
    assert read(MANY, dtype=pl.Enum(MANY)).kind == "category"


def test_an_identifier_is_left_out_with_a_note():
    found = read(MANY)
    assert found.values is None
    assert "looks like an identifier" in found.note


def test_numbers_are_kept_and_what_is_none_is_missing():
    same(read(["1", " 2.5 ", "1e3", None, "NA", "nan"]), [1, 2.5, 1000, NAN, NAN, NAN])
    same(read(["true", "False", None]), [1, 0, NAN])
    same(read([1, None, 3]), [1, NAN, 3])


def test_decimals_are_numbers():
    same(read_column(pl.Series([1, 2]).cast(pl.Decimal(10, 2)), None, "x"), [1, 2])


def test_dates_are_days_since_1970():
    same(read([datetime.date(1970, 1, 11), None]), [10, NAN])
    same(read([datetime.datetime(1970, 1, 2, 12)]), [1.5])
    same(read([datetime.time(6)]), [0.25])
    same(read([datetime.timedelta(days=3, hours=12)]), [3.5])


def test_text_and_typed_dates_are_the_same_days():
    moments = [datetime.datetime(1969, 12, 31, 23, 59, 59, 500000), datetime.datetime(2024, 2, 29, 6, 30)]
    texts = [moment.isoformat() for moment in moments]
    same(read(texts), read(moments).values)


def test_times_with_a_zone_are_taken_in_utc():
    same(read(["1970-01-02T02:00:00+02:00", "1970-01-01T12:00:00Z"]), [1, 0.5])
    zoned = pl.Series(["1970-01-02T02:00:00+02:00"]).str.to_datetime("%Y-%m-%dT%H:%M:%S%z")
    same(read_column(zoned, None, "x"), [1])


def test_levels_are_sorted_trimmed_and_of_one_spelling():
    found = read(["b ", "a", "b", "", None, "10", "9", "Zoe\u0308", "Zo\u00eb"])
    assert found.levels == ("9", "10", "Zoë", "a", "b")
    same(found, [4, 3, 4, NAN, NAN, 1, 0, 2, 2])


class TestPins:
    def test_a_category_of_numbers(self):
        found = read([10, 9, None, 10], "category")
        assert found.levels == ("9", "10")
        same(found, [1, 0, NAN, 1])
        assert read([1.0, 2.5, NAN], "category").levels == ("1", "2.5")
        assert read([True, False], "category").levels == ("false", "true")

    def test_leading_zeros_of_text_are_kept(self):
        assert read(["007", "7"], "category").levels == ("007", "7")

    def test_an_identifier_can_be_used_all_the_same(self):
        assert read(MANY, "category").kind == "category"

    def test_an_ordinal_is_sorted_or_in_the_listed_order(self):
        assert read(["10", "9"], "ordinal").levels == ("9", "10")
        found = read(["low", "high", None], {"kind": "ordinal", "levels": ["low", "mid", "high"]})
        assert found.kind == "ordinal"
        assert found.levels == ("low", "mid", "high")
        same(found, [0, 2, NAN])

    def test_levels_that_are_not_listed_are_missing_with_a_note(self):
        found = read(["low", "odd", "strange", None], {"kind": "ordinal", "levels": ["low", "high"]})
        same(found, [0, NAN, NAN, NAN])
        assert found.note == "2 other cells than the levels in the schema, taken as missing"
        assert read(["low", None], {"kind": "ordinal", "levels": ["low", "high"]}).note is None

    def test_a_date_in_a_format_of_its_own(self):
        same(read(["11.01.1970", None], {"kind": "date", "format": "%d.%m.%Y"}), [10, NAN])
        same(read([19700111], {"kind": "date", "format": "%Y%m%d"}), [10])

    def test_a_text_that_would_be_a_category(self):
        assert read(["one two", "two"], "text").kind == "text"

    def test_dates_as_numbers_and_numbers_as_text(self):
        same(read([datetime.date(1970, 1, 11)], "number"), [10])
        same(read(["1", "NA"], "number"), [1, NAN])

    def test_an_ignored_column_may_hold_anything(self):
        assert read([[1], [2]], "ignore").values is None

    @pytest.mark.parametrize(
        ("cells", "pin", "reason"),
        [
            (["1", "two", "three"], "number", "pinned as a number and has 2 other cells"),
            (["2020-01-01", "yesterday"], "date", "pinned as a date and has 1 other cell; dates are written as 2024"),
            (["2020-01-01"], {"kind": "date", "format": "%d.%m.%Y"}, r"in the format '%d\.%m\.%Y'"),
            ([2020, 2021], "date", "has 2 other cells"),
            ([True, False], "date", "pinned as a date and holds values of type Boolean"),
            ([[1]], "category", "holds values of type List"),
            ([1.0, float("inf")], "number", "1 infinite cell"),
            (["1", "inf"], None, "1 infinite cell"),
            (["1e200"], None, "1 huge"),
        ],
    )
    def test_cells_that_do_not_fit_are_refused_and_not_quoted(self, cells, pin, reason):
        with pytest.raises(DataError, match=f"left: column 'c' .*{reason}") as refusal:
            read(cells, pin)
        assert "two" not in str(refusal.value)
        assert "yesterday" not in str(refusal.value)

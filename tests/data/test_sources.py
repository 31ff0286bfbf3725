"""Rows as people keep them: files, frames, ids. The same table is read from all of them."""

from __future__ import annotations

import datetime
import unicodedata

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from fedsdg.data.sources import read_labels, read_party
from fedsdg.errors import ConfigError, DataError
from fedsdg.party_source import ClientSource, LabelSource

ROWS = 60
FRAME = pl.DataFrame(
    {
        "id": [f"person-{i:03d}" for i in range(ROWS)],
        "height": [None if i % 10 == 3 else 1.5 + i / 100 for i in range(ROWS)],
        "colour": [("red", "green", "blue", None)[i % 4] for i in range(ROWS)],
        "size": [("S", "M", "L")[i % 3] for i in range(ROWS)],
        "since": [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(ROWS)],
        "member": [i % 2 == 0 for i in range(ROWS)],
        "note": [f"the {('quick', 'slow')[i % 2]} fox number {i} jumps" for i in range(ROWS)],
    }
)
SCHEMA = {"size": {"kind": "ordinal", "levels": ["S", "M", "L"]}}
EXPECTED_KINDS = ("number", "category", "ordinal", "number", "number", "text")


def in_file(tmp_path, name):
    path = tmp_path / name
    match path.suffix.lower():
        case ".csv" | ".tsv":
            FRAME.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
        case ".parquet":
            FRAME.write_parquet(path)
        case ".feather" | ".ipc":
            FRAME.write_ipc(path)
        case _:
            FRAME.write_ipc_stream(path)
    return path


def check(read):
    """The table that every source of the frame must give."""
    assert read.ids == tuple(FRAME["id"])
    table = read.table
    assert table.columns == ("height", "colour", "size", "since", "member", "note")
    assert table.kinds == EXPECTED_KINDS
    assert table.levels["size"] == ("S", "M", "L")
    assert table.levels["colour"] == ("blue", "green", "red")
    np.testing.assert_array_equal(table.values[:, 0], FRAME["height"].to_numpy())
    assert np.isnan(table.values[3, 1])
    assert table.values[:3, 2].tolist() == [0.0, 1.0, 2.0]
    assert table.values[0, 3] == (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    assert table.values[:2, 4].tolist() == [1.0, 0.0]
    assert table.levels["note"][int(table.values[7, 5])] == FRAME["note"][7]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.feather", "t.ipc", "t.arrow", "T.CSV"])
def test_files_of_all_formats_give_the_same_table(name, tmp_path):
    check(read_party(ClientSource(table=in_file(tmp_path, name), id="id", schema=SCHEMA), "left"))


def pandas_frame():
    pytest.importorskip("pandas")
    return FRAME.to_pandas()


FRAMES = {
    "polars": lambda: FRAME,
    "a lazy polars frame": FRAME.lazy,
    "pandas": pandas_frame,
    "pandas with the ids as index": lambda: pandas_frame().set_index("id"),
    "pandas with categories": lambda: pandas_frame().astype({"colour": "category"}),
    "an Arrow table": FRAME.to_arrow,
    "an Arrow batch": lambda: FRAME.to_arrow().combine_chunks().to_batches()[0],
    "anything with Arrow's interface": lambda: Stream(FRAME.to_arrow()),
}


class Stream:
    """A stranger's frame."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_all_libraries_give_the_same_table(kind):
    check(read_party(ClientSource(id="id", schema=SCHEMA), "left", FRAMES[kind]()))


def test_a_frame_takes_the_place_of_the_table_that_the_job_names(tmp_path):
    check(read_party(ClientSource(table=tmp_path / "none.csv", id="id", schema=SCHEMA), "left", FRAME))


def test_names_of_pandas_columns_may_be_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({0: ["a", "b"], 1: [1.0, 2.0]})
    assert read_party(ClientSource(id="0"), "left", frame).table.columns == ("1",)


def test_only_the_chosen_columns_are_read_in_the_chosen_order(tmp_path):
    path = in_file(tmp_path, "t.parquet")
    read = read_party(ClientSource(table=path, id="id", columns=("size", "height")), "left")
    assert read.table.columns == ("size", "height")


def test_a_column_that_is_not_chosen_may_hold_anything():
    frame = FRAME.with_columns(lists=pl.Series([[1]] * ROWS))
    assert read_party(ClientSource(id="id", columns=("height",)), "left", frame).table.columns == ("height",)
    ignored = read_party(ClientSource(id="id", schema={"lists": "ignore"}), "left", frame)
    assert "lists" not in ignored.table.columns


def test_without_a_source_a_frame_is_asked_for():
    with pytest.raises(ConfigError, match="left: there is no source of rows; name a table"):
        read_party(ClientSource(id="id"), "left")


WRONG_FRAMES = {
    "a list": (lambda: [1, 2], "a list is no table; pass a pandas or polars frame"),
    "an array": (lambda: np.ones((3, 3)), "a ndarray is no table"),
    "no rows": (lambda: FRAME.head(0), "the frame has no rows"),
    "an unknown id": (lambda: FRAME.drop("id"), "there is no id column 'id'. There are: 'height'"),
    "a name twice": (
        lambda: pa.table([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["id", "x", "x"]),
        "the frame has several columns 'x'",
    ),
    "lists": (lambda: FRAME.with_columns(x=pl.Series([[1]] * ROWS)), "column 'x' holds values of type List"),
    "bytes": (lambda: FRAME.with_columns(x=pl.Series([b"1"] * ROWS)), "column 'x' holds values of type Binary"),
    "infinity": (
        lambda: FRAME.with_columns(x=pl.Series([np.inf, -np.inf] + [1.0] * 58)),
        "column 'x' has 2 infinite cells",
    ),
    "huge": (
        lambda: FRAME.with_columns(x=pl.Series([1e101] * ROWS)),
        r"column 'x' has 60 huge \(beyond 1e\+100\) cells",
    ),
    "nothing to use": (
        lambda: pl.DataFrame({"id": range(40), "key": [f"k{i}" for i in range(40)]}),
        "no columns besides the id that can be used",
    ),
    "only ids": (lambda: FRAME.select("id"), "there are no columns besides the id"),
}


@pytest.mark.parametrize("case", WRONG_FRAMES)
def test_a_frame_that_cannot_be_used_is_refused(case):
    frame, reason = WRONG_FRAMES[case]
    with pytest.raises(DataError, match=f"left: .*{reason}") as refusal:
        read_party(ClientSource(id="id"), "left", frame())
    assert "person-" not in str(refusal.value)


def test_a_pandas_column_of_several_types_is_refused_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": ["a", "b"], "x": pandas.Series([1, {"y": 2}], dtype=object)})
    with pytest.raises(DataError, match="left: column 'x' holds values of different types"):
        read_party(ClientSource(id="id"), "left", frame)


class TestIds:
    def read(self, ids, **extra):
        frame = pl.DataFrame({"id": ids, "x": [float(i) for i in range(len(ids))], **extra})
        return read_party(ClientSource(id="id"), "left", frame).ids

    def test_they_are_text_as_written(self):
        assert self.read(["007", "7"]) == ("007", "7")

    def test_whole_numbers_of_any_type_are_the_same_ids(self):
        assert self.read([1, 2]) == self.read([1.0, 2.0]) == self.read(["1", "2"])

    def test_white_space_around_them_does_not_count(self):
        assert self.read([" a", "b\t", " c d\u00a0"]) == ("a", "b", "c d")

    def test_two_spellings_of_one_character_are_one_id(self):
        composed, decomposed = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
        assert composed != decomposed
        assert self.read([decomposed, "x"]) == (composed, "x")
        with pytest.raises(DataError, match="1 of 2 ids repeat another"):
            self.read([decomposed, composed])

    def test_repeated_ids_are_refused_by_row_number_and_never_quoted(self):
        ids = [f"person-{i}" for i in range(20)]
        ids[3] = ids[19] = ids[0]
        with pytest.raises(DataError) as refusal:
            self.read(ids)
        assert str(refusal.value) == (
            "left: the id column 'id' of the frame: 2 of 20 ids repeat another (rows 4, 20); each row needs an id of "
            "its own."
        )

    def test_only_the_first_few_rows_are_named(self):
        with pytest.raises(DataError, match=r"99 of 100 ids repeat another \(rows 2, 3, 4, 5, 6, \.\.\.\)"):
            self.read(["a"] * 100)

    @pytest.mark.parametrize("empty", [None, "", "  "])
    def test_empty_ids_are_refused_by_row_number(self, empty):
        with pytest.raises(DataError, match=r"'id' of the frame has 1 empty cell \(row 2\)"):
            self.read(["a", empty, "c"])

    def test_infinite_ids_are_refused(self):
        with pytest.raises(DataError, match="empty or infinite"):
            self.read([1.0, np.inf])

    def test_without_an_id_column_rows_are_numbered(self):
        frame = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
        assert read_party(ClientSource(), "left", frame).ids == ("0", "1", "2")


class TestLabels:
    frame = FRAME.with_columns(label=pl.Series([i % 2 for i in range(ROWS)]))

    def test_labels_alone(self):
        labels, own = read_labels(LabelSource(id="id", target="label"), "bank", self.frame)
        assert own is None
        assert labels.ids == tuple(FRAME["id"])
        assert labels.labels.tolist() == [i % 2 for i in range(ROWS)]

    def test_labels_and_columns_of_the_label_owner(self):
        source = LabelSource(id="id", target="label", columns="all", schema=SCHEMA)
        labels, own = read_labels(source, "bank", self.frame)
        check(own)
        assert own.ids == labels.ids

    def test_chosen_columns_of_the_label_owner(self):
        source = LabelSource(id="id", target="label", columns=("colour",))
        assert read_labels(source, "bank", self.frame)[1].table.columns == ("colour",)

    def test_a_table_of_labels_only_needs_no_other_column(self):
        labels, own = read_labels(LabelSource(target="label"), "bank", self.frame.select("label"))
        assert labels.ids[:2] == ("0", "1")
        assert own is None

    @pytest.mark.parametrize(
        ("column", "wanted"),
        [
            (pl.Series([True, False]), [1, 0]),
            (pl.Series(["yes", "no"]), ["yes", "no"]),
            (pl.Series(["1", "0"]), ["1", "0"]),
            (pl.Series(["yes", "no"], dtype=pl.Categorical), ["yes", "no"]),
            (pl.Series([1, 0], dtype=pl.UInt8), [1, 0]),
            (pl.Series([0.5, 1.5], dtype=pl.Float32), [0.5, 1.5]),
        ],
    )
    def test_they_are_numbers_or_class_names(self, column, wanted):
        frame = pl.DataFrame({"label": column})
        found = read_labels(LabelSource(target="label"), "bank", frame)[0].labels
        assert found.tolist() == wanted
        assert found.dtype.kind in "iUf"

    @pytest.mark.parametrize(
        ("written", "wanted"),
        [
            ("1\n0", [1, 0]),
            ("1.0\n2.5", [1.0, 2.5]),
            ("true\nfalse", [1, 0]),
            ("yes\nno", ["yes", "no"]),
            ("1\nno", ["1", "no"]),
        ],
    )
    def test_in_a_text_file_they_are_what_they_look_like(self, written, wanted, tmp_path):
        (tmp_path / "t.csv").write_text(f"label\n{written}\n")
        found = read_labels(LabelSource(table=tmp_path / "t.csv", target="label"), "bank")[0].labels
        assert found.tolist() == wanted

    @pytest.mark.parametrize(
        ("labels", "reason"),
        [
            ([1, None], "1 empty cell"),
            ([1.0, np.nan], "1 NaN or infinite cell"),
            ([1.0, np.inf], "1 NaN or infinite cell"),
            ([1.0, 1e200], "1 huge"),
            ([datetime.date(2020, 1, 1)] * 2, "holds dates or times; give numbers or class names"),
        ],
    )
    def test_they_stay_strict(self, labels, reason):
        with pytest.raises(DataError, match=f"bank: the label column 'label' .*{reason}"):
            read_labels(LabelSource(target="label"), "bank", pl.DataFrame({"label": labels}))

    def test_a_missing_label_column_is_refused(self):
        with pytest.raises(DataError, match=r"bank: there is no label column 'label'\. There are: 'id'"):
            read_labels(LabelSource(id="id", target="label"), "bank", FRAME)


def test_lines_without_anything_are_left_out_but_a_line_without_an_id_is_not(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,a,b\n1,2,3\n,,\n\n2,,\n3,4,5\n")
    read = read_party(ClientSource(table=path, id="id", columns=("a",)), "left")
    assert read.ids == ("1", "2", "3")
    path.write_text("id,a,b\n1,2,3\n,,7\n2,1,1\n")
    with pytest.raises(DataError, match=r"has 1 empty cell \(row 2\)"):
        read_party(ClientSource(table=path, id="id", columns=("a",)), "left")


def test_an_unknown_column_in_the_schema_is_refused():
    with pytest.raises(DataError, match=r"left: the schema names a column 'colr' that is not there\. There are: 'id'"):
        read_party(ClientSource(id="id", schema={"colr": "category"}), "left", FRAME)


def test_notes_tell_what_was_left_out_and_what_is_empty():
    frame = pl.DataFrame({"id": range(40), "x": [1.0] * 40, "key": [f"k{i}" for i in range(40)], "none": [None] * 40})
    notes = read_party(ClientSource(id="id"), "left", frame).notes
    assert [note.split(":")[0] for note in notes] == ["column 'key'", "column 'none'"]
    assert notes[1] == "column 'none': empty"


def test_how_columns_were_read_reads_new_rows_alike():
    keys = pl.DataFrame({"id": range(40), "zip": [f"{i % 7:05d}" for i in range(40)], "day": ["2024-02-01"] * 40})
    keys = keys.with_columns(note=pl.Series([f"a few words {i}" for i in range(40)]))
    first = read_party(ClientSource(id="id", schema={"zip": "category"}), "left", keys)
    assert {name: pin.kind for name, pin in first.pins.items()} == {"zip": "category", "day": "date", "note": "text"}
    again = read_party(ClientSource(id="id", schema=first.pins), "left", keys.head(1))
    assert again.table.kinds == first.table.kinds
    assert [column.pinned for column in first.read] == [True, False, False]

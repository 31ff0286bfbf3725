"""A table that does not fit into memory is refused before it is read, with the bytes that it needs."""

from __future__ import annotations

import polars as pl
import pytest

from fedsdg.data import memory
from fedsdg.data.sources import read_labels, read_party
from fedsdg.errors import ConfigError, DataError
from fedsdg.party_source import ClientSource, LabelSource

ROWS, COLUMNS = 1000, 30
FRAME = pl.DataFrame(
    {"id": [f"p{i}" for i in range(ROWS)], **{f"c{j}": [float(i * j) for i in range(ROWS)] for j in range(COLUMNS)}}
)
WRITE = {
    "t.csv": FRAME.write_csv,
    "t.parquet": FRAME.write_parquet,
    "t.feather": FRAME.write_ipc,
    "t.arrow": FRAME.write_ipc_stream,
}


@pytest.mark.parametrize("name", WRITE)
def test_a_file_that_does_not_fit_is_refused_before_its_cells_are_read(name, tmp_path, monkeypatch):
    WRITE[name](tmp_path / name)
    monkeypatch.setenv("FEDSDG_MEMORY", "1000000")
    read = []
    monkeypatch.setattr(pl, "from_arrow", lambda *a, **k: read.append(a))
    real = pl.LazyFrame.collect
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda self, **k: read.append(found := real(self, **k)) or found)
    with pytest.raises(
        DataError, match=r"left: 1,000 rows x 31 columns need about [\d,]+ bytes of memory, and 1,000,000"
    ):
        read_party(ClientSource(table=tmp_path / name, id="id"), "left")
    assert all(frame.shape == (1, 1) for frame in read)  # the number of rows, and nothing else


@pytest.mark.parametrize("name", WRITE)
def test_fewer_columns_of_the_same_file_fit(name, tmp_path, monkeypatch):
    WRITE[name](tmp_path / name)
    monkeypatch.setenv("FEDSDG_MEMORY", "1000000")
    read = read_party(ClientSource(table=tmp_path / name, id="id", columns=("c3", "c7")), "left")
    assert read.table.values.shape == (ROWS, 2)


def test_the_bytes_needed_are_those_of_the_chosen_cells_and_the_ids(tmp_path, monkeypatch):
    FRAME.write_parquet(tmp_path / "t.parquet")
    needed = ROWS * ((COLUMNS + 1) * memory.CELL_BYTES + memory.ROW_BYTES)
    monkeypatch.setenv("FEDSDG_MEMORY", str(needed))
    assert read_party(ClientSource(table=tmp_path / "t.parquet", id="id"), "left").table.n_rows == ROWS
    monkeypatch.setenv("FEDSDG_MEMORY", str(needed - 1))
    with pytest.raises(DataError, match=f"need about {needed:,} bytes of memory, and {needed - 1:,} are free"):
        read_party(ClientSource(table=tmp_path / "t.parquet", id="id"), "left")


def test_the_texts_of_a_text_file_are_counted_too(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    pl.DataFrame({"id": ["a", "b"], "note": ["x" * 100_000, "y" * 100_000]}).write_csv(path)
    monkeypatch.setenv("FEDSDG_MEMORY", "150000")
    with pytest.raises(DataError, match="bytes of memory"):
        read_party(ClientSource(table=path, id="id"), "left")


@pytest.mark.parametrize("frame", [FRAME, FRAME.to_arrow()], ids=["polars", "arrow"])
def test_a_frame_that_would_not_fit_several_times_is_refused(frame, monkeypatch):
    monkeypatch.setenv("FEDSDG_MEMORY", "1000000")
    with pytest.raises(DataError, match="Choose fewer columns with the setting `columns`"):
        read_party(ClientSource(id="id"), "left", frame)


def test_labels_alone_need_little(tmp_path, monkeypatch):
    FRAME.write_csv(tmp_path / "t.csv")
    monkeypatch.setenv("FEDSDG_MEMORY", "1000000")
    assert len(read_labels(LabelSource(table=tmp_path / "t.csv", id="id", target="c1"), "bank")[0].ids) == ROWS


@pytest.mark.parametrize("said", ["", "much", "-5", "1.5", "0", "8GB", "²"])
def test_an_unusable_amount_of_memory_is_refused_and_not_ignored(said, monkeypatch):
    monkeypatch.setenv("FEDSDG_MEMORY", said)
    with pytest.raises(ConfigError, match="FEDSDG_MEMORY: give a number of bytes"):
        memory.free_memory()


def test_the_smallest_of_machine_and_container_counts(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDSDG_MEMORY", raising=False)
    limit, used = tmp_path / "max", tmp_path / "current"
    limit.write_text("9000\n")
    used.write_text("4000\n")
    monkeypatch.setattr(memory, "CGROUPS", ((limit, used),))
    assert memory.free_memory() == 5000
    limit.write_text("max\n")
    machine = memory.free_memory()
    assert machine is None or machine > 5000


def test_where_nothing_tells_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDSDG_MEMORY", raising=False)
    monkeypatch.setattr(memory, "_of_machine", lambda: None)
    monkeypatch.setattr(memory, "CGROUPS", ((tmp_path / "no", tmp_path / "no"),))
    assert memory.free_memory() is None
    memory.require_memory("left", 10**15, 10**6)

"""The end of a results file after a crash: half a row goes aside, and nothing that is more than that is ever lost."""

from __future__ import annotations

import json

import pytest
from experiment_helpers import row
from test_damaged_results import ABOUT, ROW, folder_of, prepare, printed

from fedsdg.errors import DataError, StateFileError
from fedsdg.experiments.recorded import read_recorded
from fedsdg.experiments.results import FAILURES
from fedsdg.experiments.runner import Grid, run

LINES = [json.dumps(row("MADELON", "fedsdg", fold)).encode() for fold in range(3)]
MORE_THAN_HALF = [
    (b"\r".join(LINES) + b"\r", "carriage returns"),
    (b"\r".join(LINES), "carriage returns"),
    (LINES[0] + b"\n" + LINES[1] + b"\r" + LINES[2][:-9], "carriage returns"),
    (b"\x00".join(LINES), "NUL"),
    (LINES[0] + b"\n" + bytes(500), "NUL"),
    ("\n".join(map(bytes.decode, LINES)).encode("utf-16"), "NUL"),
    (LINES[0] + LINES[1], "something follows a whole row"),
    (LINES[0] + LINES[1][:-9], "something follows a whole row"),
    (LINES[0] + b"\nsee my notes", "does not begin like a row"),
]


@pytest.mark.parametrize(("content", "reason"), MORE_THAN_HALF)
@pytest.mark.parametrize("name", ["results.jsonl", FAILURES])
def test_more_than_half_a_row_is_refused_and_stays(name, content, reason, tmp_path):
    folder = folder_of(tmp_path, ABOUT)
    (tmp_path / name).write_bytes(content)
    told = rf"{name}: line \d, the last one, .*{reason}.*; end every row with a line feed, or put back a copy"
    with pytest.raises(StateFileError, match=told):
        prepare(folder, ABOUT)
    assert (tmp_path / name).read_bytes() == content
    assert not (tmp_path / f"{name}.cut-off").exists()


@pytest.mark.parametrize(("content", "reason"), MORE_THAN_HALF)
def test_no_table_is_made_of_the_rest_and_no_experiment_goes_on_from_it(content, reason, tmp_path):
    folder_of(tmp_path, ABOUT)
    (tmp_path / "results.jsonl").write_bytes(content)
    assert printed(tmp_path) == ""
    with pytest.raises(DataError, match=reason):
        read_recorded(tmp_path)
    with pytest.raises(DataError, match=reason):
        run(Grid("accuracy", ("WINE",)), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiment.json", "results.jsonl"]


@pytest.mark.parametrize("name", ["results.jsonl", FAILURES])
def test_half_a_row_is_kept_aside(name, tmp_path):
    folder = folder_of(tmp_path, ABOUT)
    whole = json.dumps(ROW | {"method": "méthode"}, ensure_ascii=False).encode()
    halves = [whole[: whole.index(b"\xc3") + 1], whole[:-1], b"{"]
    for half in halves:
        (tmp_path / name).write_bytes(LINES[0] + b"\n" + half)
        prepare(folder, ABOUT)
        assert (tmp_path / name).read_bytes() == LINES[0] + b"\n"
    assert (tmp_path / f"{name}.cut-off").read_bytes() == b"".join(half + b"\n" for half in halves)


def test_nothing_is_kept_aside_where_nothing_was_cut_off(tmp_path):
    folder = folder_of(tmp_path, ABOUT)
    for content in (b"", LINES[0], LINES[0] + b" \t", b"\r\n".join(LINES) + b"\r\n"):
        (tmp_path / "results.jsonl").write_bytes(content)
        prepare(folder, ABOUT)
        assert (tmp_path / "results.jsonl").read_bytes().startswith(content)
    assert len(folder.rows()) == 3
    assert not (tmp_path / "results.jsonl.cut-off").exists()

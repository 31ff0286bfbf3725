"""An experiment's folder that was edited or cut off: its table is printed or refused in words, and no row is lost."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from experiment_helpers import row
from typer.testing import CliRunner

from fedsdg.cli.app import app
from fedsdg.errors import ConfigError, DataError, FedSDGError, StateFileError
from fedsdg.experiments.results import FAILURES, ResultsFolder
from fedsdg.experiments.runner import Grid, run

ABOUT = {"name": "accuracy", "question": "Which?", "config_hash": "settings", "folds": 3, "seeds": 1, "sources": {}}
ROW = row("MADELON", "fedsdg", selected=3, ratio=0.1, columns=[1, 2], curve=[{"step": 1, "open": 3, "score": None}])
NONSENSE = (
    None,
    True,
    -1,
    1e308,
    10**400,
    float("nan"),
    float("inf"),
    "x",
    "a|b",
    "a\nb",
    "\x1b[2J",
    [],
    {},
    [[1]],
    [None],
)
BROKEN = (b"{", b"[1]", b"null", b"\xff\xfe\x00", b"[" * 100_000, b"1" * 6000, b'"\\ud800"')


def folder_of(place: Path, about: object = ABOUT, *rows: object) -> ResultsFolder:
    place.mkdir(exist_ok=True)
    (place / "experiment.json").write_text(json.dumps(about))
    (place / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    return ResultsFolder(place)


def printed(place: Path) -> str:
    """Return the table of an experiment; every error but ours is one of the program."""
    outcome = CliRunner().invoke(app, ["experiment", "table", str(place), "--markdown"])
    if outcome.exception is None:
        return outcome.output
    assert isinstance(outcome.exception, FedSDGError), repr(outcome.exception)
    assert str(place) in str(outcome.exception) or "there is no experiment" in str(outcome.exception)
    return ""


@pytest.mark.parametrize("field", [*ABOUT, *ROW])
def test_no_field_can_break_the_table(field, tmp_path):
    for value in NONSENSE:
        about = ABOUT | ({field: value} if field in ABOUT else {})
        folder_of(tmp_path, about, ROW | ({field: value} if field in ROW else {}))
        assert "\x1b" not in printed(tmp_path)
    about, answer = ({key: value for key, value in whole.items() if key != field} for whole in (ABOUT, ROW))
    folder_of(tmp_path, about, answer)
    printed(tmp_path)


@pytest.mark.parametrize("content", BROKEN)
def test_files_that_are_none_of_ours_are_refused(content, tmp_path):
    folder = folder_of(tmp_path, ABOUT, ROW)
    (tmp_path / "results.jsonl").write_bytes(json.dumps(ROW).encode() + b"\n" + content + b"\n")
    with pytest.raises(DataError, match=r"results\.jsonl: line 2 is not a row of results .*; repair or remove it"):
        folder.rows()
    (tmp_path / "experiment.json").write_bytes(content)
    with pytest.raises(StateFileError, match=r"experiment\.json is damaged .*; put back a copy"):
        folder.description()
    assert printed(tmp_path) == ""


@pytest.mark.parametrize("change", [{"fold": -1}, {"fold": True}, {"accuracy": 2}, {"columns": [0.5]}, {"curve": [{}]}])
def test_an_experiment_goes_on_from_no_row_that_cannot_be(change, tmp_path):
    folder_of(tmp_path, ABOUT, ROW, ROW | change)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(DataError, match="line 2"):
        run(Grid("accuracy", ("MADELON",)), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_error_tells_the_field_and_never_its_value(tmp_path):
    with pytest.raises(DataError, match="accuracy: Input should be a valid number") as refusal:
        folder_of(tmp_path, ABOUT, ROW | {"accuracy": "the secret"}).rows()
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("name", ["experiment.json", "results.jsonl", "failures.jsonl"])
def test_a_folder_in_place_of_a_file_is_told(name, tmp_path):
    folder = folder_of(tmp_path, ABOUT, ROW)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(StateFileError, match=f"{name}: Is a directory"):
        (folder.description(), folder.rows(), folder.failures())


def test_a_cut_off_line_of_results_and_of_failures_is_left_out(tmp_path):
    folder = folder_of(tmp_path, ABOUT, ROW)
    for name in ("results.jsonl", FAILURES):
        with (tmp_path / name).open("a") as file:
            file.write(json.dumps(ROW | {"fold": 1}) + "\n" + json.dumps(ROW | {"fold": 2})[:-9])
    assert [each["fold"] for each in folder.rows()] == [0, 1]
    assert folder.failures() == {("MADELON", "fedsdg", 1, 0)}


def test_a_line_ends_with_a_line_feed_and_nothing_else(tmp_path):
    folder = folder_of(tmp_path)
    folder.append(ROW | {"note": "one\u2028line"})
    assert folder.rows()[0]["note"] == "one\u2028line"


def test_what_cannot_be_written_is_told_in_a_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFileError, match="Cannot write"):
        ResultsFolder(tmp_path / "file" / "e").prepare(ABOUT)
    with pytest.raises(ConfigError, match="is a file"):
        ResultsFolder(tmp_path / "file").prepare(ABOUT)
    folder = folder_of(tmp_path / "e", ABOUT, ROW)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateFileError, match="No space left"):
        folder.append(ROW)
    monkeypatch.setattr(os, "replace", full)
    before = (tmp_path / "e" / "experiment.json").read_bytes()
    with pytest.raises(StateFileError, match="No space left"):
        folder.prepare(ABOUT)
    assert (tmp_path / "e" / "experiment.json").read_bytes() == before

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
from fedsdg.experiments.recorded import read_recorded, told_if_unusable
from fedsdg.experiments.results import FAILURES, ResultsFolder
from fedsdg.experiments.runner import Grid, run

ABOUT = {"name": "accuracy", "question": "Which?", "config_hash": "settings", "folds": 3, "seeds": 1, "sources": {}}
ABOUT |= {"datasets": ["MADELON"]}
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


def prepare(folder, about):
    with folder.prepared(about):
        pass


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
    assert str(place) in str(outcome.exception)
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


@pytest.mark.parametrize(
    "change",
    [
        *({"datasets": value} for value in (5, [[1]], "MADELON", {"a": 1}, [None], [""], ["a|b"])),
        *({"seeds": value} for value in ("x", -3, None, 1e9)),
        *({"sources": value} for value in ([1], {"a": 1})),
        {"folds": 0},
    ],
)
def test_an_experiment_goes_on_from_no_description_that_cannot_be(change, tmp_path):
    folder = folder_of(tmp_path, ABOUT | change, ROW)
    (tmp_path / "results.jsonl").write_bytes(b"{half a row")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StateFileError, match=rf"experiment\.json is damaged \({next(iter(change))}.*; put back a copy"):
        prepare(folder, ABOUT)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert printed(tmp_path) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"method": "mine"}, "1 of 2 rows have a method that the experiment 'accuracy' does not have: .* own"),
        ({"fold": 1, "config_hash": "others"}, "1 of 2 rows were made with different training settings .* of its own"),
        ({"fold": 3}, r"1 of 2 rows are of a fold that does not exist .*3 folds.*; repair or remove"),
        ({"fold": 1, "accuracy": None, "r2": 0.5}, "2 of 2 rows .* both accuracy and r2.*; repair or remove"),
        ({"fold": 1, "r2": 0.5}, "2 of 2 rows .* both accuracy and r2.*; repair or remove"),
    ],
)
def test_rows_that_do_not_belong_together_become_no_table(change, reason, tmp_path):
    folder_of(tmp_path, ABOUT, ROW, ROW | change)
    with pytest.raises(DataError, match=rf"results\.jsonl: {reason}"):
        read_recorded(tmp_path)
    assert printed(tmp_path) == ""


def test_a_few_strange_methods_are_told_by_name(tmp_path):
    strange = [ROW | {"method": name, "fold": fold} for name in ("one", "two", "z" * 99, "four") for fold in range(2)]
    folder_of(tmp_path, ABOUT, ROW, *strange)
    with pytest.raises(DataError, match=rf"8 of 9 rows .*\('one', 'two', '{'z' * 39}…' and 1 more\); take them out"):
        read_recorded(tmp_path)


@pytest.mark.parametrize("problem", [KeyError, TypeError, ZeroDivisionError])
def test_a_table_that_cannot_be_made_is_told_with_the_file_and_what_to_do(problem, tmp_path):
    told = pytest.raises(DataError, match=r"results\.jsonl: a field .* missing or wrong .*; repair or remove")
    with told, told_if_unusable(tmp_path):
        raise problem


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


@pytest.mark.parametrize("name", ["results.jsonl", FAILURES])
def test_what_is_appended_starts_a_line_and_no_whole_row_is_lost(name, tmp_path):
    folder, rows = folder_of(tmp_path, ABOUT), [json.dumps(ROW | {"fold": fold}) for fold in range(2)]
    for end, kept in (("", 2), (" \t", 2), ("\n" + rows[1][:-9], 2), ("\n{", 2)):
        (tmp_path / name).write_text("\n".join(rows) + end)
        assert len(folder.rows() or folder.failures()) == kept
        prepare(folder, ABOUT)
        (folder.append if name == "results.jsonl" else folder.note_failure)(ROW | {"fold": 2})
        assert len(folder.rows() or folder.failures()) == kept + 1


@pytest.mark.parametrize("name", ["experiment.json", "results.jsonl", FAILURES])
@pytest.mark.parametrize("target", ["nowhere", "itself", "."])
def test_a_link_that_leads_to_no_file_is_told_before_anything_is_written(name, target, tmp_path):
    folder = folder_of(tmp_path, ABOUT, ROW)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(name if target == "itself" else target)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name not in (name, ".lock")}
    with pytest.raises(StateFileError, match=f"Cannot read .*{name}: "):
        prepare(folder, ABOUT | {"seeds": 5})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name not in (name, ".lock")} == before


def test_a_line_ends_with_a_line_feed_and_nothing_else(tmp_path):
    folder = folder_of(tmp_path)
    folder.append(ROW | {"note": "one\u2028line"})
    assert folder.rows()[0]["note"] == "one\u2028line"


def test_what_cannot_be_written_is_told_in_a_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFileError, match=r"Cannot write .*: Not a directory\.$"):  # and no word of rows
        prepare(ResultsFolder(tmp_path / "file" / "e"), ABOUT)
    with pytest.raises(ConfigError, match="is a file"):
        prepare(ResultsFolder(tmp_path / "file"), ABOUT)
    with pytest.raises(StateFileError, match="File name too long"):
        prepare(ResultsFolder(tmp_path / ("n" * 400)), ABOUT)
    with pytest.raises(ConfigError, match=r"there is no folder .*; `fedsdg experiment run` makes one"):
        ResultsFolder(tmp_path / ("n" * 400)).description()
    folder = folder_of(tmp_path / "e", ABOUT, ROW)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateFileError, match=r"No space left.*Rows that were written before are still there"):
        folder.append(ROW)
    monkeypatch.setattr(os, "replace", full)
    before = (tmp_path / "e" / "experiment.json").read_bytes()
    with pytest.raises(StateFileError, match="No space left"):
        prepare(folder, ABOUT)
    assert (tmp_path / "e" / "experiment.json").read_bytes() == before
    with pytest.raises(StateFileError, match=r"No space left on device\.$"):
        prepare(ResultsFolder(tmp_path / "new"), ABOUT)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [
        ".lock"
    ]  # which is free: so the same command can try again


@pytest.mark.parametrize("asked", ["--folds 1", "--folds 1001", "--folds x", "--seeds 0", f"--seeds {10**12}"])
def test_an_option_out_of_its_range_is_refused_and_nothing_is_written(asked, tmp_path):
    command = ["experiment", "run", "accuracy", "--out", str(tmp_path / "new"), "--methods", "nope", *asked.split()]
    outcome = CliRunner().invoke(app, command)
    assert outcome.exit_code == 2
    assert asked.split()[0] in outcome.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "asked",
    [
        "list nope",
        "run nope",
        "run accuracy --methods nope",
        "run accuracy --datasets nope",
        "run accuracy --preset nope",
        "run accuracy --datasets WINE --preset ",
        "run accuracy --methods fedsdg@0.15 --datasets MADELON",
    ],
)
def test_what_does_not_exist_is_refused_and_nothing_is_written(asked, tmp_path):
    place = ["--out", str(tmp_path / "new")] if asked.startswith("run") else []
    outcome = CliRunner().invoke(app, ["experiment", *asked.split(" "), *place])
    assert isinstance(outcome.exception, ConfigError)
    assert list(tmp_path.iterdir()) == []

"""`fedsdg report` on the command line: files that appear whole, and clear words about what cannot be reported."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from xml.etree import ElementTree

import pytest
from report_helpers import make_experiment
from typer.testing import CliRunner

from fedsdg.cli.app import app
from fedsdg.errors import ConfigError, FedSDGError, StateFileError
from fedsdg.report.build import write_report


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_command_writes_a_page_and_markdown_that_only_their_owner_can_read(masked, tmp_path):
    page, notes = tmp_path / "page.html", tmp_path / "page.md"
    outcome = report(masked[0], "--html", page, "--markdown", notes)
    assert outcome.exit_code == 0, outcome.output
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert notes.read_text(encoding="utf-8").startswith("# Run secure")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (page, notes)} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "page.md"]


def test_every_plot_can_be_a_file_of_its_own_that_the_markdown_shows(tmp_path):
    folder = make_experiment(tmp_path / "e", "accuracy")
    outcome = report(folder, "--markdown", tmp_path / "page.md", "--figures", tmp_path / "some where")
    assert outcome.exit_code == 0, outcome.output
    pictures = sorted(tmp_path.glob("some where/*.svg"))
    assert len(pictures) == 5  # all data sets together, and two of each
    for picture in pictures:
        drawing = ElementTree.parse(picture).getroot()
        assert any("prefers-color-scheme:dark" in (element.text or "") for element in drawing)
        assert f"](some%20where/{picture.name})" in (tmp_path / "page.md").read_text()


def test_a_report_takes_runs_and_experiments_together(masked, tmp_path):
    folder = make_experiment(tmp_path / "e", "accuracy")
    assert report(masked[0], folder, "--html", tmp_path / "x.html").exit_code == 0
    assert "Run secure" in (tmp_path / "x.html").read_text()


def test_a_report_changes_nothing_in_the_run(masked, tmp_path):
    before = {path: path.read_bytes() for path in masked[0].rglob("*") if path.is_file()}
    write_report([masked[0]], tmp_path / "x.html")
    assert {path: path.read_bytes() for path in masked[0].rglob("*") if path.is_file()} == before


def test_without_a_file_to_write_nothing_is_read(tmp_path):
    with pytest.raises(ConfigError, match="--html FILE"):
        write_report([tmp_path / "nowhere"])


def test_places_that_cannot_be_written_are_told_first(masked, tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        write_report([tmp_path / "nowhere"], tmp_path)
    with pytest.raises(ConfigError, match="There is no folder"):
        write_report([tmp_path / "nowhere"], tmp_path / "a" / "b.html")
    with pytest.raises(ConfigError, match="same file"):
        write_report([masked[0]], tmp_path / "x", tmp_path / "." / "x")


@pytest.mark.parametrize("option", ["--html", "--markdown"])
@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe"])
def test_a_report_never_takes_the_place_of_a_link_a_device_or_a_pipe(option, kind, masked, tmp_path):
    place, letter = tmp_path / "page", tmp_path / "letter"
    letter.write_text("mine")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(letter if kind == "link" else tmp_path / "nothing")
    before = place.lstat()
    outcome = report(masked[0], option, place)
    assert isinstance(outcome.exception, ConfigError)
    assert f"{place} is there and is no regular file (a link, a device, a pipe); name another file." in str(
        outcome.exception
    )
    assert (place.lstat().st_ino, place.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert letter.read_text() == "mine"


def test_a_plot_never_takes_the_place_of_a_link(tmp_path):
    folder, plots = make_experiment(tmp_path / "e", "accuracy"), tmp_path / "plots"
    write_report([folder], figures=plots)
    picture = sorted(plots.iterdir())[2]
    picture.rename(tmp_path / "mine.svg")
    picture.symlink_to(tmp_path / "mine.svg")
    before = {path: path.lstat().st_mtime_ns for path in (*plots.iterdir(), tmp_path / "mine.svg")}
    with pytest.raises(ConfigError, match=f"{picture} is there and is no regular file"):
        write_report([folder], tmp_path / "page.html", figures=plots)
    assert {path: path.lstat().st_mtime_ns for path in before} == before
    assert not (tmp_path / "page.html").exists()


def test_a_full_disk_leaves_the_old_report_as_it_was(masked, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("the old one")

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateFileError, match="No space left"):
        write_report([masked[0]], page)
    assert page.read_text() == "the old one"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def refused(folder, reason, tmp_path):
    with pytest.raises(FedSDGError, match=reason):
        write_report([folder], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_folders_that_hold_nothing_to_report_are_refused(masked, tmp_path):
    refused(tmp_path / "nowhere", "There is no folder", tmp_path)
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "is a file", tmp_path)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "neither a finished run", tmp_path)


def test_a_run_that_is_not_finished_is_refused_with_the_way_to_finish_it(masked, tmp_path):
    shutil.copytree(masked[0], tmp_path / "half.partial")
    (tmp_path / "half.partial" / "selection.json").unlink()
    for name in ("half", "half.partial"):
        refused(tmp_path / name, r"fedsdg resume .*half\)", tmp_path)
    for path in (tmp_path / "half.partial" / "server").iterdir():
        if path.name != "private_seed":
            path.unlink()
    refused(tmp_path / "half.partial" / "server", "not finished", tmp_path)


FILES = ("selection.json", "settings.json", "metrics.jsonl", "server/model.json", "clients/left/gate_path.safetensors")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("content", [b"{", b"[1]", b"3", b"\xff\xfe"])
def test_a_run_with_a_damaged_file_is_refused(file, content, masked, tmp_path):
    shutil.copytree(masked[0], tmp_path / "run")
    (tmp_path / "run" / file).write_bytes(content)
    with pytest.raises(FedSDGError, match=str(tmp_path / "run")):
        write_report([tmp_path / "run"], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("file", ["model.json", "selection.json", "gate_path.safetensors"])
def test_a_damaged_file_of_a_client_is_refused(file, masked, tmp_path):
    shutil.copytree(masked[0] / "clients" / "left", tmp_path / "left")
    (tmp_path / "left" / file).write_bytes(b'{"format": 1}')
    refused(tmp_path / "left", "left", tmp_path)


def test_a_gate_path_of_another_run_is_refused(masked, tmp_path):
    shutil.copytree(masked[0] / "clients" / "left", tmp_path / "left")
    shutil.copy(masked[0] / "clients" / "right" / "gate_path.safetensors", tmp_path / "left")
    refused(tmp_path / "left", "does not fit its selection", tmp_path)

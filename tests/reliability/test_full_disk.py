"""A disk that fills up while a run writes: one clear error, the checkpoints from before stay, resume goes on."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest
from reliability_helpers import (
    SEEDS,
    Crash,
    assert_same,
    crash_after_step,
    data,
    run,
    settings,
    storage_in,
    uninterrupted,
)

import fedsdg
from fedsdg import state_files
from fedsdg.api import run_tables
from fedsdg.cli import one_line
from fedsdg.errors import FedSDGError
from fedsdg.server import step_record


def full_disk(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Let every file whose path matches take half of what is written to it, and no more."""
    original = os.fsync

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if re.search(what, path) and os.path.isfile(path):
            os.truncate(path, os.path.getsize(path) // 2)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    monkeypatch.setattr(state_files.os, "fsync", fsync)


@pytest.mark.parametrize("party", ["left", "right", "server"])
@pytest.mark.parametrize("profile", ["plain", "masked"])
def test_a_full_disk_at_one_party_stops_the_run_and_resume_goes_on(profile, party, tmp_path, monkeypatch):
    storage, of_run = storage_in(tmp_path), settings(profile)
    with monkeypatch.context() as patch:
        full_disk(patch, rf"{party}/checkpoints/\.checkpoint-000004")
        with pytest.raises(FedSDGError) as problem:
            run(of_run, storage=storage)
    assert re.search(
        r"Cannot write .*checkpoint-000004\.state: No space left on device\. Nothing that was written before is lost",
        one_line(problem.value),
    )
    folders = {"server": storage.server, **storage.clients}
    for name, folder in folders.items():
        assert state_files.Checkpoints(folder / "checkpoints").numbers()[0] == 2, name
    assert not list(tmp_path.rglob("*.writing"))
    simulation = run(of_run, storage=storage, resume=True)
    assert_same(simulation, uninterrupted(of_run))


def seen_steps(out: Path) -> list[tuple[str, int]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(line["phase"], line["step"]) for line in lines]


ALL_STEPS = [("gated", n) for n in (1, 2, 3, 4)] + [("compact", n) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "what",
    [
        "checkpoint-000004",
        "clients/left/.*selection.json",
        "clients/right/.*model.safetensors",
        "clients/right/.*model.json",
        "server/.*weights.state",
        "server/.*model.json",
        r"run\.partial/\.selection.json",
    ],
)
def test_a_run_whose_disk_is_full_at_the_end_is_finished_by_resume(what, tmp_path, monkeypatch):
    of_run = settings("plain")
    with monkeypatch.context() as patch:
        full_disk(patch, what)
        with pytest.raises(FedSDGError, match="No space left on device"):
            run_tables(data(), of_run, out=tmp_path / "run", private_seeds=SEEDS)
    assert [path.name for path in tmp_path.iterdir()] == ["run.partial"]
    result = fedsdg.resume(tmp_path / "run", data=data())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert seen_steps(tmp_path / "run") == ALL_STEPS
    assert {name: tuple(found) for name, found in result.selected.items()} == uninterrupted(of_run)["selected"]
    assert not [path for path in (tmp_path / "run").rglob("*") if "checkpoint" in path.name or path.name[0] == "."]


def test_a_full_disk_before_the_first_checkpoint_leaves_nothing_behind(tmp_path, monkeypatch):
    full_disk(monkeypatch, "checkpoint-000002")
    with pytest.raises(FedSDGError, match="No space left on device"):
        run_tables(data(), settings("plain"), out=tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_metrics_are_written_is_one_clear_error_and_resume_goes_on(tmp_path, monkeypatch):
    lines, original = [], step_record.to_json

    def to_json(content, indent=None):
        if "loss" in content:
            lines.append(content)
            if len(lines) == 4:
                with (tmp_path / "run.partial" / "metrics.jsonl").open("a") as file:
                    file.write('{"phase": "gat')
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(content, indent)

    with monkeypatch.context() as patch:
        patch.setattr(step_record, "to_json", to_json)
        with pytest.raises(FedSDGError, match=r"Cannot write to .*run\.partial: No space left on device"):
            run_tables(data(), settings("plain"), out=tmp_path / "run", private_seeds=SEEDS)
    assert (tmp_path / "run.partial" / "metrics.jsonl").read_text().endswith('{"phase": "gat')
    fedsdg.resume(tmp_path / "run", data=data())
    assert seen_steps(tmp_path / "run") == ALL_STEPS


def test_a_full_disk_while_a_run_is_resumed_keeps_everything(tmp_path, monkeypatch):
    of_run = settings("plain")
    storage = storage_in(tmp_path)
    with pytest.raises(Crash):
        run(of_run, storage=storage, watch=crash_after_step(3))
    with monkeypatch.context() as patch:
        full_disk(patch, "checkpoint-000004")
        with pytest.raises(FedSDGError, match="No space left"):
            run(of_run, storage=storage, resume=True)
    assert_same(run(of_run, storage=storage, resume=True), uninterrupted(of_run))

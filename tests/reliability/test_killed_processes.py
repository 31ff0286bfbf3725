"""Real processes that are killed, interrupted and terminated, and what `fedsdg resume` makes of what they left.

A process that writes a line per step blocks when nobody reads: so it is always in the middle of its run when it dies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
import pytest
from reliability_helpers import assert_same, run, settings, storage_at, storage_in, uninterrupted
from started_processes import Nursery

import fedsdg
from fedsdg.api import read_parties, run_tables
from fedsdg.errors import StateFileError

JOB = """
[job]
profile = "plain"
checkpoint_every = 5
[server]
name = "bank"
table = "bank.csv"
id = "id"
target = "y"
[clients.left]
table = "left.csv"
id = "id"
[clients.right]
table = "right.csv"
id = "id"
[training.gated_phase]
steps = 45
batch_size = 16
hidden = [4]
top_hidden = [4]
[training.compact_phase]
steps = 45
batch_size = 16
hidden = [4]
top_hidden = [4]
"""


@pytest.fixture
def job(tmp_path) -> Path:
    stream = np.random.default_rng(2)
    X = stream.standard_normal((70, 6))
    ids = [f"p{i}" for i in range(70)]
    pl.DataFrame({"id": ids, "y": (X[:, 0] + X[:, 4] > 0).astype(int)}).write_csv(tmp_path / "bank.csv")
    for name, columns in (("left", X[:, :3]), ("right", X[:, 3:])):
        frame = {"id": ids, **{f"c{j}": columns[:, j] for j in range(3)}}
        pl.DataFrame(frame).write_csv(tmp_path / f"{name}.csv")
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    started = Nursery()
    yield started
    started.close()


def read_steps(printed: IO[str], steps: int) -> None:
    """Let a process take at least so many steps; it cannot take many more while nobody reads."""
    seen = 0
    while seen < steps:
        line = printed.readline()
        assert line, "the process ended too early"
        seen += json.loads(line).get("loss") is not None


def finished_as_if_nothing_had_happened(run: Path, job: Path) -> None:
    """Compare with a run that was never interrupted, with the same private seeds."""
    seeds = {
        path.parent.name: bytes.fromhex(path.read_text())
        for path in (run / "server" / "private_seed", *run.glob("clients/*/private_seed"))
    }
    loaded = fedsdg.load_job(job)
    other = run.with_name("never interrupted")
    run_tables(read_parties(loaded), loaded.settings, out=other, private_seeds=seeds)
    found, expected = (json.loads((folder / "selection.json").read_text()) for folder in (run, other))
    for of_cost in ("seconds", "bytes", "messages"):
        del found[of_cost], expected[of_cost]
    assert found == expected
    models = [path.relative_to(other) for path in other.rglob("*.safetensors")]
    assert sorted(path.relative_to(run) for path in run.rglob("*.safetensors")) == sorted(models)
    for name in (*models, *(path.relative_to(other) for path in other.glob("clients/*/selection.json"))):
        assert (run / name).read_bytes() == (other / name).read_bytes(), name
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    wanted = [json.loads(line) for line in (other / "metrics.jsonl").read_text().splitlines()]
    assert [(s["phase"], s["step"], s["loss"]) for s in steps] == [(s["phase"], s["step"], s["loss"]) for s in wanted]


def test_a_run_that_was_killed_is_resumed_by_the_command_to_the_same_result(job, tmp_path, nursery):
    out = tmp_path / "run"
    with nursery.command(tmp_path, "run", job, "--out", out, "--json-lines") as (pid, printed):
        read_steps(printed, 12)
        with pytest.raises(StateFileError, match=f"Process {pid} is working in"):  # not twice at a time
            fedsdg.resume(out)
        os.kill(pid, signal.SIGKILL)
        assert nursery.wait(pid) == -signal.SIGKILL
    assert not out.exists()
    with nursery.command(tmp_path, "resume", out, "--quiet") as (pid, printed):
        assert printed.read() == ""
        assert nursery.wait(pid) == 0  # the lock of a process that is gone holds nobody up
    assert (tmp_path / "errors").read_text() == ""
    finished_as_if_nothing_had_happened(out, job)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_after_the_step_with_a_checkpoint(number, job, tmp_path, nursery):
    out, partial = tmp_path / "run", tmp_path / "run.partial"
    with nursery.command(tmp_path, "run", job, "--out", out, "--json-lines") as (pid, printed):
        read_steps(printed, 7)
        os.kill(pid, number)
        printed.read()
        assert nursery.wait(pid) == 130
    last = json.loads((partial / "metrics.jsonl").read_text().splitlines()[-1])
    assert (tmp_path / "errors").read_text().splitlines() == [
        "stopping after this step (again: at once) ...",
        f"fedsdg: The run was stopped after step {last['step']}. It goes on with: fedsdg resume {out}",
    ]
    written = sorted(path.name for path in (partial / "server" / "checkpoints").glob("*.state"))
    assert written[-1] == f"checkpoint-{last['step']:06d}.state"  # nothing is lost
    fedsdg.resume(out)
    finished_as_if_nothing_had_happened(out, job)


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again_with_the_same_seeds(job, tmp_path):
    """What lies on the disk after the first step is what a kill would leave then."""
    first = tmp_path / "first" / "run.partial"

    def look(update) -> None:
        if not first.exists():
            shutil.copytree(tmp_path / "run.partial", first)

    fedsdg.run(job, tmp_path / "run", look)
    seeds = {path.relative_to(first): path.read_text() for path in first.rglob("private_seed")}
    assert len(seeds) == 3
    assert not list(first.rglob("*.state"))
    out = tmp_path / "first" / "run"
    fedsdg.resume(out)
    assert {path: (out / path).read_text() for path in seeds} == seeds
    finished_as_if_nothing_had_happened(out, job)


def test_a_process_that_is_killed_inside_a_checkpoint_loses_the_steps_since_the_one_before(tmp_path, nursery):
    """At moments of a write: before the data, the rename or the folder reached the disk, and after."""
    moments = [("plain", call, "before") for call in (2, 10, 11, 14, 17)]
    moments += [("plain", 11, "after"), ("plain", 17, "after"), ("masked", 14, "before"), ("masked", 17, "before")]
    for profile, call, moment in moments:
        folder = tmp_path / f"{profile}-{call}-{moment}"
        pid = nursery.ask(profile=profile, call=call, moment=moment, folder=str(folder))
        assert nursery.wait(pid) == -signal.SIGKILL
        simulation = run(settings(profile), storage=storage_at(folder), resume=True)
        assert_same(simulation, uninterrupted(settings(profile)))


def test_the_moments_above_are_inside_checkpoints(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *a: (calls.append(os.readlink(f"/proc/self/fd/{a[0]}")), fsync(*a)))
    monkeypatch.setattr(os, "replace", lambda *a: (calls.append(str(a[1])), replace(*a)))
    run(settings("plain"), storage=storage_in(tmp_path))
    inside = [number for number, path in enumerate(calls, 1) if "checkpoints" in path]
    assert set(range(1, 20)) <= set(inside)
    assert "server" in calls[6]  # clients first, the server last

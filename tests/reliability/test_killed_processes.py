"""Real processes that are killed, interrupted and terminated, and what `fedsdg resume` makes of what they left.

A process that writes a line per step blocks when nobody reads: so it is always in the middle of its run when it dies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reliability_helpers import assert_same, run, settings, storage_in, uninterrupted

import fedsdg
from fedsdg.api import read_parties, run_tables
from fedsdg.errors import StateFileError
from fedsdg.simulation import Storage

FEDSDG = [sys.executable, "-c", "from fedsdg.cli import main; main()"]
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
steps = 30
batch_size = 16
hidden = [4]
top_hidden = [4]
[training.compact_phase]
steps = 30
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


@contextmanager
def running(*arguments: object, steps: int) -> Iterator[subprocess.Popen[str]]:
    """A `fedsdg` process that has taken at least so many steps and cannot take many more."""
    command = [*FEDSDG, *(str(argument) for argument in arguments), "--json-lines"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pipesize=4096, bufsize=1, env=environment
    ) as process:
        try:
            seen = 0
            while seen < steps:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                seen += json.loads(line).get("loss") is not None
            yield process
        finally:
            process.kill()


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


def test_a_run_that_was_killed_is_resumed_by_the_command_to_the_same_result(job, tmp_path):
    out = tmp_path / "run"
    with running("run", job, "--out", out, steps=12) as process:
        with pytest.raises(StateFileError, match=f"Process {process.pid} is working in"):  # not twice at a time
            fedsdg.resume(out)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    again = subprocess.run(  # the lock of a process that is gone holds nobody up
        [*FEDSDG, "resume", str(out), "--quiet"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (again.returncode, again.stderr) == (0, "")
    finished_as_if_nothing_had_happened(out, job)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_after_the_step_with_a_checkpoint(number, job, tmp_path):
    out = tmp_path / "run"
    with running("run", job, "--out", out, steps=7) as process:
        os.kill(process.pid, number)
        _, error = process.communicate()
        assert process.returncode == 130
    last = json.loads((tmp_path / "run.partial" / "metrics.jsonl").read_text().splitlines()[-1])
    assert f"The run was stopped after step {last['step']}. It goes on with: fedsdg resume {out}" in error
    assert error.count("\n") == 2  # that it stops, and that it has
    written = sorted(path.name for path in (tmp_path / "run.partial" / "server" / "checkpoints").glob("*.state"))
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


KILLED = """
import os, signal, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from reliability_helpers import run, settings, storage_in
from fedsdg import state_files

fsync, replace = os.fsync, os.replace

def killed_at(number, when):
    calls = []
    def counted(original):
        def call(*arguments):
            calls.append(original)
            if len(calls) == number and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments)
            if len(calls) == number and when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call
    os.fsync, os.replace = counted(fsync), counted(replace)

for argument in sys.argv[2:]:
    profile, number, when, folder = argument.split(":", 3)
    if os.fork() == 0:
        killed_at(int(number), when)
        run(settings(profile), storage=storage_in(Path(folder)))
        os._exit(7)
    print(os.WTERMSIG(os.wait()[1]))
"""


def test_a_process_that_is_killed_inside_a_checkpoint_loses_the_steps_since_the_one_before(tmp_path):
    """At every moment of a write: before and after the data, the rename and the folder reached the disk."""
    moments = [("plain", number, "before") for number in (2, 11, 14, 17)]
    moments += [("plain", 17, "after"), ("masked", 14, "before"), ("masked", 17, "before")]
    folders = {moment: tmp_path / "-".join(map(str, moment)) for moment in moments}
    arguments = [f"{profile}:{number}:{when}:{folders[profile, number, when]}" for profile, number, when in moments]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(Path(__file__).parent), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "FEDSDG_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert killed.stdout.split() == ["9"] * len(moments), killed.stderr
    for moment, folder in folders.items():
        storage = Storage(folder / "server", {name: folder / "clients" / name for name in ("left", "right")})
        assert_same(run(settings(moment[0]), storage=storage, resume=True), uninterrupted(settings(moment[0])))


def test_the_moments_above_are_inside_checkpoints(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *a: (calls.append(os.readlink(f"/proc/self/fd/{a[0]}")), fsync(*a)))
    monkeypatch.setattr(os, "replace", lambda *a: (calls.append(str(a[1])), replace(*a)))
    run(settings("plain"), storage=storage_in(tmp_path))
    inside = [number for number, path in enumerate(calls, 1) if "checkpoints" in path]
    assert set(range(1, 20)) <= set(inside)
    assert "server" in calls[6]  # clients first, the server last

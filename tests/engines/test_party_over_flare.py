"""The two-terminal quickstart of docs/operators.md as it is printed, on NVIDIA FLARE with mutual TLS; and a bad day.

The sites are the processes that the printed commands start. While they train, one of them is suspended for a while and
comes back, then dies; its run is resumed. Then its model scores new rows while a second run trains, which is watched
and stopped. One deployment serves all of it: FLARE takes its time.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")

import polars as pl
import psutil
from click.testing import Result
from predictions import ASKED, scored_in_one_process, want_scores
from sites import environment, free_port, wait_until
from typer.testing import CliRunner

from fedsdg.cli.app import app
from fedsdg.errors import PeerError
from fedsdg.job import load_job
from fedsdg.party import Party, load_party, lock_run
from fedsdg.runtime.processes import own_path, start, stop
from fedsdg.simulation import Simulation
from fedsdg.state_files import FolderLock
from plain_twins import learned_the_same, plain_twin

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
OWNER, STAYING, LEAVING = "bank", "phone_company", "web_shop"
SILENCE = 12
#: What the test changes in the job that `fedsdg init` wrote: it would take minutes.
SMALLER = """
[training.gated_phase]
steps = 30
batch_size = 32

[training.compact_phase]
steps = 20
batch_size = 32
"""


def printed_commands() -> tuple[list[str], list[str]]:
    """Return what the page says for the first terminal and for the second."""
    section = PAGE.read_text().split("## NVIDIA FLARE")[1].split("\n## ")[0]
    first, second = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return first.splitlines(), second.splitlines()


@dataclass
class Quickstart:
    """A folder in which the printed commands are run."""

    folder: Path
    sites: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    dead: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def settings(self) -> dict[str, str]:
        """As in a terminal: nothing but this package, and nothing that other engine tests say about their sites."""
        useful = environment(self.folder)
        return {"PATH": own_path(), **{name: useful[name] for name in useful if not name.startswith("FEDSDG_")}}

    def begin(self) -> None:
        """Stop and leave what a first try began, if it came too late: the page is followed in an empty folder."""
        if any(self.folder.iterdir()):
            stop(*self.sites.values(), *self.dead)
            self.sites, self.dead = {}, []
            self.folder = self.folder.with_name(f"{self.folder.name}-again")
            self.folder.mkdir()

    def run(self, command: str, fails: bool = False) -> Result:
        """Run a command in this process, which has imported everything already."""
        with chdir(self.folder):
            return CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=fails)

    def start_site(self, command: str) -> None:
        words = shlex.split(command.removesuffix("&"))
        name = Path(words[-1]).stem
        if name in self.sites:
            self.dead.append(self.sites[name])
        self.sites[name] = start(words, self.folder, self.log(name), self.settings())

    def submit(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            shlex.split(command),
            cwd=self.folder,
            env={**os.environ, **self.settings()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def be_patient(self) -> None:
        """Nobody is to be given up any more, however busy this machine is."""
        path = self.folder / "project" / "job" / "server" / "config" / "fedsdg.json"
        brought = json.loads(path.read_text())
        path.write_text(json.dumps({**brought, "patience": {**brought["patience"], "silence": 90}}))

    def long_job(self) -> Path:
        """The same job with so many steps that it does not end by itself before it is stopped."""
        copy = Path(shutil.copytree(self.folder / "project" / "job", self.folder / "project" / "long-job"))
        path = copy / "server" / "config" / "fedsdg.json"
        brought = json.loads(path.read_text())
        brought["settings"]["settings"]["training"]["gated_phase"]["steps"] = 1000
        path.write_text(json.dumps(brought))
        return copy.relative_to(self.folder)

    def parties(self) -> dict[str, Party]:
        return {name: load_party(self.folder / "project" / "parties" / f"{name}.toml") for name in self.sites}

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str, text: str) -> int:
        return self.log(name).read_text().count(text)

    def state(self, name: str, run: str = "first") -> Path:
        return self.folder / "project" / "parties" / f"state_{name}" / "runs" / run

    def processes(self, name: str) -> list[psutil.Process]:
        site = psutil.Process(self.sites[name].pid)
        return [*site.children(recursive=True), site]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quickstart]:
    found = Quickstart(tmp_path_factory.mktemp("quickstart"))
    try:
        yield found
    finally:
        stop(*found.sites.values(), *found.dead)


@dataclass(frozen=True)
class BadDay:
    """What the first submission and the one that resumed it had to say."""

    first: tuple[int, str, str]
    resumed: tuple[int, str, str]


@pytest.fixture(scope="module")
def bad_day(quickstart: Quickstart) -> BadDay:
    quickstart.begin()
    first, second = printed_commands()
    for command in first:
        if command.endswith("&"):
            quickstart.start_site(command)
        elif command.startswith("fedsdg deploy"):
            make_smaller(quickstart.folder / "demo-job")
            made = quickstart.run(f"{command} --port {free_port()} --wait-silence {SILENCE}")
            assert made.exit_code == 0, made.output
            assert all(command.removesuffix(" &") in made.output for command in [*first[2:], *second])
        else:
            quickstart.run(command)
    (submit,) = second
    submitted = quickstart.submit(submit)

    @contextmanager
    def waiting_for(text: str) -> Iterator[None]:
        """Do something, and wait until the label owner's log says this once more."""
        before = quickstart.said(OWNER, text)
        yield
        wait_until(lambda: quickstart.said(OWNER, text) > before or submitted.poll() is not None, 240, text)
        assert submitted.poll() is None, submitted.communicate()

    with waiting_for("wrote checkpoint"):
        pass
    with waiting_for(f"client {LEAVING!r} cannot be reached: the run waits for it"):
        for process in quickstart.processes(LEAVING):
            process.suspend()
    with waiting_for("wrote checkpoint"), waiting_for(f"client {LEAVING!r} is back: the run goes on"):
        for process in quickstart.processes(LEAVING):
            process.resume()
    for process in quickstart.processes(LEAVING):
        process.send_signal(signal.SIGKILL)  # no goodbye: as if the machine had lost its power
    # It is back at once; but FLARE does not start a running job again at a site that returns.
    quickstart.start_site(next(command for command in first if f"{LEAVING}.toml" in command))
    out, err = submitted.communicate(timeout=300)
    quickstart.be_patient()
    again = quickstart.run(f"{submit} --kind resume")
    return BadDay((submitted.returncode, out, err), (again.exit_code, again.stdout, again.stderr))


def make_smaller(job: Path) -> None:
    text = (job / "job.toml").read_text().replace("# checkpoint_every = 25", "checkpoint_every = 5")
    (job / "job.toml").write_text(text + SMALLER)
    for table in job.glob("*.csv"):
        table.write_text("".join(table.read_text().splitlines(keepends=True)[:301]))


def twin_of(quickstart: Quickstart) -> Simulation:
    """The same job in one process, in the clear and in one go, from the seeds that the parties drew."""
    settings = load_job(quickstart.folder / "demo-job" / "job.toml").settings.model_dump(mode="json")
    return plain_twin(quickstart.parties(), OWNER, quickstart.state(OWNER).name, settings)


@dataclass(frozen=True)
class Afternoon:
    """What the commands said while the first run's model was used, and a second run was stopped."""

    stopped: Result
    predicted: Result
    watched: Result


@pytest.fixture(scope="module")
def afternoon(bad_day: BadDay, quickstart: Quickstart) -> Afternoon:
    """Both jobs run at the same time: FLARE takes long to start one."""
    assert bad_day.resumed[0] == 0, bad_day.resumed
    admin, job = shlex.split(printed_commands()[1][0])[-2:]
    parties = quickstart.folder / "project" / "parties"
    want_scores(parties / f"{OWNER}.toml", quickstart.folder / "demo-job" / f"{OWNER}.csv")
    second = quickstart.run(f"fedsdg site submit {admin} {quickstart.long_job()} --run second --no-wait")
    third = quickstart.run(f"fedsdg site submit {admin} {job} --kind predict --no-wait")
    places = [quickstart.state(name, "second") / "checkpoints" for name in quickstart.sites]
    wait_until(lambda: all([*place.glob("checkpoint-*")] for place in places), 240, "everybody's checkpoint")
    stopped = quickstart.run(f"fedsdg site stop {admin} {second.stdout}")
    seen = [quickstart.run(f"fedsdg site watch {admin} {ended.stdout}", fails=True) for ended in (third, second)]
    return Afternoon(stopped, *seen)


def test_the_printed_commands_run_and_a_client_that_comes_back_in_time_is_waited_for(bad_day: BadDay, quickstart):
    assert "status: RUNNING" in bad_day.first[2]
    assert quickstart.said(OWNER, f"client {LEAVING!r} is back: the run goes on") >= 1
    assert quickstart.said(OWNER, "wrote checkpoint") > 2


def test_a_client_that_dies_ends_the_run_with_a_clear_reason_for_everybody(bad_day: BadDay, quickstart):
    code, out, err = bad_day.first
    reason = f"client {LEAVING!r} has given no sign of life for {SILENCE} seconds"
    assert (code != 0, out) == (True, "")
    assert reason in err
    assert "--kind resume" in err
    assert "Traceback" not in err
    assert quickstart.said(OWNER, reason)
    wait_until(lambda: quickstart.said(STAYING, f"the server ended the run: {reason}"), what="the other client's log")


def test_the_resumed_run_ends_with_the_bits_of_one_that_was_never_interrupted(bad_day: BadDay, quickstart):
    code, out, err = bad_day.resumed
    assert code == 0, err
    assert quickstart.said(OWNER, "going on from checkpoint")
    for name in (STAYING, LEAVING):
        assert quickstart.said(name, f"client {name} goes back to checkpoint")
    assert learned_the_same(json.loads(out), twin_of(quickstart))


def test_nothing_of_a_client_lies_at_the_engine_or_with_whoever_submitted(bad_day: BadDay, quickstart):
    """Neither ids nor names of columns nor seeds: not in the server's kit with its jobs and logs, nor in an output."""
    kit = quickstart.folder / "project" / "kits" / "fedsdg" / "prod_00" / "localhost"
    seen = b"\n".join(path.read_bytes() for path in (*kit.rglob("*"), quickstart.log(OWNER)) if path.is_file())
    seen += "".join((*bad_day.first[1:], *bad_day.resumed[1:])).encode()
    secrets = [(quickstart.state(name) / "private_seed").read_text().strip() for name in quickstart.sites]
    for name in (STAYING, LEAVING):
        table = pl.read_csv(quickstart.folder / "demo-job" / f"{name}.csv")
        secrets += [*table.columns[1:], *map(str, table["customer_id"].head(50))]
    assert not [secret for secret in secrets if secret.encode() in seen]


def test_finished_runs_leave_no_checkpoints_and_no_process_holds_their_folders(bad_day: BadDay, quickstart):
    for name in quickstart.sites:
        assert (quickstart.state(name) / "model.json").exists()
        wait_until(lambda name=name: not (quickstart.state(name) / "checkpoints").exists(), what="tidying up")
        FolderLock(quickstart.state(name)).release()  # or the process that has it would be named


def test_a_job_submitted_without_waiting_is_watched_and_scores_as_one_process_would(
    afternoon: Afternoon, quickstart, tmp_path
):
    told = afternoon.predicted
    assert told.exit_code == 0, told
    assert "status: FINISHED:COMPLETED" in told.stderr
    result = json.loads(told.stdout)
    assert 0 < result["scored"] < result["asked"] == ASKED
    scores = (quickstart.state(OWNER) / result["file"]).read_text()
    assert scores == scored_in_one_process(tmp_path / "run", quickstart.parties(), OWNER, "first")
    for name in (STAYING, LEAVING):
        assert not list(quickstart.state(name).rglob("scores*"))


def test_a_job_that_is_stopped_ends_with_a_reason_and_can_be_resumed(afternoon: Afternoon, quickstart):
    assert afternoon.stopped.exit_code == 0
    assert "status: FINISHED:ABORTED" in afternoon.watched.stderr
    assert isinstance(afternoon.watched.exception, PeerError)
    assert "FLARE stopped the job: somebody asked for it" in str(afternoon.watched.exception)
    assert "--kind resume" in str(afternoon.watched.exception)
    for name in quickstart.sites:
        place = quickstart.state(name, "second")
        lock_run(place, "resume").release()  # it waits for the job's process to end
        assert list((place / "checkpoints").glob("checkpoint-*"))
        assert not (place / "model.json").exists()

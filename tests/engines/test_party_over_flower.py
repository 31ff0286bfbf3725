"""The operator's guide to Flower, as written: its commands start real processes, with TLS and keys that clients made.

Three parties with their own files train and score new rows; a stranger dials in, a client refuses, a run is stopped,
a client's machine dies.
"""

from __future__ import annotations

import json
import re
import shlex
import ssl
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs fedsdg[flower]")

import psutil
import tomli_w
from flower_parties import (
    CLIENTS,
    OWNER,
    environment_of_a_terminal,
    make_small,
    result_of,
    twin_of,
)
from predictions import ASKED, scored_in_one_process, want_scores
from sites import HERE, free_port, wait_for_port, wait_for_words, wait_until
from typer.testing import CliRunner

from fedsdg.cli.app import app as fedsdg_app
from fedsdg.errors import PeerError
from fedsdg.party import load_party, lock_run
from fedsdg.runtime.flower_kits import REST
from fedsdg.runtime.processes import start, stop
from fedsdg.runtime.stream_client import Server, serve
from fedsdg.state_files import FolderLock
from plain_twins import learned_the_same

GUIDE = HERE.parent.parent / "docs" / "operators.md"
SILENCE = 8


def documented() -> tuple[list[str], list[str]]:
    """The lines of the guide's two terminals."""
    section = GUIDE.read_text().split("\n## Flower\n")[1].split("\n## ")[0]
    first, second, *_ = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return first.splitlines(), second.splitlines()


@dataclass
class Terminals:
    """A folder in which the guide's commands are typed, and what became of them."""

    folder: Path
    stream: int
    sites: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)

    def type(self, line: str) -> None:
        """Let a line do its work; in this process, because starting one takes longer than the work."""
        command, *arguments = shlex.split(line)
        assert command == "fedsdg"
        with chdir(self.folder):
            done = CliRunner().invoke(fedsdg_app, arguments)
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"

    def leave_running(self, line: str, called: str = "") -> subprocess.Popen[bytes]:
        """Start a line that stays; a site is known by its party."""
        name = called or re.findall(r"parties/(\w+)\.toml", line)[0]
        command = ["bash", "-c", f"exec env {line.removesuffix('&')}"]
        self.sites[name] = start(command, self.folder, self.folder / f"{name}.log", environment_of_a_terminal())
        return self.sites[name]

    def flower(self, command: str) -> str:
        """Type one of the guide's commands of Flower, after the line that they need; return what it shows."""
        (export,) = re.findall(r"`(export FLWR_[^`]*)`", GUIDE.read_text())
        done = subprocess.run(
            ["bash", "-c", f"{export}; {command}"],
            cwd=self.folder,
            env={**environment_of_a_terminal(), "HOME": str(self.folder)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def runs(self) -> list[dict[str, str]]:
        """What the guide's `flwr list` knows."""
        shown = self.flower("flwr list fedsdg --format json")
        return list(json.loads(shown[shown.index("{") :])["runs"])

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def said(self, name: str, words: str) -> None:
        wait_for_words(words, lambda: self.log(name))

    def state(self, name: str, run: str) -> Path:
        return self.folder / "project" / "parties" / f"state_{name}" / "runs" / run

    def party(self, name: str) -> Path:
        return self.folder / "project" / "parties" / f"{name}.toml"


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminals]:
    """The guide up to its last line; ports are free ones, and the job is small."""
    found = Terminals(tmp_path_factory.mktemp("guide"), free_port())
    (init, deploy, link), second = documented()
    port = free_port()
    ports = f" --port {port} --stream-port {found.stream} --wait-silence {SILENCE}"
    try:
        found.type(init)
        make_small(found.folder / "demo-job")
        found.type(deploy + ports)
        for name in CLIENTS:  # the guide's ports are one machine's own; others may run this test, too
            kit = found.folder / "project" / "nodes" / name / "flower.json"
            kit.write_text(json.dumps({**json.loads(kit.read_text()), "port": free_port()}))
        found.given = sorted(path.name for path in (found.folder / "project" / "nodes").rglob("*") if path.is_file())
        found.leave_running(link)
        for line in second[:-1]:
            found.leave_running(line) if line.endswith("&") else found.type(line)
        yield found
    finally:
        stop(*reversed(found.sites.values()))


@pytest.fixture(scope="module")
def first_run(terminals: Terminals) -> str:
    """What the guide's last line shows; while it runs, somebody without an invitation dials the stream."""
    shown = terminals.leave_running(documented()[1][-1], "run")
    wait_for_port(terminals.stream, 240)
    # Whoever dials sees the certificate of the job. What it does not see is a token.
    certificate = ssl.get_server_certificate(("127.0.0.1", terminals.stream)).encode()
    stranger = Server(f"127.0.0.1:{terminals.stream}", certificate, "guessed")
    with pytest.raises(PeerError, match="refused this party: its token is not one of this job"):
        serve(stranger, CLIENTS[0], lambda: lambda _: pytest.fail("a stranger was asked"), 20.0)
    assert shown.wait(300) == 0
    return terminals.log("run")


def test_the_guides_commands_train_and_learn_the_same_bits_as_in_the_clear(terminals: Terminals, first_run: str):
    assert learned_the_same(result_of(first_run), twin_of(terminals.folder, "first"))


def test_no_process_holds_the_folders_of_a_finished_run(terminals: Terminals, first_run: str):
    for name in (OWNER, *CLIENTS):
        wait_until(lambda name=name: not (terminals.state(name, "first") / "checkpoints").exists(), what="tidying up")
        FolderLock(terminals.state(name, "first")).release()  # or the process that has it would be named


def test_new_rows_are_scored_as_one_process_would_and_for_the_label_owner_alone(
    terminals: Terminals, first_run: str, tmp_path: Path
):
    want_scores(terminals.party(OWNER), terminals.folder / "demo-job" / f"{OWNER}.csv")
    shown = terminals.leave_running(f"{documented()[1][-1]} --run-config 'kind=\"predict\"'", "prediction")
    assert shown.wait(300) == 0
    result = result_of(terminals.log("prediction"))
    assert 0 < result["scored"] < result["asked"] == ASKED
    parties = {name: load_party(terminals.party(name)) for name in (OWNER, *CLIENTS)}
    scores = (terminals.state(OWNER, "first") / result["file"]).read_text()
    assert scores == scored_in_one_process(tmp_path / "run", parties, OWNER, "first")
    for name in CLIENTS:
        assert not list(terminals.state(name, "first").rglob("scores*"))


def test_a_stranger_at_the_stream_is_refused_and_disturbs_nobody(first_run: str):
    assert "a client was refused: its token is not one of this job" in first_run
    assert "guessed" not in first_run


def test_the_label_owner_never_holds_a_clients_private_key(terminals: Terminals):
    assert terminals.given == sorted(["ca.pem", "flower.json"] * len(CLIENTS))
    for name in CLIENTS:
        key = terminals.folder / "project" / "nodes" / name / name
        assert "PRIVATE KEY" in key.read_text()
        assert oct(key.stat().st_mode)[-3:] == "600"
        assert "PRIVATE" not in key.with_name(f"{name}.pub").read_text()


def test_a_client_that_did_not_approve_the_job_refuses_and_everybody_hears_why(terminals: Terminals, first_run: str):
    refusing, other = CLIENTS
    before = terminals.party(refusing).read_text()
    terminals.party(refusing).write_text(before + 'jobs = ["the hash of another job"]\n')
    try:
        shown = terminals.leave_running(f"{documented()[1][-1]} --run-config 'run=\"second\"'", "refused")
        shown.wait(300)
    finally:
        terminals.party(refusing).write_text(before)
    reason = f"client {refusing!r} refused the job: policy.jobs does not list this job"
    terminals.said("refused", reason)
    terminals.said(refusing, "refused a job: policy.jobs does not list this job")
    terminals.said(other, f"the server ended the run: {reason}")
    assert not terminals.state(refusing, "second").exists()
    assert not list(terminals.state(OWNER, "second").glob("checkpoints/*"))


def test_a_run_is_listed_and_stopped_and_everybody_keeps_its_checkpoints(terminals: Terminals, first_run: str):
    app = tomllib.loads((terminals.folder / "project" / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    rest = json.loads(app["config"][REST])
    rest["settings"]["training"]["gated_phase"]["steps"] = 1000  # it does not end by itself before it is stopped
    (terminals.folder / "long.toml").write_text(tomli_w.dumps({"run": "long", REST: json.dumps(rest)}))
    terminals.leave_running(f"{documented()[1][-1]} --run-config long.toml", "long")
    places = [terminals.state(name, "long") for name in (OWNER, *CLIENTS)]
    wait_until(lambda: all([*place.glob("checkpoints/checkpoint-*")] for place in places), 240, "a checkpoint")

    def numbers(status: str) -> list[str]:
        return [run["run-id"] for run in terminals.runs() if run["status"] == status]

    # Flower may call a run running that has just ended; the long one alone stays so.
    wait_until(lambda: len(numbers("running")) == 1, what="the end of all other runs")
    (number,) = numbers("running")
    terminals.flower(f"flwr stop {number} fedsdg")
    wait_until(lambda: number in numbers("finished:stopped"), what="the end that Flower sees")
    for place in places:
        lock_run(place, "resume").release()  # it waits for the run's process to end
        assert list(place.glob("checkpoints/checkpoint-*"))
        assert not (place / "model.json").exists()


def test_a_client_killed_while_training_comes_back_and_the_resumed_run_ends_the_same(
    terminals: Terminals, first_run: str
):
    victim = CLIENTS[1]
    run = documented()[1][-1]
    terminals.leave_running(f"{run} --run-config 'run=\"third\"'", "broken")
    before = len(terminals.log(victim))
    wait_until(lambda: "wrote checkpoint" in terminals.log(victim)[before:], 240, "a checkpoint")
    site = psutil.Process(terminals.sites[victim].pid)
    for process in (*site.children(recursive=True), site):
        process.kill()  # no goodbye: as if the machine had lost its power
    terminals.sites.pop(victim).wait()
    terminals.leave_running(next(line for line in documented()[1] if f"--party project/parties/{victim}" in line))
    wait_until(lambda: "the job failed" in terminals.log("broken"), 240, "the end of the broken run")
    terminals.said("broken", f"client {victim!r} has given no sign of life for {SILENCE} seconds")
    again = terminals.leave_running(f'{run} --run-config \'run="third" kind="resume"\'', "resumed")
    again.wait(300)
    assert "going on from checkpoint" in terminals.log("resumed")
    assert learned_the_same(result_of(terminals.log("resumed")), twin_of(terminals.folder, "third"))

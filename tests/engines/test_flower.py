"""Flower for real: a SuperLink and SuperNodes as processes on loopback, with TLS and registered keys.

The stream between server and clients goes through a proxy that cuts it again and again.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs fedsdg[flower]")

import engine_jobs
from engine_jobs import CLIENTS
from sites import Proxy, environment, free_port, speaking_another_protocol, wait_for_port, wait_for_words, wait_until

from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.runtime.certificates import job_certificate, write_authority
from fedsdg.runtime.flower import RUNS
from fedsdg.runtime.flower_guard import COMPONENTS
from fedsdg.runtime.flower_kits import (
    QUIET,
    Deployment,
    make_deployment,
    make_node,
    register_node,
    status,
    submit,
    superlink_command,
    supernode_command,
    write_app,
)
from fedsdg.runtime.processes import start, stop
from fedsdg.runtime.serving import Patience
from fedsdg.runtime.site import FAILURE_FILE, RESULT_FILE
from fedsdg.runtime.stream import StreamChannel

DYING, OTHER = "ghost", "clinic"
NODES = (*CLIENTS, DYING, OTHER)
LONG, SHORT = Patience(start=180, silence=90, answer=300), Patience(start=180, silence=5, answer=300)


@dataclass
class System:
    """A running deployment."""

    folder: Path
    deployment: Deployment
    sites: dict[str, subprocess.Popen[bytes]]
    runs: dict[str, str] = field(default_factory=dict)

    def submit(self, name: str, clients: tuple[str, ...], settings: dict, listen: int = 0, dial: int = 0) -> str:
        folder = self.folder / "apps" / name
        shutil.rmtree(folder, ignore_errors=True)  # of a first try that came too late
        app = write_app(
            folder,
            clients,
            settings,
            listen=f"127.0.0.1:{listen}",
            dial=f"localhost:{dial}",
            patience=LONG if name == "secure" else SHORT,
        )
        if name == "code":  # as whoever controls a SuperLink could do: the server's end is ours, the clients' is not
            (app / "anything.py").write_text("from flwr.clientapp import ClientApp\n\napp = ClientApp()\n")
            settings_file = app / "pyproject.toml"
            settings_file.write_text(settings_file.read_text().replace(COMPONENTS["clientapp"], "anything:app"))
        self.runs[name] = submit(self.deployment, app)
        return self.runs[name]

    def outcome(self, run: str) -> bytes:
        """Wait for what a run left: its result, or why it failed."""
        result, failure = (self.folder / "runs" / run / file for file in (RESULT_FILE, FAILURE_FILE))
        wait_until(lambda: result.exists() or failure.exists(), 240, "the end of the run")
        return result.read_bytes() if result.exists() else failure.read_bytes()

    def log(self, site: str) -> str:
        return (self.folder / f"{site}.log").read_text()

    def start_node(
        self,
        name: str,
        key: Path,
        authority: Path | None = None,
        called: str | None = None,
        chosen: dict[str, str] | None = None,
    ) -> None:
        """Start a SuperNode; nothing of it is shared with another one, as on another machine."""
        command = supernode_command(
            name, key, self.deployment.address, authority or self.deployment.authority, free_port()
        )
        place = self.folder / (called or name)
        place.mkdir(exist_ok=True)
        variables = {**(chosen or environment(self.folder)), **QUIET, "FLWR_HOME": str(place / "flower")}
        self.sites[called or name] = start(command, place, self.folder / f"{called or name}.log", variables)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("flower")
    deployment = make_deployment(folder / "server", "localhost", free_port())
    found, impostor = System(folder, deployment, {}), StreamChannel([], SHORT)
    chosen = environment(folder, **deployment.environment, **{RUNS: str(folder / "runs")})
    command = superlink_command(deployment, "127.0.0.1")
    try:
        found.sites["superlink"] = start(command, folder, folder / "superlink.log", chosen)
        keys = {name: make_node(folder / name, name) for name in (*NODES, "stranger")}
        wait_for_port(deployment.port)
        with ThreadPoolExecutor() as pool:  # each call of Flower's command line takes seconds to start
            public = {name: keys[name].with_name(f"{name}.pub") for name in NODES}
            list(pool.map(lambda name: register_node(deployment, name, public[name]), NODES))
        for name in (*CLIENTS, DYING):
            found.start_node(name, keys[name])
        found.start_node(OTHER, keys[OTHER], chosen=speaking_another_protocol(folder))
        found.start_node("stranger", keys["stranger"])
        write_authority(folder / "others", "localhost")
        found.start_node(CLIENTS[0], keys[CLIENTS[0]], folder / "others" / "ca.pem", called="misled")
        port = impostor.open("127.0.0.1:0", *job_certificate())
        echo = {"scenario": "echo", "times": 1}
        with ThreadPoolExecutor() as pool:
            pool.submit(found.submit, "dying", (DYING,), {"scenario": "die"})
            pool.submit(found.submit, "protocol", (OTHER,), echo)
            pool.submit(found.submit, "impostor", (OTHER,), echo, dial=port)
            pool.submit(found.submit, "code", (OTHER,), echo)
        yield found
    finally:
        impostor.close()
        stop(*reversed(found.sites.values()))


def test_a_secure_job_over_flower_learns_the_same_bits_although_its_stream_breaks(system: System):
    port = free_port()
    proxy, over = Proxy(port), threading.Event()

    def cut_again_and_again() -> None:
        while not over.wait(1.0):
            proxy.cut()

    saboteur = threading.Thread(target=cut_again_and_again)
    try:
        run = system.submit("secure", CLIENTS, {"scenario": "secure"}, port, proxy.port)
        wait_for_port(port, 180)
        saboteur.start()
        assert system.outcome(run) == engine_jobs.in_process()
        assert proxy.accepted > 2  # or nothing was cut
    finally:
        over.set()
        if saboteur.ident is not None:
            saboteur.join()
        proxy.close()
    wait_until(lambda: status(system.deployment, run)[0] == "finished:completed", 60, "the end that Flower sees")


def test_a_node_whose_key_was_not_registered_never_gets_in(system: System):
    wait_until(lambda: "Failed to activate SuperNode" in system.log("stranger"), 60, "a refused key")


def test_a_node_does_not_believe_a_superlink_with_another_certificate(system: System):
    wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in system.log("misled"), 60, "a refused certificate")


def test_a_client_whose_process_ends_ends_the_job_within_the_waiting_time(system: System):
    run = system.runs["dying"]
    reason = system.outcome(run).decode()
    assert f"client {DYING!r} has given no sign of life for 5 seconds" in reason
    wait_until(lambda: status(system.deployment, run)[0] == "finished:failed", 60, "the end that Flower sees")
    wait_for_words(reason.strip(), lambda: status(system.deployment, run)[1])


def test_a_client_with_another_protocol_is_refused_and_both_sides_say_why(system: System):
    reason = f"it speaks protocol 99 and the server {PROTOCOL_VERSION}: upgrade one of them"
    assert f"client {OTHER!r} was refused: {reason}" in system.outcome(system.runs["protocol"]).decode()
    wait_for_words(reason, lambda: system.log(OTHER))


def test_a_client_does_not_believe_a_stream_with_another_certificate_and_the_job_ends(system: System):
    reason = system.outcome(system.runs["impostor"]).decode()
    assert f"client {OTHER!r} ended before the job did: PeerError; its own log says why" in reason
    wait_for_words("is not the server of this job: its certificate is another", lambda: system.log(OTHER))


def test_an_app_that_brings_code_is_refused_by_the_node_and_the_server_is_told(system: System):
    reason = system.outcome(system.runs["code"]).decode()
    assert f"client {OTHER!r} ended before the job did: Flower's error 7 (its SuperNode refused the app)" in reason
    wait_for_words(
        "refused an app: it brings files besides its settings; nothing of it was run", lambda: system.log(OTHER)
    )
    assert not list((system.folder / OTHER).rglob("anything.py"))


def test_an_app_carries_no_code(system: System):
    for app in (system.folder / "apps" / name for name in ("secure", "dying")):
        assert [path.name for path in app.rglob("*") if path.is_file()] == ["pyproject.toml"]
    installed = system.folder / CLIENTS[0] / "flower" / "apps"
    assert [path for path in installed.rglob("*.py") if path.is_file()] == []

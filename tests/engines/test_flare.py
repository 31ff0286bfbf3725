"""NVIDIA FLARE for real: a server and four sites as processes on loopback, with mutual TLS.

Jobs run at the same time, because a FLARE job spends most of its time starting and ending.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")

import engine_jobs
import psutil
from engine_jobs import CLIENTS
from sites import environment, free_port, speaking_another_protocol, wait_for_port, wait_until

from fedsdg.errors import ConfigError, PeerError
from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.runtime.flare_jobs import (
    COMPLETED,
    Session,
    admin_session,
    fetch_result,
    submit,
    wait_for_clients,
    watch,
    write_job,
)
from fedsdg.runtime.flare_kits import CLIENT_CLASSES, Kits, provision, site_command, start_site
from fedsdg.runtime.processes import stop
from fedsdg.runtime.serving import Patience

OTHER, VANISHING = "clinic", "ghost"
ALL = (*CLIENTS, OTHER, VANISHING)
LONG, SHORT = Patience(start=120, silence=90, answer=300), Patience(start=120, silence=4, answer=300)


@dataclass
class System:
    """A running deployment and what became of its jobs."""

    folder: Path
    kits: Kits
    session: Session
    sites: dict[str, subprocess.Popen[bytes]]
    foreign: Path
    ids: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)

    def submit(self, name: str, clients: tuple[str, ...], settings: dict, classes: str = CLIENT_CLASSES[1]) -> None:
        patience = LONG if name == "secure" else SHORT
        job = write_job(self.folder / "jobs" / name, clients, settings, patience)
        config = job / "client" / "config" / "config_fed_client.json"
        config.write_text(config.read_text().replace(CLIENT_CLASSES[1], classes))
        self.ids[name] = submit(self.session, job)

    def finish(self, name: str) -> str:
        if name not in self.statuses:
            self.statuses[name] = watch(self.session, self.ids[name], timeout=240)
        return self.statuses[name]

    def result(self, name: str) -> bytes:
        return fetch_result(self.session, self.ids[name], self.folder / "results")

    def log(self, party: str) -> str:
        kit = self.kits.server if party == "server" else self.kits.clients[party]
        return (kit / "console.txt").read_text()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder, port = tmp_path_factory.mktemp("flare"), free_port()
    kits = provision(folder, "hospital", "localhost", ALL, port=port)
    # The same names and the same server, but certificates that somebody else made.
    foreign = provision(folder / "foreign", "hospital", "localhost", CLIENTS, port=port).clients[CLIENTS[0]]
    sites = {"server": start_site(kits.server, environment(folder))}
    try:
        for name in (*CLIENTS, VANISHING):
            sites[name] = start_site(kits.clients[name], environment(folder))
        sites[OTHER] = start_site(kits.clients[OTHER], speaking_another_protocol(folder))
        sites["foreign"] = start_site(foreign, environment(folder))
        wait_for_port(port)
        with admin_session(kits.admin, timeout=60) as session:
            wait_for_clients(session, ALL, timeout=120)
            found = System(folder, kits, session, sites, foreign)
            found.submit("secure", CLIENTS, {"scenario": "secure"})
            found.submit("protocol", (OTHER,), {"scenario": "echo", "times": 1})
            found.submit("vanishing", (VANISHING,), {"scenario": "slow", "milliseconds": 90_000})
            found.submit("dying", CLIENTS[1:], {"scenario": "die"})
            found.submit("classes", CLIENTS[:1], {}, classes="nvflare.app_common.np.np_trainer.NPTrainer")
            yield found
    finally:
        stop(*sites.values())


def test_a_site_that_vanishes_ends_the_job_within_the_waiting_time(system: System):
    wait_until((system.folder / "notes").exists, 180, "the long request")
    site = psutil.Process(system.sites[VANISHING].pid)
    for process in (*site.children(recursive=True), site):
        process.kill()  # no goodbye: as if the machine had lost its power
    assert system.finish("vanishing") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=f"client {VANISHING!r} has given no sign of life for 4 seconds"):
        system.result("vanishing")


def test_a_secure_job_over_flare_learns_the_same_bits_as_in_one_process(system: System):
    assert system.finish("secure") == COMPLETED
    assert system.result("secure") == engine_jobs.in_process()


def test_a_client_with_another_protocol_is_refused_and_both_sides_say_why(system: System):
    assert system.finish("protocol") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=f"client {OTHER!r} speaks protocol 99; this server speaks {PROTOCOL_VERSION}"):
        system.result("protocol")
    assert f"The server speaks protocol {PROTOCOL_VERSION}; this party speaks 99." in system.log(OTHER)


def test_a_client_whose_process_ends_ends_the_job(system: System):
    assert system.finish("dying") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=rf"FLARE stopped the job.*{CLIENTS[1]}|{CLIENTS[1]!r} has given no sign"):
        system.result("dying")


def test_a_site_with_somebody_elses_certificate_never_gets_in(system: System):
    said = system.foreign / "console.txt"
    wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in said.read_text(), what="a refused certificate")
    with pytest.raises(PeerError, match="not connected after 0 seconds: nobody"):
        wait_for_clients(system.session, ("nobody",), timeout=0)


def test_code_that_a_job_brings_along_is_refused(system: System):
    job = write_job(system.folder / "jobs" / "code", CLIENTS, {})
    custom = job / "client" / "custom"
    custom.mkdir()
    (custom / "anything.py").write_text("raise SystemExit")
    system.ids["code"] = submit(system.session, job)
    assert system.finish("code") == "FINISHED:FAILED_TO_RUN"
    detail = system.session.get_job_meta(system.ids["code"])["job_deploy_detail"]
    assert any("BYOC not permitted" in line for line in detail)


def test_a_class_that_is_not_ours_is_refused(system: System):
    assert system.finish("classes") != COMPLETED
    assert "ComponentNotAuthorized" in system.log(CLIENTS[0])


def test_kits_say_what_a_site_allows(system: System):
    for name in CLIENTS:
        local = system.kits.clients[name] / "local"
        resources = json.loads((local / "resources.json").read_text())
        assert resources["class_allow_list"] == CLIENT_CLASSES
        assert resources["allow_log_streaming"] is False
        rights = json.loads((local / "authorization.json").read_text())["permissions"]
        assert set(rights) == {"lead"}
        assert {rights["lead"][right] for right in ("byoc", "shell_commands", "operate", "view")} == {"none"}
    state = system.folder / "hospital" / "state"
    assert [oct(path.stat().st_mode)[-3:] for path in (state, *state.iterdir())] == ["700", "600"]


def test_the_jobs_of_a_deployment_lie_in_its_folder(system: System):
    resources = json.loads((system.kits.server / "local" / "resources.json").read_text())
    places = [part["args"]["uri_root"] for part in resources["components"] if part["id"] == "job_manager"]
    assert places == [str(system.kits.server / "jobs")]
    assert {system.ids[name] for name in ("secure", "protocol")} <= {path.name for path in Path(places[0]).iterdir()}


def test_a_kit_may_be_moved_and_renamed(system: System, tmp_path: Path):
    for kit, party in ((system.kits.server, "server"), (system.kits.clients[CLIENTS[0]], CLIENTS[0])):
        moved = tmp_path / f"kit of {party}"
        for part in ("startup", "local"):
            shutil.copytree(kit / part, moved / part)
        command = site_command(moved)
        assert str(moved) in command
        assert party == "server" or f"uid={party}" in command
        assert str(kit) not in (moved / "local" / "resources.json").read_text()
    with pytest.raises(ConfigError, match="is no kit of a server or a client"):
        site_command(system.kits.admin)

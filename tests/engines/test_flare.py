"""NVIDIA FLARE for real: a server and three sites as processes on loopback, with mutual TLS.

Jobs run at the same time, because a FLARE job spends most of its time starting and ending. What becomes of a client
that dies stands in `test_party_over_flare.py`.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")

import engine_jobs
from engine_jobs import CLIENTS
from sites import environment, free_port, speaking_another_protocol, wait_for_port, wait_for_words, wait_until

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

OTHER, STRANGER = "clinic", "ghost"
BANK, SHOP = CLIENTS
#: What these parties' policies say in a job of that name, and how the job differs from what they would allow.
REFUSALS = {
    "strict": ({BANK: "minimum_key_bits = 3072", SHOP: 'jobs = ["4f6c"]'}, {}),
    "columns": ({BANK: f'columns = ["{BANK}_secret_0"]'}, {}),
    "profile": ({SHOP: ""}, {"profile": "plain"}),
    "queries": ({SHOP: "maximum_queries_per_row = 1"}, {}),
}
ALL = (*CLIENTS, OTHER)
LONG, SHORT = Patience(start=120, silence=90, answer=300), Patience(start=120, silence=4, answer=300)


@dataclass
class System:
    """A running deployment and what became of its jobs."""

    folder: Path
    kits: Kits
    session: Session
    sites: dict[str, subprocess.Popen[bytes]]
    foreign: Path
    port: int
    ids: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)

    def submit(self, name: str, clients: tuple[str, ...], settings: dict, classes: str = CLIENT_CLASSES[1]) -> None:
        patience = SHORT if name == "dying" else LONG
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

    def said(self, party: str, words: str) -> None:
        wait_for_words(words, lambda: self.log(party))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder, port = tmp_path_factory.mktemp("flare"), free_port()
    kits = provision(folder, "hospital", "localhost", (*ALL, STRANGER), port=port)
    # The same names and the same server, but certificates that somebody else made.
    foreign = provision(folder / "foreign", "hospital", "localhost", (STRANGER,), port=port).clients[STRANGER]
    sites = {"server": start_site(kits.server, environment(folder))}
    try:
        for name in CLIENTS:
            sites[name] = start_site(kits.clients[name], environment(folder))
        sites[OTHER] = start_site(kits.clients[OTHER], speaking_another_protocol(folder))
        sites["foreign"] = start_site(foreign, environment(folder))
        wait_for_port(port)
        with admin_session(kits.admin, timeout=60) as session:
            wait_for_clients(session, ALL, timeout=120)
            found = System(folder, kits, session, sites, foreign, port)
            found.submit("secure", CLIENTS, {"scenario": "secure"})
            found.submit("protocol", (OTHER,), {"scenario": "echo", "times": 1})
            for name, (policies, changes) in REFUSALS.items():
                engine_jobs.write_parties(folder / "parties" / name, policies)
                found.submit(name, tuple(policies), engine_jobs.party_job(name, **changes))
            found.submit("dying", CLIENTS[1:], {"scenario": "die"})
            found.submit("classes", CLIENTS[:1], {}, classes="nvflare.app_common.np.np_trainer.NPTrainer")
            yield found
    finally:
        stop(*sites.values())


def test_a_secure_job_over_flare_learns_the_same_bits_as_in_one_process(system: System):
    assert system.finish("secure") == COMPLETED
    assert system.result("secure") == engine_jobs.in_process()


def test_a_client_with_another_protocol_is_refused_and_both_sides_say_why(system: System):
    assert system.finish("protocol") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=f"client {OTHER!r} speaks protocol 99; this server speaks {PROTOCOL_VERSION}"):
        system.result("protocol")
    system.said(OTHER, f"The server speaks protocol {PROTOCOL_VERSION}; this party speaks 99.")


def test_every_clients_objection_to_a_job_reaches_all_parties(system: System):
    assert system.finish("strict") == "FINISHED:EXECUTION_EXCEPTION"
    reasons = {
        BANK: "key_bits is 2048; policy.minimum_key_bits is 3072",
        SHOP: "policy.jobs does not list this job",
    }
    with pytest.raises(PeerError) as caught:
        system.result("strict")
    for name, reason in reasons.items():
        assert f"client {name!r} refused the job: {reason}" in str(caught.value)
        system.said(name, f"refused a job: {reason}")
        for party in ("server", *CLIENTS):
            system.said(party, f"client {name!r} refused the job: {reason}")
    assert not list((system.folder / "parties" / "strict").glob("state_*"))  # nothing was begun anywhere


def test_a_client_whose_rows_bring_a_column_that_its_policy_does_not_list_refuses_and_names_it_to_nobody(
    system: System,
):
    assert system.finish("columns") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=f"client {BANK!r} refused the job: policy.columns does not list every column"):
        system.result("columns")
    system.said(BANK, f"policy.columns does not list {BANK}_secret_1")
    assert f"{BANK}_secret" not in system.log("server")


def test_a_job_in_the_clear_is_refused_by_clients_whatever_the_server_says(system: System):
    assert system.finish("profile") == "FINISHED:EXECUTION_EXCEPTION"
    reason = "the profile is 'plain'; between organisations only 'masked' is possible"
    with pytest.raises(PeerError, match=f"client {SHOP!r} refused the job: {reason}"):
        system.result("profile")
    system.said(SHOP, f"refused a job: {reason}")


def test_a_client_that_is_asked_for_a_row_too_often_stops_and_only_the_type_crosses(system: System):
    assert system.finish("queries") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=f"client {SHOP!r} refused EmbedBatch: QueryLimitReached") as caught:
        system.result("queries")
    reason = "A row was asked for more than 1 times: policy.maximum_queries_per_row."
    system.said(SHOP, reason)
    assert reason not in str(caught.value) + system.log("server")
    system.said(SHOP, f"the server ended the run: client {SHOP!r} refused EmbedBatch: QueryLimitReached")
    state = system.folder / "parties" / "queries" / f"state_{SHOP}" / "runs" / "queries"
    assert (state / "private_seed").exists()  # its part of the run is kept: a resumed one goes on


def test_a_client_whose_process_ends_ends_the_job(system: System):
    assert system.finish("dying") == "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(PeerError, match=rf"FLARE stopped the job.*{CLIENTS[1]}|{CLIENTS[1]!r} has given no sign"):
        system.result("dying")


def test_a_site_with_somebody_elses_certificate_never_gets_in(system: System):
    said = system.foreign / "console.txt"
    wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in said.read_text(), what="a refused certificate")
    with pytest.raises(
        PeerError, match=rf"not connected after 0 seconds: {STRANGER}\. .*is its certificate of this project"
    ):
        wait_for_clients(system.session, (*ALL, STRANGER), timeout=0)


def test_the_server_says_that_a_certificate_of_somebody_else_was_refused(system: System):
    startup = system.foreign / "startup"
    context = ssl.create_default_context(cafile=system.kits.server / "startup" / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    context.set_alpn_protocols(["h2"])
    before = system.log("server").count("CERTIFICATE_VERIFY_FAILED")
    with (
        socket.create_connection(("localhost", system.port), timeout=30) as line,
        context.wrap_socket(line, server_hostname="localhost") as secured,
        suppress(ssl.SSLError, ConnectionError),
    ):
        assert secured.recv(1) == b""  # it is cut off before a byte was said
    wait_until(
        lambda: system.log("server").count("CERTIFICATE_VERIFY_FAILED") > before, what="a line in the server's log"
    )


def test_code_that_a_job_brings_along_is_refused(system: System):
    job = write_job(system.folder / "jobs" / "code", CLIENTS, {})
    custom = job / "client" / "custom"
    custom.mkdir()
    (custom / "anything.py").write_text("raise SystemExit")
    system.ids["code"] = submit(system.session, job)
    assert system.finish("code") == "FINISHED:FAILED_TO_RUN"

    def told() -> bool:  # FLARE sets the status first and writes down the reason after it
        return "BYOC not permitted" in str(system.session.get_job_meta(system.ids["code"]).get("job_deploy_detail"))

    wait_until(told, what="the reason in the job's record")


def test_a_class_that_is_not_ours_is_refused(system: System):
    assert system.finish("classes") != COMPLETED
    system.said(CLIENTS[0], "ComponentNotAuthorized")


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

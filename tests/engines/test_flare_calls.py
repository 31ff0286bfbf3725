"""FLARE's calls without FLARE: what happens when they are lost, late, forged or refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")

from engine_jobs import CLIENTS, Echo, ask
from nvflare.apis.signal import Signal
from nvflare.collab.api.context import Context, set_call_context
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from fedsdg.errors import ConfigError, PeerError
from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.runtime import flare
from fedsdg.runtime.flare import FlareChannel, FlareClient
from fedsdg.runtime.serving import Answer, Patience

PATIENT = Patience(start=20, silence=20, answer=60)


class Site:
    """A `FlareClient` as FLARE would call it, and a proxy for it that can be made to fail."""

    def __init__(self, name: str, make: Callable[[str], Answer] | None = None) -> None:
        self.name, self.client, self.echo = name, FlareClient(), Echo(name)
        self.make = make or (lambda name: self.echo.answer)
        self.caller = "server"
        #: Called with the name of the method before and after it ran; may raise.
        self.before: Callable[[str], None] = lambda method: None
        self.after: Callable[[str], None] = lambda method: None
        self.changes: dict[str, Any] = {}
        self.calls: list[str] = []

    def __call__(self, timeout: float) -> Site:
        self.timeout = timeout
        return self

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            self.calls.append(method)
            self.before(method)
            set_call_context(Context(SimpleNamespace(name=self.name), self.caller, self.name, Signal()))
            try:
                reply = getattr(self.client, method)(**arguments)
            finally:
                set_call_context(None)
            self.after(method)
            return {**reply, **self.changes}

        return call


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Site]]:
    found = {name: Site(name) for name in CLIENTS}
    monkeypatch.setattr(flare, "client_factory", lambda: lambda name: found[name].make(name))
    yield found
    for site in found.values():
        site.client.finish()


@pytest.fixture
def open_channel(sites: dict[str, Site]) -> Iterator[Callable[..., FlareChannel]]:
    channels: list[FlareChannel] = []

    def make(patience: Patience = PATIENT) -> FlareChannel:
        channels.append(FlareChannel(sites, patience))
        return channels[-1]

    yield make
    for channel in channels:
        channel.close()


def lost(times: int) -> Callable[[str], None]:
    """A network that loses some calls of `answer`."""
    left = [times]

    def fail(method: str) -> None:
        if method == "answer" and left[0]:
            left[0] -= 1
            raise CollabCallError("site", method, "timeout")

    return fail


def test_all_sites_answer(open_channel, sites):
    channel = open_channel()
    channel.greet()
    assert {name: reply.n_rows for name, reply in ask(channel, b"body").items()} == dict.fromkeys(CLIENTS, 1)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_call_that_is_lost_on_the_way_there_or_back_is_repeated_and_executed_once(open_channel, sites, where):
    channel = open_channel()
    channel.greet()
    setattr(sites[CLIENTS[0]], where, lost(2))
    counts = [{name: reply.n_rows for name, reply in ask(channel, b"body").items()} for _ in range(3)]
    assert counts == [dict.fromkeys(CLIENTS, number) for number in (1, 2, 3)]
    assert sites[CLIENTS[0]].calls.count("answer") == 5


def test_a_long_answer_is_waited_for_in_short_calls(open_channel, sites, monkeypatch):
    monkeypatch.setattr(flare, "POLL", 0.05)
    channel = open_channel()
    channel.greet()
    ask(channel, b"", "sleep", 400)
    for site in sites.values():
        assert site.calls.count("answer") == 1
        assert site.calls.count("collect") >= 2
        assert site.echo.asked == 1


def test_a_silent_site_ends_the_job_with_its_name(open_channel, sites):
    channel = open_channel(Patience(start=20, silence=0.5, answer=60))
    channel.greet()
    sites[CLIENTS[1]].before = lost(1000)
    with pytest.raises(PeerError, match=rf"{CLIENTS[1]!r} has given no sign of life for 0\.5 seconds"):
        ask(channel, b"")


def test_a_site_that_is_back_within_the_waiting_time_is_asked_on(open_channel, sites, caplog):
    channel = open_channel(Patience(start=20, silence=20, answer=60))
    channel.greet()
    sites[CLIENTS[1]].before = lost(3)
    assert ask(channel, b"body")[CLIENTS[1]].public_key == b"body"
    said = [record.message for record in caplog.records if record.name == "fedsdg.runtime"]
    assert said == [
        f"client {CLIENTS[1]!r} cannot be reached: the run waits for it, for up to 20 seconds",
        f"client {CLIENTS[1]!r} is back: the run goes on",
    ]


@pytest.mark.parametrize("silence", [0.4, 4, 40, 4000])
def test_within_the_waiting_time_there_is_time_for_more_than_one_call(silence, open_channel, sites):
    channel = open_channel(Patience(silence=silence))
    timeouts: list[float] = []
    sites[CLIENTS[0]].before = lambda method: timeouts.append(sites[CLIENTS[0]].timeout)
    channel.greet()
    assert 0 < max(timeouts) <= silence / 2


def test_after_a_failure_the_others_can_be_asked_on(open_channel, sites):
    channel = open_channel(Patience(start=20, silence=0.5, answer=60))
    channel.greet()
    sites[CLIENTS[1]].before = lost(1000)
    with pytest.raises(PeerError, match="no sign of life"):
        ask(channel, b"")
    assert ask(channel, b"goodbye", clients=CLIENTS[:1])[CLIENTS[0]].public_key == b"goodbye"
    calls = len(sites[CLIENTS[1]].calls)
    with pytest.raises(PeerError, match=f"{CLIENTS[1]!r} has given no sign of life"):
        ask(channel, b"goodbye", clients=CLIENTS[1:])
    assert len(sites[CLIENTS[1]].calls) == calls  # who is gone is not waited for again


def test_a_site_that_works_too_long_is_given_up(open_channel, sites, monkeypatch):
    monkeypatch.setattr(flare, "POLL", 0.05)
    channel = open_channel(Patience(start=20, silence=20, answer=0.2))
    channel.greet()
    with pytest.raises(PeerError, match=r"has worked for more than 0\.2 seconds on one answer"):
        ask(channel, b"", "sleep", 1500)


def test_the_failure_of_one_site_is_not_kept_waiting_by_another(open_channel, sites, monkeypatch):
    monkeypatch.setattr(flare, "POLL", 0.05)
    release = threading.Event()
    sites[CLIENTS[0]].make = lambda name: lambda blob: b"" if release.wait(30) else b"late"
    channel = open_channel()
    channel.greet()
    sites[CLIENTS[1]].changes = {"state": "nonsense"}
    with pytest.raises(PeerError, match=f"{CLIENTS[1]!r} sent something that is no reply"):
        ask(channel, b"")
    release.set()


@pytest.mark.parametrize(
    "changes", [{"state": "nonsense"}, {"body": "text"}, {"error": 7}, {"error": "x" * 1000}, {"protocol": "x"}]
)
def test_a_reply_that_is_none_is_refused(open_channel, sites, changes):
    channel = open_channel()
    sites[CLIENTS[0]].changes = changes
    with pytest.raises(PeerError, match="sent something that is no reply of this protocol"):
        channel.greet()


def test_a_site_with_another_protocol_is_refused_by_both(open_channel, sites, monkeypatch, caplog):
    channel = open_channel()
    sites[CLIENTS[0]].changes = {"protocol": 99}
    with pytest.raises(
        PeerError, match=f"{CLIENTS[0]!r} speaks protocol 99; this server speaks {PROTOCOL_VERSION}. Upgrade one"
    ):
        channel.greet()
    assert sites[CLIENTS[1]].greet(protocol=77, wait=0)["error"] == "ProtocolError"
    assert f"The server speaks protocol 77; this party speaks {PROTOCOL_VERSION}." in caplog.text


@pytest.mark.parametrize("caller", CLIENTS)
def test_only_the_server_may_call(sites, caller, caplog):
    site = sites[CLIENTS[0]]
    site.caller = caller
    for call in (
        lambda: site.greet(protocol=PROTOCOL_VERSION, wait=0),
        lambda: site.answer(number=1, blob=b"", wait=0),
        lambda: site.collect(number=1, wait=0),
    ):
        reply = call()
        assert (reply["state"], reply["error"], reply["body"]) == ("refused", "ProtocolError", b"")
    assert site.echo.asked == 0


def test_a_request_before_the_greeting_or_out_of_turn_is_refused(sites):
    site = sites[CLIENTS[0]]
    assert site.answer(number=1, blob=b"", wait=5)["error"] == "ProtocolError"
    assert site.greet(protocol=PROTOCOL_VERSION, wait=5)["state"] == "done"
    assert site.answer(number=2, blob=b"", wait=5)["error"] == "ProtocolError"
    assert site.collect(number=1, wait=5)["error"] == "ProtocolError"


def test_of_an_error_at_a_site_only_the_type_crosses(open_channel, sites):
    def broken(name: str) -> Answer:
        raise ZeroDivisionError("the value of patient 4711")

    channel = open_channel()
    sites[CLIENTS[0]].make = broken
    with pytest.raises(PeerError, match=f"client {CLIENTS[0]!r} refused: InternalError; its own log") as caught:
        channel.greet()
    assert "patient" not in str(caught.value)
    reply = sites[CLIENTS[0]].greet(protocol=PROTOCOL_VERSION, wait=5)
    assert b"patient" not in repr(reply).encode()


def test_a_job_that_flare_stops_names_who_had_not_answered(open_channel, sites):
    channel = open_channel()
    channel.greet()

    def stopped(method: str) -> None:
        raise RunAborted("stopped")

    sites[CLIENTS[1]].before = stopped
    with pytest.raises(PeerError, match=f"FLARE stopped the job: .*one of .*{CLIENTS[1]} has ended"):
        ask(channel, b"")


def test_a_client_that_is_not_in_the_job_is_not_asked(open_channel):
    with pytest.raises(ConfigError, match="there is no client 'clinic'; this job has bank, shop"):
        open_channel().carry_all({"clinic": b""})

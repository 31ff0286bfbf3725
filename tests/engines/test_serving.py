"""What every engine shares, without an engine: the channel's checks, the role's thread, and the site's own choices."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
from engine_jobs import blank

from fedsdg.errors import ConfigError, DataError, MalformedMessage, PeerError, ProtocolError
from fedsdg.messages import codec
from fedsdg.messages.base import Message
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.selection import SaveSnapshot
from fedsdg.messages.session import Done, Joined
from fedsdg.runtime import site
from fedsdg.runtime.codec_channel import CodecChannel
from fedsdg.runtime.serving import Patience, RoleThread, error_name
from fedsdg.runtime.site import FAILURE_FILE, client_factory, failure_kept, server_driver


class Canned(CodecChannel):
    """Answers with what it was given."""

    def __init__(self, answers: Mapping[str, Message | bytes]) -> None:
        super().__init__()
        self.answers = {name: a if isinstance(a, bytes) else codec.encode(a) for name, a in answers.items()}
        self.asked: dict[str, bytes] = {}

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self.asked.update(requests)
        return self.answers


def test_a_channel_encodes_counts_and_keeps_the_order():
    channel = Canned({"b": Done(), "a": Done()})
    replies = channel.exchange({"a": SaveSnapshot(3), "b": SaveSnapshot(4)})
    assert list(replies.items()) == [("a", Done()), ("b", Done())]
    assert codec.decode(channel.asked["b"]) == SaveSnapshot(4)
    sizes = sum(len(blob) for blob in (*channel.asked.values(), *channel.answers.values()))
    assert (channel.traffic.total, channel.traffic.messages) == (sizes, {"SaveSnapshot": 2, "Done": 2})


def test_a_refusal_becomes_an_error_with_the_clients_name_and_the_type():
    with pytest.raises(PeerError, match="client 'a' refused SaveSnapshot: DataError"):
        Canned({"a": Refusal("DataError")}).exchange({"a": SaveSnapshot(1)})


def test_a_reply_of_another_kind_is_not_taken():
    with pytest.raises(PeerError, match="client 'a' answered SaveSnapshot with Joined"):
        Canned({"a": blank(Joined)}).exchange({"a": SaveSnapshot(1)})


@pytest.mark.parametrize("reply", [b"", b"nothing of ours", codec.encode(Done())[:-1]])
def test_bytes_that_are_no_message_are_refused_with_the_clients_name(reply):
    with pytest.raises(MalformedMessage, match="client 'a': "):
        Canned({"a": reply}).exchange({"a": SaveSnapshot(1)})


def test_another_protocol_is_told_from_nonsense():
    blob = codec.encode(Done())
    with pytest.raises(MalformedMessage, match="client 'a': Protocol version 9; this party speaks"):
        Canned({"a": blob[:4] + b"\x09" + blob[5:]}).exchange({"a": SaveSnapshot(1)})


# --- One thread, each request once --------------------------------------------------------------------------------


def make_counting(log: list[bytes]):
    def answer(blob: bytes) -> bytes:
        log.append(blob)
        return blob.upper()

    return lambda: answer


def test_a_repeated_request_is_answered_from_memory():
    log: list[bytes] = []
    role = RoleThread(make_counting(log))
    role.ready.result(10)
    assert [role.ask(1, b"a").result(10) for _ in range(3)] == [b"A"] * 3
    assert role.ask(2, b"b").result(10) == b"B"
    assert role.outcome(2).result(10) == b"B"
    assert log == [b"a", b"b"]
    role.close()


@pytest.mark.parametrize("number", [0, 1, 3, -1])
def test_requests_out_of_turn_are_refused(number):
    role = RoleThread(make_counting([]))
    role.ready.result(10)
    role.ask(1, b"a").result(10)
    with pytest.raises(ProtocolError, match="out of turn"):
        role.ask(number, b"another")
    with pytest.raises(ProtocolError, match="is not known"):
        role.outcome(number if number != 1 else 9)
    role.close()


def test_a_request_before_the_last_answer_is_refused():
    hold = threading.Event()
    role = RoleThread(lambda: lambda blob: b"" if hold.wait(20) else b"late")
    role.ready.result(10)
    first = role.ask(1, b"a")
    with pytest.raises(ProtocolError, match="out of turn"):
        role.ask(2, b"b")
    hold.set()
    assert first.result(10) == b""
    role.close()


def test_the_role_is_made_and_asked_in_one_thread_of_its_own():
    seen: list[int] = []

    def make():
        seen.append(threading.get_ident())
        return lambda blob: seen.append(threading.get_ident()) or b""

    role = RoleThread(make)
    for number in (1, 2):
        role.ready.result(10)
        role.ask(number, b"").result(10)
    assert len(set(seen)) == 1
    assert seen[0] != threading.get_ident()
    role.close()


def test_a_role_that_cannot_be_made_answers_nothing():
    def broken():
        raise DataError("no such table")

    role = RoleThread(broken)
    assert isinstance(role.ready.exception(10), DataError)
    with pytest.raises(ProtocolError):
        role.ask(1, b"")
    role.close()


class Closing:
    """A role that notes when it is closed."""

    def __init__(self, hold: threading.Event) -> None:
        self.hold, self.log, self.closed = hold, [], threading.Event()

    def __call__(self, blob: bytes) -> bytes:
        self.hold.wait(20)
        self.log.append("answered")
        return blob

    def close(self) -> None:
        self.log.append("closed")
        self.closed.set()


def test_a_role_is_closed_when_its_work_is_done_and_answers_nothing_more():
    hold = threading.Event()
    made = Closing(hold)
    role = RoleThread(lambda: made)
    role.ready.result(10)
    under_way = role.ask(1, b"a")
    role.close()
    assert not made.closed.is_set()
    hold.set()
    assert under_way.result(10) == b"a"
    assert made.closed.wait(10)
    assert made.log == ["answered", "closed"]
    with pytest.raises(ProtocolError):
        role.ask(2, b"b")


def test_errors_cross_by_type_only():
    assert error_name(DataError("column age")) == "DataError"
    assert error_name(ZeroDivisionError("patient 4711")) == "InternalError"


@pytest.mark.parametrize("values", [{"start": 0}, {"silence": -1}, {"answer": float("nan")}])
def test_waiting_times_are_positive(values):
    with pytest.raises(ConfigError, match="a waiting time in seconds is above 0"):
        Patience(**values)


# --- What a site says about itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_colon", "write module:function"),
        (":only", "write module:function"),
        ("no.such.module:function", "there is no such function"),
        ("fedsdg.runtime.site:no_such_function", "there is no such function"),
        ("fedsdg.runtime.site:RESULT_FILE", "is no function"),
    ],
)
def test_a_name_that_is_no_function_is_refused(monkeypatch, name, reason):
    monkeypatch.setenv(site.CLIENT_FACTORY, name)
    with pytest.raises(ConfigError, match=reason):
        client_factory()


def test_the_environment_of_the_machine_names_what_runs(monkeypatch):
    monkeypatch.setenv(site.CLIENT_FACTORY, "engine_jobs:client_factory")
    monkeypatch.setenv(site.SERVER_DRIVER, "engine_jobs:server_driver")
    assert client_factory().__name__ == "client_factory"
    assert server_driver().__name__ == "server_driver"


def test_the_reason_of_a_failure_is_kept_where_the_result_is_looked_for(tmp_path):
    with pytest.raises(PeerError), failure_kept(tmp_path / "job"):
        raise PeerError("client 'shop' has gone")
    assert (tmp_path / "job" / FAILURE_FILE).read_text() == "client 'shop' has gone\n"

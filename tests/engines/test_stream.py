"""The stream on its own: real gRPC with TLS on loopback, and a proxy that cuts the line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("grpc", reason="needs fedsdg[flower]")
pytest.importorskip("cryptography", reason="needs fedsdg[flower]")

from engine_jobs import CLIENTS, Echo, ask
from sites import Proxy, wait_until

from fedsdg.errors import ConfigError, FedSDGError, PeerError
from fedsdg.runtime import stream, stream_client
from fedsdg.runtime.certificates import job_certificate
from fedsdg.runtime.serving import Answer, Patience
from fedsdg.runtime.stream import Invitation, StreamChannel
from fedsdg.runtime.stream_client import Server, serve

KEY, CERTIFICATE = job_certificate()
TOKENS = {name: f"token-of-{name}" for name in CLIENTS}
PATIENT = Patience(start=20, silence=20, answer=60)


class Party(threading.Thread):
    """A client in a thread, with what became of it."""

    def __init__(
        self,
        port: int,
        name: str,
        make: Callable[[], Answer] | None = None,
        token: str | None = None,
        certificate: bytes = CERTIFICATE,
        silence: float = PATIENT.silence,
    ) -> None:
        super().__init__(daemon=True)
        self.echo = Echo(name)
        server = Server(f"127.0.0.1:{port}", certificate, TOKENS[name] if token is None else token)
        self.work = lambda: serve(server, name, make or (lambda: self.echo.answer), silence)
        self.problem: FedSDGError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.work()
        except FedSDGError as problem:
            self.problem = problem

    def ended(self) -> FedSDGError | None:
        self.join(30)
        assert not self.is_alive()
        return self.problem


@contextmanager
def listening(patience: Patience = PATIENT, names: bool = True) -> Iterator[tuple[StreamChannel, int]]:
    channel = StreamChannel([Invitation(TOKENS[name], name if names else None) for name in CLIENTS], patience)
    port = channel.open("127.0.0.1:0", KEY, CERTIFICATE)
    try:
        yield channel, port
    finally:
        channel.close()


def test_all_clients_answer_and_go_home_at_the_end():
    with listening() as (channel, port):
        parties = [Party(port, name) for name in CLIENTS]
        assert channel.wait_for_clients() == CLIENTS
        body = bytes(range(256)) * 4000
        for _ in range(5):
            assert {reply.public_key for reply in ask(channel, body).values()} == {body}
    assert [party.ended() for party in parties] == [None, None]
    assert channel.traffic.messages == {"JoinRun": 10, "Joined": 10}


def test_clients_work_at_the_same_time():
    with listening() as (channel, port):
        parties = [Party(port, name, lambda: Meeting.answer) for name in CLIENTS]
        channel.wait_for_clients()
        ask(channel, b"")  # ends only if both are asked before either has answered
    assert [party.ended() for party in parties] == [None, None]


class Meeting:
    """Two roles that answer only when both were asked."""

    both = threading.Barrier(2, timeout=20)

    @classmethod
    def answer(cls, blob: bytes) -> bytes:
        cls.both.wait()
        return Echo("").answer(blob)


def test_a_line_that_breaks_is_dialled_again_and_nothing_is_executed_twice():
    with listening() as (channel, port), closing(Proxy(port)) as proxy:
        parties = [Party(proxy.port, name) for name in CLIENTS]
        channel.wait_for_clients()
        counts = []
        for number in range(40):
            if number % 10 == 5:  # in the middle of a long answer: the request has arrived, the answer cannot
                threading.Timer(0.15, proxy.cut).start()
                replies = ask(channel, b"x" * 50_000, "sleep", 400)
            elif number % 10 == 8:  # while nothing is under way
                proxy.cut()
                replies = ask(channel, b"x" * 50_000)
            else:
                replies = ask(channel, b"x" * 50_000)
            counts.append({name: reply.n_rows for name, reply in replies.items()})
        proxy.cut()
        channel.close()  # clients that are away come back to hear it
    assert [party.ended() for party in parties] == [None, None]
    assert counts == [dict.fromkeys(CLIENTS, number + 1) for number in range(40)]
    assert channel.reattached >= 8


def test_a_client_that_does_not_come_back_ends_the_job_with_its_name():
    with listening(Patience(start=20, silence=1, answer=60)) as (channel, port), closing(Proxy(port)) as proxy:
        staying, leaving = Party(port, CLIENTS[0]), Party(proxy.port, CLIENTS[1], silence=1)
        channel.wait_for_clients()
        proxy.close()
        for clients in (CLIENTS, CLIENTS[1:]):
            with pytest.raises(PeerError, match=f"{CLIENTS[1]!r} has given no sign of life for 1 seconds"):
                ask(channel, b"", clients=clients)
        assert ask(channel, b"goodbye", clients=CLIENTS[:1])[CLIENTS[0]].public_key == b"goodbye"
    assert staying.ended() is None
    assert "out of reach for 1 seconds" in str(leaving.ended())


def test_a_wrong_token_is_refused_on_both_sides(caplog):
    with listening() as (_, port):
        stranger = Party(port, CLIENTS[0], token="guessed")
        assert "refused this party: its token is not one of this job" in str(stranger.ended())
    assert "a client was refused: its token is not one of this job" in caplog.text
    assert "guessed" not in caplog.text


def test_another_protocol_is_refused_on_both_sides(monkeypatch, caplog):
    with listening() as (channel, port):
        monkeypatch.setattr(stream_client, "PROTOCOL_VERSION", 999)
        older = Party(port, CLIENTS[0])
        problem = str(older.ended())
        with pytest.raises(PeerError, match=f"client '{CLIENTS[0]}' was refused: it speaks protocol 999"):
            channel.wait_for_clients()  # and does not wait for it in vain
    assert "it speaks protocol 999 and the server" in problem
    assert "it speaks protocol 999 and the server" in caplog.text


def test_a_server_with_another_certificate_is_not_believed():
    with listening() as (_, port):
        party = Party(port, CLIENTS[0], certificate=job_certificate()[1])
        assert "is not the server of this job" in str(party.ended())
        assert party.echo.asked == 0


@pytest.mark.parametrize("pinned", [True, False])
def test_nobody_takes_the_name_of_another(pinned):
    with listening(names=pinned) as (channel, port):
        Party(port, CLIENTS[0])
        wait_until(lambda: CLIENTS[0] in channel._lines)
        thief = Party(port, CLIENTS[0], token=TOKENS[CLIENTS[1]])
        expected = "which is not who was invited" if pinned else "and so does another client"
        assert expected in str(thief.ended())


def test_a_restarted_client_cannot_go_on_in_place_of_the_first():
    with listening() as (channel, port):
        Party(port, CLIENTS[0])
        wait_until(lambda: CLIENTS[0] in channel._lines)
        assert "another process of" in str(Party(port, CLIENTS[0]).ended())


def test_clients_that_never_come_are_counted():
    with listening(Patience(start=0.5)) as (channel, port):
        Party(port, CLIENTS[0])
        with pytest.raises(PeerError, match=f"2 clients were invited .* ready: {CLIENTS[0]}$"):
            channel.wait_for_clients()


def test_of_an_error_at_a_client_only_the_type_crosses():
    def broken() -> Answer:
        raise ZeroDivisionError("the value of patient 4711")

    with listening() as (channel, port):
        parties = [Party(port, CLIENTS[0]), BrokenParty(port, CLIENTS[1], broken)]
        with pytest.raises(PeerError, match="could not go on: InternalError; its own log says why") as caught:
            channel.wait_for_clients()
        assert "patient" not in str(caught.value)
        channel.close(early=True)
    assert "ended the job early" in str(parties[0].ended())
    parties[1].join(30)
    assert isinstance(parties[1].caught, ZeroDivisionError)


class BrokenParty(Party):
    def run(self) -> None:
        try:
            self.work()
        except ZeroDivisionError as problem:
            self.caught = problem


def test_who_waits_is_told_at_once_that_a_client_is_lost():
    with listening() as (channel, port):
        for name in CLIENTS:
            Party(port, name)
        channel.wait_for_clients()
        threading.Timer(0.2, channel.fail, (CLIENTS[1], PeerError("it has gone"))).start()
        with pytest.raises(PeerError, match="it has gone"):
            ask(channel, b"", "sleep", 1000, clients=CLIENTS[:1])
        with pytest.raises(PeerError, match="it has gone"):
            ask(channel, b"", clients=CLIENTS[1:])


def test_a_client_that_works_too_long_is_given_up():
    with listening(Patience(start=20, silence=20, answer=0.2)) as (channel, port):
        for name in CLIENTS:
            Party(port, name)
        channel.wait_for_clients()
        with pytest.raises(PeerError, match=r"has worked for more than 0\.2 seconds on one answer"):
            ask(channel, b"", "sleep", 1500)


def test_a_port_that_is_taken_is_said_so():
    with listening() as (_, port), pytest.raises(ConfigError, match=f":{port} cannot be listened on"):
        StreamChannel([], PATIENT).open(f"127.0.0.1:{port}", KEY, CERTIFICATE)


def test_frames_that_are_too_short_are_refused():
    assert stream.unpack(stream.pack(stream.ASK, 7, b"body")) == (stream.ASK, 7, b"body")
    with pytest.raises(PeerError, match="too short"):
        stream.unpack(b"x")

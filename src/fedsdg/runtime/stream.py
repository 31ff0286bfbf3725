"""Our messages over a gRPC stream that each client dials and keeps: the server's end.

An engine that starts processes but carries messages slowly (Flower) is used to start both ends; the bytes go here. Each
client shows a secret token, over TLS with a certificate that was made for this job. A stream that breaks may be dialled
again for as long as `Patience.silence`: the request that was under way is sent again, and the client executes it once.
"""

from __future__ import annotations

import hmac
import logging
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

import grpc

from fedsdg.errors import ConfigError, PeerError, PeerLost
from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.messages.codec import MAX_MESSAGE_BYTES
from fedsdg.runtime.codec_channel import CodecChannel
from fedsdg.runtime.serving import Patience

logger = logging.getLogger("fedsdg.runtime")

SERVICE, ATTACH = "fedsdg.Stream", "Attach"
# What a client says of itself when it dials.
NAME, TOKEN, PROCESS, PROTOCOL = "fedsdg-name", "fedsdg-token", "fedsdg-process", "fedsdg-protocol"

#: Seconds for clients to hear that the job is over.
GOODBYE = 5.0

# A frame is its kind, the number of the request, and bytes.
WELCOME, ASK, BYE, READY, ANSWER, FAILED = range(6)
_HEAD = struct.Struct("<BQ")
LARGEST_FRAME = MAX_MESSAGE_BYTES + _HEAD.size

Outbox = SimpleQueue[bytes | None]


def pack(kind: int, number: int, body: bytes = b"") -> bytes:
    """Return a frame."""
    return _HEAD.pack(kind, number) + body


def unpack(frame: bytes) -> tuple[int, int, bytes]:
    """Return kind, number and bytes of a frame."""
    if len(frame) < _HEAD.size:
        raise PeerError("sent a frame that is too short")
    kind, number = _HEAD.unpack_from(frame)
    return kind, number, frame[_HEAD.size :]


def keepalive(silence: float) -> list[tuple[str, int]]:
    """Return gRPC's options for both ends: a peer that is gone is noticed well within `silence`."""
    every = max(1, int(1000 * min(20.0, silence / 3)))
    return [
        ("grpc.max_receive_message_length", LARGEST_FRAME),
        ("grpc.max_send_message_length", LARGEST_FRAME),
        ("grpc.keepalive_time_ms", every),
        ("grpc.keepalive_timeout_ms", every),
        ("grpc.http2.max_pings_without_data", 0),
        # While a large message travels, gRPC pings more often than its own other end would take for polite.
        ("grpc.http2.max_ping_strikes", 0),
    ]


@dataclass(frozen=True)
class Invitation:
    """A secret for one client, and the name it must have (none: it says its name itself)."""

    token: str = field(repr=False)
    name: str | None = None


@dataclass(eq=False)
class _Line:
    """A client, as the server sees it. All fields are read and written under the channel's lock."""

    process: str
    attached: bool = False
    outbox: Outbox | None = None
    lost: float = 0.0
    ready: bool = False
    told: bool = False
    number: int = 0
    pending: bytes | None = None
    answer: bytes | None = None
    failure: PeerError | None = None


class StreamChannel(CodecChannel):
    """Waits for invited clients and asks them, all at once. After a failure, those who are left can be asked on."""

    def __init__(self, invitations: Sequence[Invitation], patience: Patience) -> None:
        super().__init__()
        self._invitations = tuple(invitations)
        self._patience = patience
        self._changed = threading.Condition()
        self._lines: dict[str, _Line] = {}
        self._names: dict[str, str] = {}  # who came with which token
        self._news: list[PeerError] = []  # failures that nobody was told of yet
        self._goodbye: bytes | None = None
        self._server: grpc.Server | None = None
        #: How often a client came back after its stream broke.
        self.reattached = 0

    def open(self, address: str, private_key: bytes, certificate: bytes) -> int:
        """Listen, with TLS; return the port."""
        workers = ThreadPoolExecutor(2 * len(self._invitations) + 8, thread_name_prefix="fedsdg-stream")
        # Without the last option a second server could listen on the same port unnoticed.
        options = [*keepalive(self._patience.silence), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(workers, options=options)
        handler = grpc.stream_stream_rpc_method_handler(self._attach)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {ATTACH: handler}),))
        try:
            port = self._server.add_secure_port(address, grpc.ssl_server_credentials([(private_key, certificate)]))
        except RuntimeError:
            raise ConfigError(f"the address {address} cannot be listened on") from None
        self._server.start()
        return int(port)

    def wait_for_clients(self) -> tuple[str, ...]:
        """Wait until every invited client has come and is ready; return their names in order."""
        deadline = time.monotonic() + self._patience.start
        with self._changed:
            while len(self._lines) < len(self._invitations) or not all(line.ready for line in self._lines.values()):
                self._check(self._lines)
                if time.monotonic() > deadline:
                    there = sorted(name for name, line in self._lines.items() if line.ready)
                    raise PeerError(
                        f"{len(self._invitations)} clients were invited and after {self._patience.start:g} seconds "
                        f"only these were ready: {', '.join(there) or 'none'}"
                    )
                self._changed.wait(0.5)
            return tuple(sorted(self._lines))

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Let all clients answer at the same time."""
        deadline = time.monotonic() + self._patience.answer
        with self._changed:
            for client, blob in requests.items():
                if client not in self._lines:
                    raise ConfigError(f"there is no client {client!r}; this job has {', '.join(sorted(self._lines))}")
                self._send(self._lines[client], blob)
            asked = {client: self._lines[client] for client in requests}
            while any(line.answer is None for line in asked.values()):
                late = {client: line for client, line in asked.items() if line.answer is None}
                self._check(late)
                if time.monotonic() > deadline:
                    raise PeerError(
                        f"client {next(iter(late))!r} has worked for more than {self._patience.answer:g} seconds on "
                        "one answer"
                    )
                self._changed.wait(0.5)
            return {client: line.answer or b"" for client, line in asked.items()}

    def fail(self, client: str, problem: PeerError) -> None:
        """Note that a client is lost, so that nobody waits for it in vain: whoever waits now is told at once."""
        with self._changed:
            self._news.append(problem)
            if client in self._lines:
                self._lines[client].failure = problem
            self._changed.notify_all()

    def close(self, *, early: bool = False) -> None:
        """Send all clients home, and tell them if the job was not finished."""
        deadline = time.monotonic() + min(GOODBYE, self._patience.silence)
        with self._changed:
            if self._goodbye is not None:
                return
            self._goodbye = pack(BYE, 0, b"early" if early else b"")
            for line in self._lines.values():
                if line.outbox is not None:
                    line.outbox.put(self._goodbye)
            # Who is away at this moment may come back and be told, too; who was given up need not be waited for.
            waited_for = [line for line in self._lines.values() if line.failure is None]
            while not all(line.told for line in waited_for) and time.monotonic() < deadline:
                self._changed.wait(0.1)
        if self._server is not None:
            self._server.stop(grace=1).wait()

    def _send(self, line: _Line, blob: bytes) -> None:
        line.number += 1
        line.answer, line.pending = None, pack(ASK, line.number, blob)
        if line.outbox is not None:
            line.outbox.put(line.pending)

    def _check(self, waited_for: Mapping[str, _Line]) -> None:
        """Raise if waiting is in vain."""
        if self._news:
            raise self._news.pop(0)
        for client, line in waited_for.items():
            if line.outbox is None and time.monotonic() - line.lost > self._patience.silence:
                line.failure = PeerLost(
                    f"client {client!r} has given no sign of life for {self._patience.silence:g} seconds; look at its "
                    "log, and resume the run when it is back"
                )
            if line.failure is not None:
                raise line.failure

    # --- In gRPC's threads ----------------------------------------------------------------------------------------

    def _attach(self, frames: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        said = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        name, outbox = said.get(NAME, ""), Outbox()
        with self._changed:
            refusal = self._refusal(said)
            if refusal is None:
                line = self._lines.setdefault(name, _Line(said[PROCESS]))
                self._pick_up(line, outbox)
            elif refusal[2] and name not in self._lines:
                # It holds a token of this job: nobody else will come in its place.
                self._news.append(PeerError(f"client {refusal[2]!r} was refused: {refusal[1]}"))
                self._changed.notify_all()
        if refusal is not None:
            logger.error("a client was refused: %s", refusal[1])
            context.abort(*refusal[:2])  # raises
        if not context.add_callback(lambda: self._hang_up(line, outbox)):
            self._hang_up(line, outbox)  # it has gone already
        threading.Thread(target=self._read, args=(name, line, frames), daemon=True).start()
        yield from iter(outbox.get, None)

    def _refusal(self, said: Mapping[str, str]) -> tuple[grpc.StatusCode, str, str] | None:
        """Return why a client may not attach, if so, and who was invited with its token."""
        token, name = said.get(TOKEN, ""), said.get(NAME, "")
        invited = [i for i in self._invitations if hmac.compare_digest(i.token.encode(), token.encode())]
        if not invited:
            return grpc.StatusCode.UNAUTHENTICATED, "its token is not one of this job", ""
        reason = ""
        if PROCESS not in said or said.get(PROTOCOL) != str(PROTOCOL_VERSION):
            reason = f"it speaks protocol {said.get(PROTOCOL)} and the server {PROTOCOL_VERSION}: upgrade one of them"
        elif not name or invited[0].name not in (None, name) or self._names.setdefault(token, name) != name:
            reason = f"it says it is {name!r}, which is not who was invited"
        elif list(self._names.values()).count(name) > 1:
            reason = f"it says it is {name!r}, and so does another client"
        elif name in self._lines and self._lines[name].process != said.get(PROCESS):
            reason = f"another process of {name!r} was there before: its keys and its model are not in this one"
        return (grpc.StatusCode.FAILED_PRECONDITION, reason, invited[0].name or name) if reason else None

    def _pick_up(self, line: _Line, outbox: Outbox) -> None:
        if line.outbox is not None:
            line.outbox.put(None)  # the newest stream counts: an old one may be dead and not know it
        if line.attached:
            self.reattached += 1
            logger.warning("client %r is back", self._name_of(line))
        line.attached, line.outbox = True, outbox
        outbox.put(pack(WELCOME, 0))
        if self._goodbye is not None:
            outbox.put(self._goodbye)
        elif line.pending is not None:
            outbox.put(line.pending)
        self._changed.notify_all()

    def _name_of(self, line: _Line) -> str:
        return next((name for name, found in self._lines.items() if found is line), "?")

    def _hang_up(self, line: _Line, outbox: Outbox) -> None:
        outbox.put(None)
        with self._changed:
            if line.outbox is outbox:
                line.outbox, line.lost = None, time.monotonic()
                if self._goodbye is None:
                    logger.warning("client %r cannot be reached; the run waits for it", self._name_of(line))
                self._changed.notify_all()

    def _read(self, name: str, line: _Line, frames: Iterator[bytes]) -> None:
        with suppress(grpc.RpcError):  # the stream broke; `_hang_up` is told
            for frame in frames:
                try:
                    self._take(line, *unpack(frame))
                except PeerError as problem:
                    self.fail(name, PeerError(f"client {name!r} {problem}"))

    def _take(self, line: _Line, kind: int, number: int, body: bytes) -> None:
        with self._changed:
            if kind == READY:
                line.ready = True
            elif kind == BYE and self._goodbye is not None:
                line.told = True
                if line.outbox is not None:
                    line.outbox.put(None)
            elif kind == ANSWER and number == line.number:
                line.answer, line.pending = body, None
            elif kind == FAILED:
                error = body[:100].decode(errors="replace")
                raise PeerError(f"could not go on: {error}; its own log says why")
            elif not (kind == ANSWER and number < line.number):  # an answer that came twice is no harm
                raise PeerError("sent something that is no reply of this protocol")
            self._changed.notify_all()

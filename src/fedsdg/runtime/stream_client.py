"""The client's end of `runtime.stream`: dial out, answer until the server says goodbye; dial again if the line breaks.

Nobody can dial a client: it opens no port.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue

import grpc

from fedsdg.errors import PeerError, ProtocolError
from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.runtime.certificates import JOB_HOST
from fedsdg.runtime.serving import Answer, RoleThread, error_name
from fedsdg.runtime.stream import (
    ANSWER,
    ASK,
    ATTACH,
    BYE,
    FAILED,
    NAME,
    PROCESS,
    PROTOCOL,
    READY,
    SERVICE,
    TOKEN,
    WELCOME,
    Outbox,
    keepalive,
    pack,
    unpack,
)

logger = logging.getLogger("fedsdg.runtime")

_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION)
#: Seconds between two attempts to dial.
_PAUSE = 0.5


@dataclass(frozen=True)
class Server:
    """Where a server listens, and how it and this party know each other."""

    address: str
    certificate: bytes
    token: str = field(repr=False)


def serve(server: Server, name: str, make_role: Callable[[], Answer], silence: float) -> None:
    """Answer for a party until the server says goodbye; give up when it is out of reach for `silence` seconds."""
    role = RoleThread(make_role)
    process = secrets.token_hex(16)  # another process has other keys: it cannot go on in place of this one
    said = ((NAME, name), (TOKEN, server.token), (PROCESS, process), (PROTOCOL, str(PROTOCOL_VERSION)))
    lost = time.monotonic()
    try:
        while True:
            heard = None
            try:
                for heard, body in _conversation(server, said, role, silence):
                    if heard == BYE:
                        reason = body
            except grpc.RpcError as problem:
                _raise_if_hopeless(problem, server.address)
            if heard == BYE:
                return _goodbye(role, reason)
            if heard is not None:
                lost = time.monotonic()
            if time.monotonic() - lost > silence:
                raise PeerError(f"the server at {server.address} has been out of reach for {silence:g} seconds")
            time.sleep(_PAUSE)
    finally:
        role.close()


def _conversation(
    server: Server, said: tuple[tuple[str, str], ...], role: RoleThread, silence: float
) -> Iterator[tuple[int, bytes]]:
    """Dial once, and answer until the stream ends; what the server says is yielded."""
    outbox: Outbox = SimpleQueue()
    trust = grpc.ssl_channel_credentials(server.certificate)
    options = [*keepalive(silence), ("grpc.ssl_target_name_override", JOB_HOST)]
    with grpc.secure_channel(server.address, trust, options) as channel:
        call = channel.stream_stream(f"/{SERVICE}/{ATTACH}")(iter(outbox.get, None), metadata=said)
        try:
            for frame in call:
                kind, number, body = unpack(frame)
                yield kind, body
                if kind == WELCOME:
                    role.ready.add_done_callback(lambda made: outbox.put(_outcome(READY, 0, made)))
                elif kind == ASK:
                    _answer(role, number, body, outbox)
                elif kind == BYE:
                    outbox.put(pack(BYE, 0))  # and the server ends the stream
                else:
                    raise ProtocolError("The server sent something that is no request.")
        finally:
            outbox.put(None)
            call.cancel()


def _answer(role: RoleThread, number: int, blob: bytes, outbox: Outbox) -> None:
    try:
        asked = role.ask(number, blob)
    except ProtocolError as problem:
        logger.error("the server's request was refused: %s", problem)
        outbox.put(pack(FAILED, number, error_name(problem).encode()))
        return
    asked.add_done_callback(lambda done: outbox.put(_outcome(ANSWER, number, done)))


def _outcome(kind: int, number: int, done: Future[bytes]) -> bytes:
    """Return an answer; of an error only the type leaves this machine."""
    error = done.exception()
    return pack(kind, number, done.result()) if error is None else pack(FAILED, number, error_name(error).encode())


def _goodbye(role: RoleThread, reason: bytes) -> None:
    if role.ready.done() and (problem := role.ready.exception()) is not None:
        raise problem
    if reason:
        raise PeerError("the server ended the job early; its log says why")


def _raise_if_hopeless(problem: grpc.RpcError, address: str) -> None:
    """Tell a refusal, which dialling again would not change, from a line that broke."""
    if not isinstance(problem, grpc.Call):
        return
    details = str(problem.details())
    if problem.code() in _REFUSALS:
        raise PeerError(f"the server at {address} refused this party: {details}") from None
    if "CERTIFICATE_VERIFY_FAILED" in details:
        raise PeerError(f"who listens at {address} is not the server of this job: its certificate is another") from None

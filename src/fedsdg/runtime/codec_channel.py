"""What every channel does whoever carries its bytes: encode, count, decode, and check.

A channel that crosses a process or a network implements one method, `carry_all`: bytes to each of some clients, bytes
back from all of them. It sees no message, and no message sees it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar, cast

from fedsdg.errors import MalformedMessage, PeerError
from fedsdg.messages import codec
from fedsdg.messages.base import Message, Request
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.traffic import Traffic

logger = logging.getLogger("fedsdg.server")

R = TypeVar("R", bound=Message)


class CodecChannel(ABC):
    """A `Channel` over anything that carries bytes."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def exchange(self, requests: Mapping[str, Request[R]]) -> Mapping[str, R]:
        """See `Channel.exchange`."""
        blobs: dict[str, bytes] = {}
        for client, request in requests.items():
            blobs[client] = codec.encode(request)
            self.carry(client, type(request).__name__, blobs[client], to_server=False)
        answers = self.carry_all(blobs)
        return {client: self._reply(client, request, answers[client]) for client, request in requests.items()}

    @abstractmethod
    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Bring each client its bytes and return all answers, or raise `PeerError` for the first client that fails."""

    def carry(self, client: str, kind: str, blob: bytes, *, to_server: bool) -> None:
        """Count one message; subclasses may look at it."""
        self.traffic.count(kind, len(blob), to_server=to_server)
        direction = "from" if to_server else "to"
        logger.debug("%s %s client %r: %d bytes", kind, direction, client, len(blob))

    def cause_of_refusal(self, client: str) -> Exception | None:
        """Return what a client refused for, where that is known here: only within one process."""
        return None

    def _reply(self, client: str, request: Request[R], answer: bytes) -> R:
        try:
            reply = codec.decode(answer)
        except MalformedMessage as problem:
            raise MalformedMessage(f"client {client!r}: {problem}") from None
        self.carry(client, type(reply).__name__, answer, to_server=True)
        if isinstance(reply, Refusal):
            refused = PeerError(f"client {client!r} refused {type(request).__name__}: {reply.error}")
            raise refused from self.cause_of_refusal(client)
        if not isinstance(reply, codec.reply_type(request)):
            raise PeerError(f"client {client!r} answered {type(request).__name__} with {type(reply).__name__}")
        return cast(R, reply)

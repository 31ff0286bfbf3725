"""All parties in one process. Messages are really encoded to bytes, counted, and decoded again.

Nothing is secret within one process; this runtime is for trying a job, for experiments and for tests. What it counts
is what a network would carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from fedsdg.client.role import ClientRole
from fedsdg.errors import ConfigError, PeerError
from fedsdg.messages import codec
from fedsdg.messages.base import Message, Request
from fedsdg.messages.refusal import Refusal

R = TypeVar("R", bound=Message)


@dataclass
class Traffic:
    """Messages and bytes by kind; requests go to clients, replies to the server."""

    messages: dict[str, int] = field(default_factory=dict)
    to_clients: dict[str, int] = field(default_factory=dict)
    to_server: dict[str, int] = field(default_factory=dict)

    def count(self, kind: str, size: int, *, to_server: bool) -> None:
        """Note one message."""
        self.messages[kind] = self.messages.get(kind, 0) + 1
        direction = self.to_server if to_server else self.to_clients
        direction[kind] = direction.get(kind, 0) + size

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return sum(self.to_clients.values()) + sum(self.to_server.values())


class InProcessChannel:
    """Hands encoded requests to client roles in this process."""

    def __init__(self, roles: Mapping[str, ClientRole]) -> None:
        self.roles = dict(roles)
        self.traffic = Traffic()

    def exchange(self, requests: Mapping[str, Request[R]]) -> Mapping[str, R]:
        """See `Channel.exchange`."""
        replies: dict[str, R] = {}
        for client, request in requests.items():
            if client not in self.roles:
                raise ConfigError(f"there is no client {client!r}")
            blob = codec.encode(request)
            self.carry(client, type(request).__name__, blob, to_server=False)
            answer = self.roles[client].answer(blob)
            reply = codec.decode(answer)
            self.carry(client, type(reply).__name__, answer, to_server=True)
            if isinstance(reply, Refusal):
                problem = PeerError(f"client {client!r} refused {type(request).__name__}: {reply.error}")
                raise problem from self.roles[client].last_error
            if not isinstance(reply, codec.reply_type(request)):
                raise PeerError(f"client {client!r} answered {type(request).__name__} with {type(reply).__name__}")
            replies[client] = cast(R, reply)
        return replies

    def carry(self, client: str, kind: str, blob: bytes, *, to_server: bool) -> None:
        """Count one message; subclasses may look at it."""
        self.traffic.count(kind, len(blob), to_server=to_server)

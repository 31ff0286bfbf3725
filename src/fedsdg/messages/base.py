"""Messages, requests and the one port between the server and its clients.

The server starts every exchange: it sends one request to each of some clients and gets each one's reply. A request
names the type of its reply, so `exchange` is fully typed. Whoever carries the bytes implements `Channel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

#: Both sides must speak the same version; a change of any message raises it.
PROTOCOL_VERSION = 2


class Message:
    """Data that one party sends to another. Subclasses are frozen dataclasses, registered with the codec."""


R = TypeVar("R", bound=Message)


class Request(Message, Generic[R]):
    """A message from the server that a client answers with an `R`."""

    #: The type of the reply, checked by the codec.
    reply: ClassVar[type[Any]]


class Channel(Protocol):
    """Carries requests to clients and brings back their replies."""

    def exchange(self, requests: Mapping[str, Request[R]]) -> Mapping[str, R]:
        """Send each client its request and wait for all replies, in the order of `requests`."""
        ...

"""How many messages of which kind went where, and how large they were."""

from __future__ import annotations

from dataclasses import dataclass, field


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

    def add(self, earlier: Traffic) -> None:
        """Add what was sent before, in the earlier part of a run."""
        for own, other in (
            (self.messages, earlier.messages),
            (self.to_clients, earlier.to_clients),
            (self.to_server, earlier.to_server),
        ):
            for kind, value in other.items():
                own[kind] = own.get(kind, 0) + value

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return sum(self.to_clients.values()) + sum(self.to_server.values())

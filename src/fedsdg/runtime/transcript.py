"""A channel that remembers every byte: each party's view of a run, for tests and audits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedsdg.client.role import ClientRole
from fedsdg.messages import codec
from fedsdg.messages.base import Message
from fedsdg.runtime.in_process import InProcessChannel


@dataclass(frozen=True)
class Entry:
    """One message as it crossed the wire."""

    client: str
    to_server: bool
    kind: str
    blob: bytes

    def message(self) -> Message:
        """Decode it."""
        return codec.decode(self.blob)


class RecordingChannel(InProcessChannel):
    """An in-process channel with a transcript."""

    def __init__(self, roles: Mapping[str, ClientRole]) -> None:
        super().__init__(roles)
        self.transcript: list[Entry] = []

    def carry(self, client: str, kind: str, blob: bytes, *, to_server: bool) -> None:
        """Count and remember."""
        super().carry(client, kind, blob, to_server=to_server)
        self.transcript.append(Entry(client, to_server, kind, blob))

    def view_of_server(self) -> Iterator[Entry]:
        """Everything the server received."""
        return (entry for entry in self.transcript if entry.to_server)

    def view_of_client(self, client: str) -> Iterator[Entry]:
        """Everything one client received."""
        return (entry for entry in self.transcript if not entry.to_server and entry.client == client)

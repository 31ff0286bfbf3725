"""All parties in one process. Messages are really encoded to bytes, counted, and decoded again.

Nothing is secret within one process; this runtime is for trying a job, for experiments and for tests. What it counts
is what a network would carry.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedsdg.client.role import ClientRole
from fedsdg.errors import ConfigError
from fedsdg.messages.traffic import Traffic
from fedsdg.runtime.codec_channel import CodecChannel

__all__ = ["InProcessChannel", "Traffic"]


class InProcessChannel(CodecChannel):
    """Hands encoded requests to client roles in this process."""

    def __init__(self, roles: Mapping[str, ClientRole]) -> None:
        super().__init__()
        self.roles = dict(roles)

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Let each role answer, one after the other."""
        for client in requests:
            if client not in self.roles:
                raise ConfigError(f"there is no client {client!r}")
        return {client: self.roles[client].answer(blob) for client, blob in requests.items()}

    def cause_of_refusal(self, client: str) -> Exception | None:
        """Return the client's own error, which a network would not carry."""
        return self.roles[client].last_error

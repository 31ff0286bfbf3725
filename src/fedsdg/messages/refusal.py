"""What a client answers when it will not, or cannot, do what it was asked."""

from __future__ import annotations

from dataclasses import dataclass

from fedsdg.messages.base import Message
from fedsdg.messages.codec import register


@register
@dataclass(frozen=True)
class Refusal(Message):
    """An error at the client, by type. Details stay in the client's own log: no oracle, no leak.

    Server learns: the type of the error.
    """

    error: str

"""Runs that survive: checkpoints, and going on from one.

::

    while training     S -> C   SaveCheckpoint     C: writes learner, gates and share, whole or not at all
    after a crash      S -> C   ListCheckpoints    C -> S   CheckpointNumbers
                       S -> C   ResumeRun          fresh keys on both sides: private keys are never written
    at the end         S -> C   FinishRun          C: writes its part of the model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register
from fedsdg.messages.session import Done, Joined


@register
@dataclass(frozen=True)
class SaveCheckpoint(Request[Done]):
    """Write the present state down.

    Client learns: when checkpoints are made.
    """

    number: int

    reply: ClassVar = Done


@register
@dataclass(frozen=True)
class CheckpointNumbers(Message):
    """A client's answer to `ListCheckpoints`.

    Server learns: which checkpoints of this run the client can go back to.
    """

    numbers: tuple[int, ...]


@register
@dataclass(frozen=True)
class ListCheckpoints(Request[CheckpointNumbers]):
    """Ask which checkpoints of a run are whole.

    Client learns: that the server wants to go on with a run.
    """

    run_id: bytes

    reply: ClassVar = CheckpointNumbers


@register
@dataclass(frozen=True)
class ResumeRun(Request[Joined]):
    """Go back to a checkpoint, with fresh keys.

    Client learns: which steps are repeated. A repeated step uses the same gates and dithers and a fresh share, so a
    server that repeats what was lost sees the same sums again and nothing new.
    """

    client: str
    run_id: bytes
    number: int
    settings: str  # the same JSON as in `JoinRun`
    key_bits: int
    sigma: int
    server_key: bytes

    reply: ClassVar = Joined


@register
@dataclass(frozen=True)
class FinishRun(Request[Done]):
    """The run is over: keep your part of the model.

    Client learns: that the run is over.
    """

    reply: ClassVar = Done

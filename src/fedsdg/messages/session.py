"""A0: the parties meet, agree on the job, exchange public keys, and prepare their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register


@register
@dataclass(frozen=True)
class Done(Message):
    """Nothing but: it is done.

    Server learns: that the client went on.
    """


@register
@dataclass(frozen=True)
class Joined(Message):
    """A client's answer to `JoinRun`.

    Server learns: how many rows and columns the client has, and its public key.
    """

    n_rows: int
    n_columns: int
    public_key: bytes


@register
@dataclass(frozen=True)
class JoinRun(Request[Joined]):
    """Invite a client to a job.

    Client learns: the job's settings, its own name in it, and the server's public key.
    """

    client: str
    run_id: bytes
    settings: str  # JSON of the training settings: public to all parties
    key_bits: int
    sigma: int
    server_key: bytes

    reply: ClassVar = Joined


@register
@dataclass(frozen=True, eq=False)
class PrepareColumns(Request[Done]):
    """Tell a client which rows to learn from.

    Client learns: which rows train, and so which are kept for validation.
    """

    train_rows: npt.NDArray[np.int64]

    reply: ClassVar = Done

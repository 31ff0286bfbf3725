"""A0: the parties meet, agree on the job, exchange public keys, and prepare their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register


def row_digest(run_id: bytes, ids: Sequence[str] | None) -> bytes:
    """Return a digest by which two parties see that they hold the same ids in the same order (empty without ids)."""
    if ids is None:
        return b""
    digest = hashlib.sha256(b"fedsdg rows v1" + run_id)
    for key in ids:
        raw = key.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()


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

    Client learns: the job's settings, its own name in it, and the server's public key. With a row check (only where
    rows are said to be aligned): whether the label owner's list of ids equals its own, or any list it can think of.
    """

    client: str
    run_id: bytes
    settings: str  # JSON of the training settings: public to all parties
    key_bits: int
    sigma: int
    server_key: bytes
    row_check: bytes  # digest of run id and ids, where rows are said to be aligned (else empty)

    reply: ClassVar = Joined


@register
@dataclass(frozen=True, eq=False)
class PrepareColumns(Request[Done]):
    """Tell a client which rows to learn from.

    Client learns: which rows train, and so which are kept for validation.
    """

    train_rows: npt.NDArray[np.int64]

    reply: ClassVar = Done

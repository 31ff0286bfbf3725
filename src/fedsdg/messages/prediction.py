"""Joint scoring of new rows with a finished model: join with fresh keys, align ids, then Algorithm 2 only.

::

    S -> C   JoinPrediction    C -> S   Joined
    (BlindIds, TakeRows: messages/alignment.py)
    (EmbedBatch for `prediction`, RemoveShare: messages/secure_forward.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.base import Request
from fedsdg.messages.codec import register
from fedsdg.messages.session import Joined


@register
@dataclass(frozen=True)
class JoinPrediction(Request[Joined]):
    """Invite a client to score rows with the model of an earlier run.

    Client learns: that the label owner wants scores from this model, and its public key of this session.
    """

    client: str
    run_id: bytes  # of the run that made the model
    session_id: bytes  # of this prediction
    key_bits: int
    sigma: int
    server_key: bytes
    row_check: bytes  # see `JoinRun`

    reply: ClassVar = Joined

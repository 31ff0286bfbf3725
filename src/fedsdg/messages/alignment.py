"""A0: finding the rows that all parties have in common, without showing the others (Diffie-Hellman PSI).

::

    A0.3  S -> C   BlindIds      H(y)^s of the server's ids, shuffled; s and the shuffle are fresh for each client
    A0.4  C -> S   BlindedIds    those points ^c, in their order; H(x)^c of its own ids, shuffled
          S        H(x)^(cs) = H(y)^(sc) for equal ids: which rows each client holds; intersect over all clients
    A0.5  S -> C   TakeRows      positions in the client's shuffled list, in the common order of rows

Points are 32 bytes each, side by side. Lists of different clients or runs have no point in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register
from fedsdg.messages.session import Done


@register
@dataclass(frozen=True)
class BlindedIds(Message):
    """A0.4.

    Server learns: how many ids the client holds, and which of the server's own ids are among them.
    """

    again: bytes  # the server's points to the client's exponent, in the order received
    points: bytes  # the client's own points, shuffled


@register
@dataclass(frozen=True)
class BlindIds(Request[BlindedIds]):
    """A0.3.

    Client learns: how many ids the server holds.
    """

    points: bytes

    reply: ClassVar = BlindedIds


@register
@dataclass(frozen=True, eq=False)
class TakeRows(Request[Done]):
    """A0.5.

    Client learns: which of its own ids all parties hold (not who lacks the others), and the common order.
    """

    positions: npt.NDArray[np.int64]  # in the shuffled list that the client sent

    reply: ClassVar = Done

"""Algorithm 3: backward propagation, and the update of weights that nobody holds.

::

    A3.1  S -> C   ApplyGradient   C2 = [[G]]^T D_s + rho2   (or, reversed, [[D_s]] under the server's key)
                                   C3 = W~ D - [[E]] D + tau2, re-randomised; OLD W~, OLD E
    A3.2  C -> S   ShareUpdate     V2 = E' - E - Dec(C2)     S: W~ + V2 + rho2 = (W - G^T D_s) + E'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register


@register
@dataclass(frozen=True, eq=False)
class ShareUpdate(Message):
    """A3.2.

    Server learns: nothing about the gradient or the weights: the new share E' hides them. If embedding dimensions were
    dropped for good, which positions stay.
    """

    update: bytes  # residues modulo the client's n, or (reversed) ciphertexts under the server's key
    kept: tuple[int, ...] | None


@register
@dataclass(frozen=True, eq=False)
class ApplyGradient(Request[ShareUpdate]):
    """A3.1.

    Client learns: dL/dG per sample (C3 decrypted). From it labels can be inferred: see docs/threat_model.md. Of the
    weight gradient it learns nothing (rho2, or the server's encryption).
    """

    step: int
    weight_gradient: bytes
    embedding_gradient: bytes

    reply: ClassVar = ShareUpdate

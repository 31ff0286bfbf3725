"""Algorithm 1 in three messages (and an acknowledgement), whatever the number of columns.

::

    A1.1  S -> C   CountLabels    [[label indicators]] under the server's key
    A1.2  C -> S   MaskedCounts   u: weighted class counts plus masks;  Y: the cross terms plus a uniform mask
    A1.3  S -> C   FinishScores   T = squares of u - Dec(Y), still masked by the client's t
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register
from fedsdg.messages.session import Done


@register
@dataclass(frozen=True, eq=False)
class MaskedCounts(Message):
    """A1.2.

    Server learns: nothing about the counts (masks r are sigma bits wider; unused slots are masked too). The number of
    ciphertexts follows from the number of columns, the padded number of bins and the number of classes.
    """

    counts: bytes  # encrypted array (ciphertexts,), slots of (column, bin, class)
    cross_terms: bytes  # encrypted array (ciphertexts,), slots of columns


@register
@dataclass(frozen=True, eq=False)
class CountLabels(Request[MaskedCounts]):
    """A1.1.

    Client learns: the number of classes. The indicators are encrypted under the server's key.
    """

    n_classes: int
    indicators: bytes  # encrypted array (rows, classes - 1)

    reply: ClassVar = MaskedCounts


@register
@dataclass(frozen=True, eq=False)
class FinishScores(Request[Done]):
    """A1.3, answered once per run: it decrypts what a client sent.

    Client learns: the Gini score of each of its columns and of the labels (class balance). With many columns per row
    these determine the labels: see docs/threat_model.md and label_epsilon.
    """

    sums: bytes  # residues modulo the server's n

    reply: ClassVar = Done


@register
@dataclass(frozen=True)
class StartGatesAlike(Request[Done]):
    """Instead of Algorithm 1: all gates start alike.

    Client learns: nothing.
    """

    reply: ClassVar = Done

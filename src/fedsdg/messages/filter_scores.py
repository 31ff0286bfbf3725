"""Filters under encryption, in three messages (and an acknowledgement), whatever the number of columns.

::

    F.1  S -> C   ScoreColumns   [[label numbers]] under the server's key, and which statistic is wanted
    F.2  C -> S   MaskedCounts   as in Algorithm 1: masked sums, and the cross terms under a uniform mask
    F.3  S -> C   FinishFilter   sums of squares, still masked by the client's t

A client may be asked for several statistics of the same run: masks are new each time. To whom the ranking is told is
not part of it: scores stay with their client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.base import Request
from fedsdg.messages.codec import register
from fedsdg.messages.filter_statistics import Statistic
from fedsdg.messages.gini_initialization import MaskedCounts
from fedsdg.messages.session import Done


@register
@dataclass(frozen=True, eq=False)
class ScoreColumns(Request[MaskedCounts]):
    """F.1.

    Client learns: the statistic that is wanted, and the number of classes (1 for a numeric target). The label numbers
    are encrypted under the server's key; class sizes, which chi2 and sffs need, are inside.
    """

    statistic: Statistic
    n_classes: int
    labels: bytes  # encrypted array (rows, label columns)

    reply: ClassVar = MaskedCounts


@register
@dataclass(frozen=True, eq=False)
class FinishFilter(Request[Done]):
    """F.3, sent once for each F.1: it decrypts what a client sent.

    Client learns: one number per column, its statistic: the Gini score (and the class balance) with gini and ms_gini,
    chi-square with chi2, the F statistic with sffs. Bins of gini and chi2 hold a minimum number of rows; ms_gini and
    sffs have no such minimum, so a column that sets one person apart tells that person's label. With many columns per
    row all four determine the labels: see docs/threat_model.md and label_epsilon.
    """

    sums: bytes  # residues modulo the server's n

    reply: ClassVar = Done

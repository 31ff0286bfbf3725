"""Filters at the server: encrypt label numbers, square what comes back masked, return sums that only clients can read.

::

    F.1 Server: encrypt the label numbers once, for all clients.
    F.2 Clients: sum, weigh, mask.
    F.3 Server: decrypt, square, subtract the cross terms; still masked by the client's t.
    F.4 Clients: unmask one score per column.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedsdg.crypto import Decryptor, Encryptor
from fedsdg.data.arrays import IntArray
from fedsdg.messages.base import Channel
from fedsdg.messages.filter_scores import FinishFilter, ScoreColumns
from fedsdg.messages.filter_statistics import Statistic
from fedsdg.messages.square_sum_layout import SquareSumLayout
from fedsdg.server.gini_initialization import square_sums


def score_by_filter(
    channel: Channel,
    layouts: Mapping[str, SquareSumLayout],
    statistic: Statistic,
    labels: IntArray,
    n_classes: int,
    encryptor: Encryptor,
    decryptor: Decryptor,
) -> None:
    """Let every client learn a statistic of its own columns. `labels`: rows x label columns."""
    # F.1 Server: encrypt the label numbers once, for all clients.
    blob = encryptor.encrypt(labels.ravel().tolist(), labels.shape).to_bytes()
    # F.2 Clients: sum, weigh, mask.
    replies = channel.exchange({client: ScoreColumns(statistic, n_classes, blob) for client in layouts})
    # F.3 Server: decrypt, square, subtract the cross terms.
    sums = {client: FinishFilter(square_sums(reply, layouts[client], decryptor)) for client, reply in replies.items()}
    # F.4 Clients: unmask one score per column.
    channel.exchange(sums)

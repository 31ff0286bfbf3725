"""Algorithm 1 at the server: encrypt the labels, square what comes back masked, return sums that only the client can
read.

::

    A1.1 Server: encrypt the label indicators once, for all clients.
    A1.2 Clients: count, weigh, mask.
    A1.3 Server: decrypt, square, subtract the cross terms; still masked by the client's t.
    A1.4 Clients: unmask one Gini score per column.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedsdg.crypto import Decryptor, Encryptor
from fedsdg.crypto.residues import residues_to_bytes
from fedsdg.errors import MalformedMessage
from fedsdg.messages.base import Channel
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, MaskedCounts
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.square_sum_layout import SquareSumLayout


def initialise_by_gini(
    channel: Channel,
    layouts: Mapping[str, GiniLayout],
    labels: npt.NDArray[np.int64],
    n_classes: int,
    encryptor: Encryptor,
    decryptor: Decryptor,
) -> None:
    """Run Algorithm 1 with all clients. Each client's sums are returned once per run."""
    # A1.1 Server: encrypt the label indicators once, for all clients.
    indicators = (labels[:, None] == np.arange(n_classes - 1)[None, :]).astype(int)
    blob = encryptor.encrypt(indicators.ravel().tolist(), indicators.shape).to_bytes()
    # A1.2 Clients: count, weigh, mask.
    replies = channel.exchange({client: CountLabels(n_classes, blob) for client in layouts})
    # A1.3 Server: decrypt, square, subtract the cross terms.
    sums = {client: FinishScores(square_sums(reply, layouts[client], decryptor)) for client, reply in replies.items()}
    # A1.4 Clients: unmask one Gini score per column.
    channel.exchange(sums)


def square_sums(reply: MaskedCounts, layout: SquareSumLayout, decryptor: Decryptor) -> bytes:
    """Return T = pack(Q) - Dec(Y) modulo n, with Q_j = sum over bins of sum_k u_k^2 + (sum_k u_k)^2.

    Where no class is implied, the last term is left out.
    """
    n = decryptor.key.n
    counts = decryptor.decrypt(decryptor.load(reply.counts, (layout.count_ciphertexts,)))
    cross = decryptor.decrypt(decryptor.load(reply.cross_terms, (layout.score_ciphertexts,)))
    slots, scores = layout.counts, layout.scores
    mask, limit = (1 << slots.width) - 1, (1 << layout.mask_bits) + (1 << layout.value_bits)
    T, at, score_at = [], 0, 0
    for chunk in layout.chunks():
        u: list[int] = []
        for value in counts[at : at + chunk.count_ciphertexts]:
            packed = int(value)
            if packed >> (slots.width * slots.capacity):
                raise MalformedMessage("A masked count lies outside the slots.")
            u += [(packed >> (slots.width * i)) & mask for i in range(slots.capacity)]
        if max(u) >= limit:
            raise MalformedMessage("A masked count is out of range.")
        at += chunk.count_ciphertexts
        Q = [_square_sum(u, column, layout) for column in range(len(chunk.columns))]
        for first in range(0, len(Q), scores.capacity):
            T.append((scores.pack_wide(Q[first : first + scores.capacity]) - cross[score_at]) % n)
            score_at += 1
    return residues_to_bytes(T, decryptor.key)


def _square_sum(u: list[int], column: int, layout: SquareSumLayout) -> int:
    total, start, others = 0, column * layout.items_per_column, layout.label_columns
    if not layout.last_class_implied:
        return sum(v * v for v in u[start : start + layout.items_per_column])
    for i in range(start, start + layout.items_per_column, others):
        of_bin = u[i : i + others]
        total += sum(v * v for v in of_bin) + sum(of_bin) ** 2
    return total

"""A0.3 to A0.5 at the server: find the rows that all clients hold, by Diffie-Hellman PSI with each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsdg.crypto.blinded_ids import POINT_BYTES, BlindingExponent, hash_ids, load_points, secret_order
from fedsdg.data.alignment import MINIMUM_ROWS, SERVER, Alignment, check_clients, check_ids, intersect
from fedsdg.data.arrays import IntArray
from fedsdg.errors import InvalidPoint, ProtocolError
from fedsdg.messages.alignment import BlindedIds, BlindIds, TakeRows
from fedsdg.messages.base import Channel


def align_rows(
    channel: Channel,
    clients: Sequence[str],
    ids: Sequence[str],
    run_id: bytes,
    order: np.random.Generator,
    *,
    minimum: int = MINIMUM_ROWS,
) -> Alignment:
    """Let all parties keep their common rows, in one order, and tell nobody about the others.

    Fewer than `minimum` common rows are a `DataError`; none, where that is allowed, are nothing to take. The order is
    that of `align_in_the_clear` with the same stream. Clients can compute what was drawn from `order`, so the stream
    must serve nothing else.
    """
    check_clients(clients)
    check_ids(ids, "the server", minimum)

    # A0.3 One exponent and one shuffle per client: clients that compare their lists see unrelated points.
    hashed = hash_ids(ids, run_id)
    exponents = {name: BlindingExponent() for name in clients}
    shuffles = {name: secret_order(len(ids)) for name in clients}
    replies: Mapping[str, BlindedIds] = channel.exchange(
        {name: BlindIds(b"".join(exponents[name].blind([hashed[row] for row in shuffles[name]]))) for name in clients}
    )

    # A0.4 Ids are equal where both exponents lead to one point.
    found = {name: _common_with(name, reply, exponents[name], shuffles[name]) for name, reply in replies.items()}
    sizes = {SERVER: len(ids), **{name: len(reply.points) // POINT_BYTES for name, reply in replies.items()}}
    server_rows, positions = intersect(ids, found, sizes, order, minimum)

    # A0.5 Each client hears about positions in the list that it shuffled itself.
    if len(server_rows):
        channel.exchange({name: TakeRows(positions[name]) for name in clients})
    held = {name: frozenset(rows) for name, rows in found.items()}
    return Alignment(server_rows, None, sizes, len(server_rows), held)


def _common_with(name: str, reply: BlindedIds, exponent: BlindingExponent, shuffle: IntArray) -> dict[int, int]:
    """Return the server's rows that a client holds, with their positions in the client's shuffled list."""
    try:
        ours = load_points(reply.again, len(shuffle))
        theirs = exponent.blind(load_points(reply.points))
    except InvalidPoint as error:
        raise ProtocolError(f"client {name!r} sent blinded ids that no honest client would send: {error}") from error
    row_of = dict(zip(ours, shuffle.tolist(), strict=True))
    return {row_of[point]: position for position, point in enumerate(theirs) if point in row_of}

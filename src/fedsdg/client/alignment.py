"""A0.4 and A0.5 at a client: blind the server's ids and its own, then take the rows that all parties hold."""

from __future__ import annotations

import logging

import numpy as np

from fedsdg.client.state import ClientState
from fedsdg.crypto.blinded_ids import BlindingExponent, hash_ids, load_points, secret_order
from fedsdg.data.alignment import MINIMUM_ROWS, check_ids
from fedsdg.errors import DataError, ProtocolError
from fedsdg.messages.alignment import BlindedIds, BlindIds, TakeRows
from fedsdg.messages.session import Done

logger = logging.getLogger("fedsdg.client")


def blind_ids(state: ClientState, request: BlindIds) -> BlindedIds:
    """A0.4: one fresh exponent for both lists; it is gone when this function returns."""
    run_id, ids = state.joined.run_id, state.ids
    owner = f"client {state.local.client_id!r}"
    if ids is None:
        raise ProtocolError(f"{owner} takes part with rows that are aligned already: it has no ids to compare.")
    if state.rows is not None:
        raise ProtocolError(f"{owner} compares its ids once in a session, not again with another list.")
    minimum = _fewest_rows(state)
    check_ids(ids, owner, minimum)
    if len(ids) != state.local.table.n_rows:
        raise DataError(f"{owner} has {len(ids)} ids for {state.local.table.n_rows} rows.")
    theirs = load_points(request.points)
    if len(theirs) < minimum:
        raise ProtocolError(f"The server compares {len(theirs)} ids; at least {minimum} are needed.")
    # The only trace of a server that fills its list with guesses: its size.
    logger.info("%s compares its %d ids with %d ids of the server", owner, len(ids), len(theirs))
    exponent = BlindingExponent()
    again = exponent.blind(theirs)
    # Unshuffled, the positions of common ids would tell the server the order of this client's file.
    order = secret_order(len(ids))
    points = exponent.blind(hash_ids([ids[row] for row in order], run_id))
    state.pending_alignment = order
    return BlindedIds(b"".join(again), b"".join(points))


def take_rows(state: ClientState, request: TakeRows) -> Done:
    """A0.5: keep the common rows, in the common order."""
    order, ids, positions = state.pending_alignment, state.ids, request.positions
    if order is None or ids is None:
        raise ProtocolError("No ids wait for their alignment.")
    minimum = _fewest_rows(state)
    if positions.ndim != 1 or len(positions) < minimum:
        raise ProtocolError(f"Common rows are a list of at least {minimum} position(s).")
    if positions.min() < 0 or positions.max() >= len(order) or len(np.unique(positions)) != len(positions):
        raise ProtocolError("Common rows are different positions in the list that this client sent.")
    rows = order[positions]
    state.local.take_rows(rows)
    state.rows, state.ids = rows, tuple(ids[row] for row in rows)
    state.pending_alignment = None
    logger.info("client %r keeps %d of its %d rows", state.local.client_id, len(rows), len(order))
    return Done()


def _fewest_rows(state: ClientState) -> int:
    """A single row may be scored; nothing can be learned from it."""
    return 1 if state.order.startswith("scoring") else MINIMUM_ROWS

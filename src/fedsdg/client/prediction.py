"""Scoring new rows at a client: its saved part of a model, its saved share, fresh keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsdg.client.agreement import check_agreed
from fedsdg.client.interactive_share import DenseShare, ElementwiseShare
from fedsdg.client.session import log_joined, make_keys, rows_agree
from fedsdg.client.state import ClientState, PendingScoring, Session
from fedsdg.errors import ProtocolError
from fedsdg.messages.prediction import JoinPrediction
from fedsdg.messages.session import Joined
from fedsdg.messages.widths import value_bits


def join_prediction(state: ClientState, request: JoinPrediction) -> Joined:
    """Check that this is the model that was asked for, and that the rows at hand have its columns."""
    check_agreed(state, "predict", "", request.key_bits, request.sigma)
    saved = state.saved
    if saved is None or saved.part is None or saved.share is None:
        raise ProtocolError("This client holds no part of an encrypted model to score rows with.")
    if saved.run_id != request.run_id:
        raise ProtocolError("This client's part belongs to another run.")
    if request.sigma != saved.sigma:
        raise ProtocolError("The model was trained with another sigma.")
    saved.part.check(state.local.table, f"client {state.local.client_id!r}")
    aligned = bool(request.row_check) and rows_agree(state, request.session_id, request.row_check)
    keys, public_key = make_keys(state, request.client, request.key_bits, request.sigma, request.server_key)
    if aligned:
        state.ids = None
    plan = saved.part.plan
    state.session = Session(request.session_id, plan.config, keys, request.sigma)
    bits = value_bits(plan.config, plan.name, request.sigma, plan.rows_per_step)
    kind = DenseShare if plan.config.interactive == "dense" else ElementwiseShare
    state.shares[plan.name] = kind.restored(saved.share, bits, keys)
    state.phase = plan.name
    log_joined(state, request.key_bits)
    return Joined(state.local.table.n_rows, state.local.table.n_columns, public_key)


def embed_rows_to_score(state: ClientState, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the embeddings of these rows; their dither depends on nothing but them."""
    if state.saved is None or state.saved.part is None:
        raise ProtocolError("This client did not join to score rows.")
    if state.ids is not None and state.rows is None:
        raise ProtocolError("This client's rows have ids: they must be aligned first.")
    part = state.saved.part
    G = part.embed(state.local.table.take(rows))
    state.scoring = PendingScoring(part.dither(G))
    return G

"""Algorithm 2 at a client: sample gates, embed, encrypt; then decrypt and cancel its own share."""

from __future__ import annotations

import logging

from fedsdg.client.agreement import count_queries
from fedsdg.client.interactive_share import DenseShare, ElementwiseShare
from fedsdg.client.prediction import embed_rows_to_score
from fedsdg.client.state import ClientState, PendingBatch
from fedsdg.errors import ProtocolError
from fedsdg.learning.schedule import PhasePlan
from fedsdg.messages.secure_forward import (
    EmbedBatch,
    EncryptedEmbedding,
    MaskedSum,
    PhaseStarted,
    RemoveShare,
    StartPhase,
)
from fedsdg.messages.widths import value_bits

logger = logging.getLogger("fedsdg.client")


def start_phase(state: ClientState, request: StartPhase) -> PhaseStarted:
    """Draw W0 from the private seed and E from `secrets`; only their sum leaves."""
    session, local = state.joined, state.local
    fits = request.n_clients >= 1 and request.total_columns >= local.table.n_columns and request.task_outputs >= 1
    more_rows = request.name == "compact" and session.config.final_rows == "all"
    most = local.table.n_rows if more_rows else len(state.train_rows)
    if not fits or not len(state.train_rows) <= request.n_train_rows <= most:
        raise ProtocolError("A phase with sizes that do not fit this client's part of the job.")
    plan = PhasePlan(
        request.name,
        session.config,
        request.n_clients,
        request.total_columns,
        request.n_train_rows,
        request.task_outputs,
    )
    width = local.start_phase(plan)
    bits = value_bits(session.config, request.name, session.sigma, plan.rows_per_step)
    kind = DenseShare if session.config.interactive == "dense" else ElementwiseShare
    share = kind(local.learner.initial_weights(), bits, session.keys)
    state.shares[request.name] = share
    state.phase = request.name
    logger.info(
        "client %r starts the %s phase: %d embedding dimensions, %d steps",
        local.client_id,
        request.name,
        width,
        plan.steps,
    )
    return PhaseStarted(width, tuple(share.first_noisy_weights.ravel().tolist()))


def embed_batch(state: ClientState, request: EmbedBatch) -> EncryptedEmbedding:
    """A2.1: embed the batch in fixed point and encrypt it."""
    rows = request.rows
    if rows.ndim != 1 or len(rows) == 0 or rows.min() < 0 or rows.max() >= state.local.table.n_rows:
        raise ProtocolError("A batch names rows that this client does not have.")
    count_queries(state, rows)
    if request.purpose == "prediction":
        G = embed_rows_to_score(state, rows)
    else:
        if state.saved is not None:
            raise ProtocolError("This client joined to score rows, not to train.")
        state.answer_once(request.purpose, request.step)
        G = state.local.learner.embed(rows, request.step, request.purpose == "training")
        state.pending_batch = PendingBatch(request.step, request.purpose, len(rows))
    ciphertexts = state.share.embed(G, request.purpose == "training")
    return EncryptedEmbedding(ciphertexts.by_column, ciphertexts.by_sample, ciphertexts.share)


def remove_share(state: ClientState, request: RemoveShare) -> MaskedSum:
    """A2.3: decrypt what the server masked, take G E out, add the dither tau."""
    if state.scoring is not None:
        tau, state.scoring = state.scoring.dither, None
        return MaskedSum(state.share.remove(request.product, tau))
    batch, learner = state.pending_batch, state.local.learner
    if batch is None:
        raise ProtocolError("No batch waits for its forward pass.")
    outputs = learner.plan.outputs if state.joined.config.interactive == "dense" else len(learner.open_dimensions())
    tau = learner.forward_dither((batch.rows, outputs), batch.step, batch.purpose)
    return MaskedSum(state.share.remove(request.product, tau))

"""Algorithm 2 at a client: sample gates, embed, encrypt; then decrypt and cancel its own share."""

from __future__ import annotations

from fedsdg.client.interactive_share import DenseShare, ElementwiseShare
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


def start_phase(state: ClientState, request: StartPhase) -> PhaseStarted:
    """Draw W0 from the private seed and E from `secrets`; only their sum leaves."""
    session, local = state.joined, state.local
    fits = request.n_clients >= 1 and request.total_columns >= local.table.n_columns and request.task_outputs >= 1
    if not fits or request.n_train_rows != len(state.train_rows):
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
    rows = plan.batches.rows_per_batch * (session.config.mc_samples if plan.gated else 1)
    bits = value_bits(session.config, request.name, session.sigma, rows)
    kind = DenseShare if session.config.interactive == "dense" else ElementwiseShare
    share = kind(local.learner.initial_weights(), bits, session.keys)
    state.shares[request.name] = share
    state.phase = request.name
    return PhaseStarted(width, tuple(share.first_noisy_weights.ravel().tolist()))


def embed_batch(state: ClientState, request: EmbedBatch) -> EncryptedEmbedding:
    """A2.1: embed the batch in fixed point and encrypt it."""
    rows, predicting = request.rows, request.purpose == "prediction"
    table = state.prediction_table if predicting else state.local.table
    if table is None:
        raise ProtocolError("No rows to predict were loaded at this client.")
    if rows.ndim != 1 or len(rows) == 0 or rows.min() < 0 or rows.max() >= table.n_rows:
        raise ProtocolError("A batch names rows that this client does not have.")
    state.answer_once(request.purpose, request.step)
    training = request.purpose == "training"
    if predicting:
        G = state.local.embed_table(table.take(rows))
    else:
        G = state.local.learner.embed(rows, request.step, training)
    ciphertexts = state.share.embed(G, training)
    state.pending_batch = PendingBatch(request.step, request.purpose, len(rows))
    return EncryptedEmbedding(ciphertexts.by_column, ciphertexts.by_sample, ciphertexts.share)


def remove_share(state: ClientState, request: RemoveShare) -> MaskedSum:
    """A2.3: decrypt what the server masked, take G E out, add the dither tau."""
    batch, learner = state.pending_batch, state.local.learner
    if batch is None:
        raise ProtocolError("No batch waits for its forward pass.")
    outputs = learner.plan.outputs if state.joined.config.interactive == "dense" else len(learner.open_dimensions())
    tau = learner.forward_dither((batch.rows, outputs), batch.step, batch.purpose)
    return MaskedSum(state.share.remove(request.product, tau))

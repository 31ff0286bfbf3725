"""A client, as the server reaches it: one handler per request, in the order that `messages/order.py` allows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fedsdg.client.gini_initialization import mask_counts, unmask_scores
from fedsdg.client.secure_backward import apply_gradient
from fedsdg.client.secure_forward import embed_batch, remove_share, start_phase
from fedsdg.client.selection import (
    report_gates,
    restore_snapshot,
    save_snapshot,
    select_columns,
    use_phase,
)
from fedsdg.client.session import join_run, prepare_columns
from fedsdg.client.state import ClientState
from fedsdg.errors import FedSDGError, ProtocolError
from fedsdg.messages import codec
from fedsdg.messages.base import Message, Request
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, MaskedCounts, StartGatesAlike
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.order import next_state
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.secure_backward import ApplyGradient
from fedsdg.messages.secure_forward import EmbedBatch, RemoveShare, StartPhase
from fedsdg.messages.selection import ReportGates, RestoreSnapshot, SaveSnapshot, SelectColumns, UsePhase
from fedsdg.messages.session import Done, JoinRun, PrepareColumns

logger = logging.getLogger("fedsdg.client")


class ClientRole:
    """Answers requests, one at a time."""

    def __init__(self, state: ClientState) -> None:
        self.state = state
        #: The last error, in full: for this party's own log, never for the server.
        self.last_error: Exception | None = None

    def answer(self, blob: bytes) -> bytes:
        """Answer one encoded request. An error becomes a `Refusal` that names its type and nothing more."""
        try:
            request = codec.decode(blob)
            if not isinstance(request, Request):
                raise ProtocolError("A request was expected.")
            return codec.encode(self.handle(request))
        except Exception as error:
            self.last_error = error
            kind = type(error).__name__ if isinstance(error, FedSDGError) else "InternalError"
            logger.error("client %s refused a request: %s", self.state.local.client_id, kind)
            return codec.encode(Refusal(kind))

    def handle(self, request: Request[Any]) -> Message:
        """Answer one request, or raise and leave the order as it was."""
        following = next_state(self.state.order, request)
        reply = HANDLERS[type(request)](self.state, request)
        self.state.order = following
        return reply


def _count_labels(state: ClientState, request: CountLabels) -> MaskedCounts:
    session, local = state.joined, state.local
    layout = GiniLayout(
        len(state.train_rows),
        local.table.n_columns,
        session.config.binning.bins,
        request.n_classes,
        session.keys.encryptor.key.bits,
        session.sigma,
    )
    reply, state.pending_scores = mask_counts(request.indicators, local.binning, layout, session.keys.under_server_key)
    return reply


def _finish_scores(state: ClientState, request: FinishScores) -> Done:
    if state.pending_scores is None:
        raise ProtocolError("No scores wait for their sums.")
    state.local.initialise_gates(unmask_scores(state.pending_scores, request.sums, state.joined.keys.under_server_key))
    state.pending_scores = None
    return Done()


def _start_gates_alike(state: ClientState, request: StartGatesAlike) -> Done:
    state.local.initialise_gates(None)
    return Done()


HANDLERS: dict[type[Request[Any]], Callable[[ClientState, Any], Message]] = {
    JoinRun: join_run,
    PrepareColumns: prepare_columns,
    CountLabels: _count_labels,
    FinishScores: _finish_scores,
    StartGatesAlike: _start_gates_alike,
    StartPhase: start_phase,
    EmbedBatch: embed_batch,
    RemoveShare: remove_share,
    ApplyGradient: apply_gradient,
    ReportGates: report_gates,
    SaveSnapshot: save_snapshot,
    RestoreSnapshot: restore_snapshot,
    SelectColumns: select_columns,
    UsePhase: use_phase,
}

"""A client, as the server reaches it: one handler per request, in the order that `messages/order.py` allows."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from fedsdg.client.agreement import end_run, propose_job
from fedsdg.client.alignment import blind_ids, take_rows
from fedsdg.client.filter_scores import finish_filter, score_columns
from fedsdg.client.gini_initialization import mask_counts, unmask_scores
from fedsdg.client.prediction import join_prediction
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
from fedsdg.client.survival import finish_run, list_checkpoints, resume_run, save_checkpoint
from fedsdg.errors import FedSDGError, ProtocolError
from fedsdg.messages import codec
from fedsdg.messages.agreement import EndRun, ProposeJob
from fedsdg.messages.alignment import BlindIds, TakeRows
from fedsdg.messages.base import Message, Request
from fedsdg.messages.filter_scores import FinishFilter, ScoreColumns
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, MaskedCounts, StartGatesAlike
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.order import next_state
from fedsdg.messages.prediction import JoinPrediction
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.secure_backward import ApplyGradient
from fedsdg.messages.secure_forward import EmbedBatch, RemoveShare, StartPhase
from fedsdg.messages.selection import ReportGates, RestoreSnapshot, SaveSnapshot, SelectColumns, UsePhase
from fedsdg.messages.session import Done, JoinRun, PrepareColumns
from fedsdg.messages.survival import FinishRun, ListCheckpoints, ResumeRun, SaveCheckpoint

logger = logging.getLogger("fedsdg.client")


class ClientRole:
    """Answers requests, one at a time, each of them once."""

    def __init__(self, state: ClientState) -> None:
        self.state = state
        self._lock = threading.Lock()
        self._answered = b""  # digest of the last request that was answered
        self._reply = b""
        self._products: set[bytes] = set()  # digests of all products whose share was removed
        #: The last error, in full: for this party's own log, never for the server.
        self.last_error: Exception | None = None

    def answer(self, blob: bytes) -> bytes:
        """Answer one encoded request. An error becomes a `Refusal` that names its type and nothing more.

        A request that arrives again, byte for byte, because its reply was lost, gets the same reply again: it is not
        carried out twice, so no second share is drawn and no difference can be taken.
        """
        with self._lock:
            digest = hashlib.sha256(blob).digest()
            if digest != self._answered:
                reply, done = self._answer(blob)
                if not done:
                    return reply
                self._answered, self._reply = digest, reply
            return self._reply

    def _answer(self, blob: bytes) -> tuple[bytes, bool]:
        try:
            request = codec.decode(blob)
            if not isinstance(request, Request):
                raise ProtocolError("A request was expected.")
            reply = self.handle(request)
            encoded = codec.encode(reply)
            logger.debug(
                "client %r: %s of %d bytes received, %s of %d bytes sent",
                self.state.local.client_id,
                type(request).__name__,
                len(blob),
                type(reply).__name__,
                len(encoded),
            )
            return encoded, True
        except Exception as error:
            self.last_error = error
            kind = type(error).__name__ if isinstance(error, FedSDGError) else "InternalError"
            logger.error("client %s refused a request: %s", self.state.local.client_id, kind)
            return codec.encode(Refusal(kind)), False

    def handle(self, request: Request[Any]) -> Message:
        """Answer one request, or raise and leave the order as it was."""
        following = next_state(self.state.order, request)
        # A product names no step: a late copy of an old one would pass for the present one. Each is new by its nonces.
        product = hashlib.sha256(request.product).digest() if isinstance(request, RemoveShare) else b""
        if product in self._products:
            raise ProtocolError("The share was removed from this product before.")
        reply = HANDLERS[type(request)](self.state, request)
        if product:
            self._products.add(product)
        self.state.order = following
        return reply


def _count_labels(state: ClientState, request: CountLabels) -> MaskedCounts:
    session, local = state.joined, state.local
    layout = GiniLayout(
        len(local.binning.codes),
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
    logger.info("client %r: Gini scores of %d columns", state.local.client_id, state.local.table.n_columns)
    return Done()


def _start_gates_alike(state: ClientState, request: StartGatesAlike) -> Done:
    state.local.initialise_gates(None)
    return Done()


HANDLERS: dict[type[Request[Any]], Callable[[ClientState, Any], Message]] = {
    ProposeJob: propose_job,
    EndRun: end_run,
    JoinRun: join_run,
    BlindIds: blind_ids,
    TakeRows: take_rows,
    PrepareColumns: prepare_columns,
    CountLabels: _count_labels,
    FinishScores: _finish_scores,
    StartGatesAlike: _start_gates_alike,
    ScoreColumns: score_columns,
    FinishFilter: finish_filter,
    StartPhase: start_phase,
    EmbedBatch: embed_batch,
    RemoveShare: remove_share,
    ApplyGradient: apply_gradient,
    ReportGates: report_gates,
    SaveSnapshot: save_snapshot,
    RestoreSnapshot: restore_snapshot,
    SelectColumns: select_columns,
    UsePhase: use_phase,
    SaveCheckpoint: save_checkpoint,
    FinishRun: finish_run,
    ListCheckpoints: list_checkpoints,
    ResumeRun: resume_run,
    JoinPrediction: join_prediction,
}

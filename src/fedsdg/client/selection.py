"""Gates, snapshots and selection at a client. Names, positions and gate values stay here."""

from __future__ import annotations

import logging

from fedsdg.client.state import ClientState
from fedsdg.errors import ProtocolError
from fedsdg.messages.selection import (
    GateCounts,
    ReportGates,
    RestoreSnapshot,
    SaveSnapshot,
    SelectColumns,
    Selected,
    UsePhase,
)
from fedsdg.messages.session import Done

logger = logging.getLogger("fedsdg.client")


def report_gates(state: ClientState, request: ReportGates) -> GateCounts:
    """Count open gates."""
    report = state.local.gate_report()
    if request.with_values and state.joined.config.n_features is None:
        raise ProtocolError("Gate values are reported only when the job wishes a number of features.")
    values = tuple(float(v) for v in report.open_means) if request.with_values else ()
    return GateCounts(report.n_open, values, report.open_embeddings)


def save_snapshot(state: ClientState, request: SaveSnapshot) -> Done:
    """Keep learner and share of this step together."""
    state.local.save_snapshot(request.step)
    state.share_snapshots[state.phase, request.step] = state.share.copy_share()
    return Done()


def restore_snapshot(state: ClientState, request: RestoreSnapshot) -> Done:
    """Go back to learner and share of this step."""
    if (state.phase, request.step) not in state.share_snapshots:
        raise ProtocolError(f"There is no snapshot of step {request.step}.")
    state.local.restore_snapshot(request.step)
    state.share.restore_share(state.share_snapshots[state.phase, request.step])
    return Done()


def select_columns(state: ClientState, request: SelectColumns) -> Selected:
    """Fix the selected columns and free the snapshots."""
    if request.quota is not None and request.quota < 0:
        raise ProtocolError("A quota cannot be negative.")
    count = state.local.select(request.quota)
    state.share_snapshots.clear()
    logger.info("client %r selected %d of its %d columns", state.local.client_id, count, state.local.table.n_columns)
    return Selected(count)


def use_phase(state: ClientState, request: UsePhase) -> Done:
    """Return to the model of a phase; a client that took no part in it keeps quiet from now on."""
    if request.name not in state.shares:
        raise ProtocolError(f"The {request.name} phase was never started here.")
    state.local.use_phase(request.name)
    state.phase, state.kept = request.name, True
    logger.info("client %r keeps its model of the %s phase", state.local.client_id, request.name)
    return Done()

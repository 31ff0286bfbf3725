"""Checkpoints at a client: its own state, in its own folder, without keys.

What is written: gates and models, the share E of every phase, which steps were answered. What is not: private keys (a
resumed run makes new ones) and the table (it is read again, and must be the same).
"""

from __future__ import annotations

import logging

import numpy as np

from fedsdg.client.agreement import check_agreed
from fedsdg.client.interactive_share import DenseShare, ElementwiseShare, InteractiveShare
from fedsdg.client.session import log_joined, make_session
from fedsdg.client.state import ClientState
from fedsdg.errors import ProtocolError, StateFileError
from fedsdg.learning.client_files import write_client_files
from fedsdg.learning.schedule import PhasePlan
from fedsdg.messages.session import Done, Joined
from fedsdg.messages.survival import CheckpointNumbers, FinishRun, ListCheckpoints, ResumeRun, SaveCheckpoint
from fedsdg.messages.widths import value_bits
from fedsdg.state_files import Arrays, under_prefix, wide_from_array, wide_to_array, with_prefix

logger = logging.getLogger("fedsdg.client")


def save_checkpoint(state: ClientState, request: SaveCheckpoint) -> Done:
    """Write learner, gates, shares and the record of answered steps."""
    if state.checkpoints is None:
        raise ProtocolError("This client was started without a folder for checkpoints.")
    session = state.joined
    arrays, facts = state.local.to_state()
    arrays = with_prefix("local/", arrays)
    for phase, share in state.shares.items():
        arrays[f"share/{phase}"] = wide_to_array(share.share)
    for (phase, step), share_then in state.share_snapshots.items():
        arrays[f"share_snapshot/{phase}/{step}"] = wide_to_array(share_then)
    if state.rows is not None:
        arrays["rows"] = state.rows
    arrays["queries"] = state.queries
    state.checkpoints.save(
        request.number,
        arrays,
        {
            "run_id": session.run_id.hex(),
            "settings": session.config.model_dump_json(),
            "sigma": session.sigma,
            "key_bits": session.keys.encryptor.key.bits,
            "table": state.local.data_digest(),
            "local": facts,
            "phase": state.phase,
            "share_snapshots": [[phase, step] for phase, step in state.share_snapshots],
            "answered": sorted([list(key) for key in state.answered]),
        },
    )
    logger.info("client %r wrote checkpoint %d", state.local.client_id, request.number)
    return Done()


def list_checkpoints(state: ClientState, request: ListCheckpoints) -> CheckpointNumbers:
    """Answer with the whole checkpoints of this run."""
    if state.checkpoints is None:
        return CheckpointNumbers(())
    for number in state.checkpoints.damaged():
        logger.warning("client %r: its checkpoint %d is damaged and cannot be used", state.local.client_id, number)
    return CheckpointNumbers(state.checkpoints.numbers_of_run(request.run_id))


def resume_run(state: ClientState, request: ResumeRun) -> Joined:
    """Check everything first; then go back to the checkpoint with a fresh key."""
    check_agreed(state, "resume", request.settings, request.key_bits, request.sigma)
    if state.checkpoints is None:
        raise ProtocolError("This client was started without a folder for checkpoints.")
    arrays, facts = state.checkpoints.load(request.number)
    if facts["run_id"] != request.run_id.hex():
        raise ProtocolError("The checkpoint belongs to another run.")
    session, key = make_session(state, request)
    strength = (request.sigma, request.key_bits)
    if session.config.model_dump_json() != facts["settings"] or strength != (facts["sigma"], facts["key_bits"]):
        raise ProtocolError("The run was started with other settings.")
    local, rows = state.local, None
    if "rows" in arrays:
        rows = np.asarray(arrays["rows"], np.int64)
        if rows.max(initial=-1) >= local.table.n_rows:
            raise StateFileError("This client's table has changed since the checkpoint: it has fewer rows.")
    if local.data_digest(rows) != facts["table"]:
        raise StateFileError(
            "This client's table, how it is prepared, or its private seed has changed since the checkpoint; a run goes "
            "on with the same ones."
        )
    # A server that asks for this more often than it crashed wants something: see docs/reliability.md.
    session_number = state.checkpoints.note_session()
    logger.info(
        "client %s goes back to checkpoint %d, with fresh keys: session %d of this run",
        local.client_id,
        request.number,
        session_number,
    )
    state.checkpoints.forget_after(request.number)
    if rows is not None:
        local.take_rows(rows)
        state.rows = rows
    state.ids = None  # alignment lies behind
    local.restore_state(session.config, under_prefix("local/", arrays), facts["local"])
    state.session = session
    state.train_rows = local.train_rows
    _restore_shares(state, arrays, facts["local"]["plans"])
    state.share_snapshots = {
        (phase, step): wide_from_array(arrays[f"share_snapshot/{phase}/{step}"])
        for phase, step in facts["share_snapshots"]
    }
    state.answered = {(phase, purpose, step) for phase, purpose, step in facts["answered"]}
    state.queries = np.array(arrays["queries"], np.int64)
    state.phase = facts["phase"]
    log_joined(state, request.key_bits)
    return Joined(local.table.n_rows, local.table.n_columns, key)


def _restore_shares(state: ClientState, arrays: Arrays, plans: dict[str, dict[str, int]]) -> None:
    session = state.joined
    kind: type[InteractiveShare] = DenseShare if session.config.interactive == "dense" else ElementwiseShare
    for name, sizes in plans.items():
        plan = PhasePlan("gated" if name == "gated" else "compact", session.config, **sizes)
        bits = value_bits(session.config, name, session.sigma, plan.rows_per_step)
        state.shares[name] = kind.restored(wide_from_array(arrays[f"share/{name}"]), bits, session.keys)


def finish_run(state: ClientState, request: FinishRun) -> Done:
    """Keep this party's part of the model, if it has a folder for it."""
    if state.folder is not None:
        kept = state.kept and len(state.local.selected_positions) > 0
        share = state.shares[state.phase].share if kept else None
        write_client_files(
            state.folder, state.local, state.joined.run_id, share=share, sigma=state.joined.sigma, kept=kept
        )
    logger.info("client %r finished", state.local.client_id)
    state.kept_part = True
    return Done()

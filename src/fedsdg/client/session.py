"""A0 at a client: check the job, make a fresh key, prepare the rows."""

from __future__ import annotations

import hmac
import json
import logging

import numpy as np

from fedsdg.client.agreement import check_agreed
from fedsdg.client.interactive_share import ClientKeys
from fedsdg.client.state import ClientState, Session
from fedsdg.config import TrainingConfig
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, PublicKey
from fedsdg.crypto.masking import check_sigma
from fedsdg.errors import ConfigError, ProtocolError
from fedsdg.messages.session import Done, Joined, JoinRun, PrepareColumns, row_digest
from fedsdg.messages.survival import ResumeRun

logger = logging.getLogger("fedsdg.client")


def join_run(state: ClientState, request: JoinRun) -> Joined:
    """Check what is asked for before any key is made."""
    # A run whose parties have no checkpoint in common is resumed from its beginning.
    again = state.job is not None and state.job["kind"] == "resume"
    check_agreed(state, "resume" if again else "train", request.settings, request.key_bits, request.sigma)
    aligned = bool(request.row_check) and rows_agree(state, request.run_id, request.row_check)
    session, key = make_session(state, request)
    if state.checkpoints is not None:
        state.checkpoints.forget_after(-1)
        number = state.checkpoints.note_session()
        if number > 1:
            logger.info("client %s starts again from the beginning: session %d", state.local.client_id, number)
    if aligned:
        state.ids = None  # nothing is left to align
    state.session = session
    log_joined(state, request.key_bits)
    return Joined(state.local.table.n_rows, state.local.table.n_columns, key)


def log_joined(state: ClientState, key_bits: int) -> None:
    """Say in this party's log what it takes part with."""
    logger.info(
        "client %r joined: %d-bit keys, back end %s, %d rows, %d columns",
        state.local.client_id,
        key_bits,
        state.joined.keys.encryptor.backend,
        state.local.table.n_rows,
        state.local.table.n_columns,
    )


def make_session(state: ClientState, request: JoinRun | ResumeRun) -> tuple[Session, bytes]:
    """Check the job, make a fresh key, and return the session with this client's public key."""
    config = _settings(request.settings)
    keys, public_key = make_keys(state, request.client, request.key_bits, request.sigma, request.server_key)
    return Session(request.run_id, config, keys, request.sigma), public_key


def make_keys(
    state: ClientState, client: str, key_bits: int, sigma: int, server_key: bytes
) -> tuple[ClientKeys, bytes]:
    """Make a key that lives for this session only, if what the server asks for is strong enough."""
    if client != state.local.client_id:
        raise ProtocolError(f"This client is {state.local.client_id!r}; the request was meant for another.")
    if key_bits < state.minimum_key_bits:
        raise ProtocolError(f"This client takes part with keys of at least {state.minimum_key_bits} bits.")
    test = state.allow_test_keys
    check_sigma(sigma, allow_weak=test)
    under = PublicKey.from_bytes(server_key, bits=key_bits, allow_test_size=test)
    private_key = PrivateKey.generate(key_bits, allow_test_size=test)
    encryptor = Encryptor(private_key)
    return ClientKeys(encryptor, Decryptor(encryptor), Evaluator(under)), private_key.public_key.to_bytes()


def rows_agree(state: ClientState, run_id: bytes, row_check: bytes) -> bool:
    """Rows are said to be aligned already: believe it when the ids agree, and refuse when they do not."""
    if state.ids is not None and not hmac.compare_digest(row_digest(run_id, state.ids), row_check):
        raise ProtocolError(
            "The label owner says that all rows are aligned, and its list of ids differs from this client's."
        )
    return True


def _settings(text: str) -> TrainingConfig:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("The job's settings are not JSON.") from None
    if not isinstance(fields, dict):
        raise ConfigError("The job's settings are not a table.")
    return TrainingConfig(**fields)


def prepare_columns(state: ClientState, request: PrepareColumns) -> Done:
    """Learn preprocessing and bins on the training rows."""
    if state.ids is not None and state.rows is None:
        raise ProtocolError("This client's rows have ids: they must be aligned first.")
    if request.train_rows.ndim != 1 or len(np.unique(request.train_rows)) != len(request.train_rows):
        raise ProtocolError("Training rows are a list of different rows.")
    state.local.begin(state.joined.config, request.train_rows)
    state.train_rows = request.train_rows
    logger.info(
        "client %r prepared %d columns on %d training rows; %d of the columns cannot be used",
        state.local.client_id,
        state.local.table.n_columns,
        len(state.train_rows),
        len(state.local.notes),
    )
    return Done()

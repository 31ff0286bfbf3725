"""A0 at a client: check the job, make a fresh key, prepare the rows."""

from __future__ import annotations

import json

import numpy as np

from fedsdg.client.interactive_share import ClientKeys
from fedsdg.client.state import ClientState, Session
from fedsdg.config import TrainingConfig
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, PublicKey
from fedsdg.crypto.masking import check_sigma
from fedsdg.errors import ConfigError, ProtocolError
from fedsdg.messages.session import Done, Joined, JoinRun, PrepareColumns


def join_run(state: ClientState, request: JoinRun) -> Joined:
    """Check what is asked for before any key is made."""
    if request.client != state.local.client_id:
        raise ProtocolError(f"This client is {state.local.client_id!r}; the request was meant for another.")
    if request.key_bits < state.minimum_key_bits:
        raise ProtocolError(f"This client takes part with keys of at least {state.minimum_key_bits} bits.")
    check_sigma(request.sigma, allow_weak=state.allow_test_keys)
    test = state.allow_test_keys
    config = _settings(request.settings)
    server_key = PublicKey.from_bytes(request.server_key, bits=request.key_bits, allow_test_size=test)
    private_key = PrivateKey.generate(request.key_bits, allow_test_size=test)
    encryptor = Encryptor(private_key)
    keys = ClientKeys(encryptor, Decryptor(encryptor), Evaluator(server_key))
    state.session = Session(request.run_id, config, keys, request.sigma)
    table = state.local.table
    return Joined(table.n_rows, table.n_columns, private_key.public_key.to_bytes())


def _settings(text: str) -> TrainingConfig:
    try:
        fields = json.loads(text)
    except ValueError:
        raise ConfigError("The job's settings are not JSON.") from None
    if not isinstance(fields, dict):
        raise ConfigError("The job's settings are not a table.")
    return TrainingConfig(**fields)


def prepare_columns(state: ClientState, request: PrepareColumns) -> Done:
    """Learn preprocessing and bins on the training rows."""
    if request.train_rows.ndim != 1 or len(np.unique(request.train_rows)) != len(request.train_rows):
        raise ProtocolError("Training rows are a list of different rows.")
    state.local.begin(state.joined.config, request.train_rows)
    state.train_rows = request.train_rows
    return Done()

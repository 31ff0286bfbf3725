"""Scoring new rows at the label owner: Algorithm 2 with a finished model, fresh keys, and no labels."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import numpy as np

from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, PublicKey
from fedsdg.data.alignment import Alignment
from fedsdg.data.arrays import IntArray
from fedsdg.errors import DataError
from fedsdg.messages.base import Channel
from fedsdg.messages.prediction import JoinPrediction
from fedsdg.messages.session import Joined, row_digest
from fedsdg.messages.widths import value_bits
from fedsdg.server.alignment import align_rows
from fedsdg.server.model_files import ServerPart
from fedsdg.server.noisy_weights import DenseNoisyWeights, ElementwiseNoisyWeights, ServerKeys
from fedsdg.server.secure_forward import secure_forward

#: Rows of one exchange: enough to fill ciphertexts, few enough to keep messages small.
ROWS_PER_EXCHANGE = 1024


class PredictionSession:
    """One scoring session with every client that holds selected columns."""

    def __init__(
        self,
        channel: Channel,
        part: ServerPart,
        *,
        ids: Sequence[str] | None,
        n_rows: int | None,
        key_bits: int | None = None,
        allow_test_keys: bool = False,
    ) -> None:
        """`n_rows` where rows are aligned already (and with `ids`, clients check it); None where they are not."""
        self.channel, self.part = channel, part
        bits = key_bits or part.settings.key_bits
        sigma = part.settings.sigma
        private_key = PrivateKey.generate(bits, allow_test_size=allow_test_keys)
        encryptor = Encryptor(private_key)
        decryptor = Decryptor(encryptor)
        self.session_id = secrets.token_bytes(16)
        key = private_key.public_key.to_bytes()
        check = row_digest(self.session_id, ids) if n_rows is not None else b""
        replies: Mapping[str, Joined] = channel.exchange(
            {name: JoinPrediction(name, part.run_id, self.session_id, bits, sigma, key, check) for name in part.clients}
        )
        plan = part.learner.plan
        value_widths = value_bits(plan.config, plan.name, sigma, plan.rows_per_step)
        kind = DenseNoisyWeights if plan.config.interactive == "dense" else ElementwiseNoisyWeights
        self.weights = {}
        for name, joined in replies.items():
            if n_rows is not None and joined.n_rows != n_rows:
                raise DataError(f"client {name!r} has {joined.n_rows} rows and {n_rows} are to be scored; align them.")
            client_key = PublicKey.from_bytes(joined.public_key, bits=bits, allow_test_size=allow_test_keys)
            keys = ServerKeys(Evaluator(client_key), encryptor, decryptor)
            self.weights[name] = kind(part.weights[name], value_widths, keys)

    def align(self, ids: Sequence[str], order: np.random.Generator) -> Alignment:
        """Find the rows that all needed clients hold."""
        return align_rows(self.channel, list(self.weights), ids, self.session_id, order, minimum=0)

    def forward(self, n_rows: int) -> dict[str, IntArray]:
        """Return Z of every client for all rows."""
        parts: dict[str, list[IntArray]] = {name: [] for name in self.weights}
        for step, start in enumerate(range(0, n_rows, ROWS_PER_EXCHANGE)):
            rows = np.arange(start, min(n_rows, start + ROWS_PER_EXCHANGE), dtype=np.int64)
            for name, Z in secure_forward(self.channel, self.weights, rows, step, "prediction").items():
                parts[name].append(Z)
        return {name: np.concatenate(blocks) for name, blocks in parts.items()}

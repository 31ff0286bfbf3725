"""A finished model in use: all its parts in one process, scoring new rows as the parties would.

::

    model = Model.load("runs/first")
    scores = model.score(ids, {"web_shop": table, ...})      rows in any order, aligned by ids
    labels = model.predict({"web_shop": table, ...})         rows aligned already

Only clients that hold a selected column are asked. `masked` models are scored over encrypted messages with fresh keys:
the label owner alone gets scores, clients get nothing. A party that is missing is an error; nothing is filled in.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.crypto.layouts import plan_elementwise, plan_minibatch
from fedsdg.data.alignment import Alignment, align_in_the_clear
from fedsdg.data.arrays import FloatArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.identified import IdentifiedTable
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.client_files import SavedPart, read_client_files
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.objective import Objective
from fedsdg.learning.plain_training import predict_in_the_clear
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.messages.traffic import Traffic
from fedsdg.messages.widths import value_bits
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.model_files import ServerPart, read_server_files
from fedsdg.server.prediction import ROWS_PER_EXCHANGE, PredictionSession


@dataclass(frozen=True, eq=False)
class Scores:
    """The label owner's answer for every id that it asked for, in its own order."""

    ids: tuple[str, ...]
    scored: NDArray[np.bool_]
    """Whether a row was scored: only those that all needed clients hold."""
    missing_at: tuple[str, ...]
    """For ids without a score: the clients that do not hold them (empty text where scored)."""
    predictions: NDArray[np.generic]
    """Of the scored rows, in order."""
    probabilities: FloatArray | None
    """Of the scored rows (classification)."""
    classes: tuple[Any, ...] | None
    traffic: Traffic
    bytes_per_row: float
    bytes_per_row_without_selection: float
    """What the same batch would cost with every client and every embedding dimension."""


@dataclass(eq=False)
class Model:
    """A finished model with every party's part at hand."""

    server: ServerPart
    parts: Mapping[str, SavedPart]
    allow_test_keys: bool = False
    key_bits: int | None = None
    traffic: Traffic = field(default_factory=Traffic)
    """Messages and bytes of the last prediction (none in `plain`)."""

    @classmethod
    def load(cls, run: str | Path, bottom_models: Mapping[str, BottomModelFactory] | None = None) -> Model:
        """Load the model of a finished run from its folder."""
        folder = Path(run)
        if not (folder / "server" / "model.json").is_file():
            partial = folder.with_name(folder.name + ".partial")
            hint = f" The run did not finish; `fedsdg resume {folder}` goes on with it." if partial.is_dir() else ""
            raise ConfigError(f"{folder} holds no finished run.{hint}")
        server = read_server_files(folder / "server")
        parts = {}
        for name in server.clients:
            part = read_client_files(folder / "clients" / name, (bottom_models or {}).get(name))
            if part.run_id != server.run_id:
                raise ConfigError(f"{folder / 'clients' / name} belongs to another run.")
            parts[name] = part
        return cls(server, parts)

    @property
    def objective(self) -> Objective:
        """The task, with the labels' own terms."""
        return self.server.learner.objective

    @property
    def needed_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that a prediction reads, per needed client."""
        return {name: part.part.encoder.needed_columns for name, part in self.parts.items() if part.part is not None}

    def outputs(self, tables: Mapping[str, FeatureTable]) -> Tensor:
        """Return raw outputs for rows that are aligned already."""
        tables = self._needed(tables)
        rows = {name: table.n_rows for name, table in tables.items()}
        if len(set(rows.values())) > 1:
            raise DataError(f"the tables to predict differ in rows {rows}; align the parties' samples first")
        if not self.server.masked:
            return self._in_the_clear(tables)
        n_rows = next(iter(rows.values()))
        session = self._session(tables, None, None, n_rows)
        return self.server.learner.precise_outputs(session.forward(n_rows))

    def predict(self, tables: Mapping[str, FeatureTable]) -> NDArray[np.generic]:
        """Return predictions in the labels' own terms."""
        return self.objective.predictions(self.outputs(tables))

    def probabilities(self, tables: Mapping[str, FeatureTable]) -> FloatArray:
        """Return class probabilities."""
        return self.objective.probabilities(self.outputs(tables))

    def score(self, ids: Sequence[str], rows: Mapping[str, IdentifiedTable]) -> Scores:
        """Score these ids of the label owner with new rows of every needed client, in any order."""
        tables = self._needed({name: identified.table for name, identified in rows.items()})
        client_ids = {name: rows[name].ids for name in tables}
        order = np.random.default_rng(secrets.randbits(128))
        if self.server.masked:
            session = self._session(tables, client_ids, None, None)
            alignment = session.align(ids, order)
            slots = session.forward(alignment.common) if alignment.common else None
            outputs = None if slots is None else self.server.learner.precise_outputs(slots)
        else:
            alignment = align_in_the_clear(ids, client_ids, order, minimum=0)
            assert alignment.client_rows is not None
            taken = {name: table.take(alignment.client_rows[name]) for name, table in tables.items()}
            outputs = self._in_the_clear(taken) if alignment.common else None
        return self.scores(tuple(ids), alignment, outputs)

    def scores(self, ids: tuple[str, ...], alignment: Alignment, outputs: Tensor | None) -> Scores:
        """Bring the outputs of the common rows back into the label owner's order, with its own labels."""
        scored = np.zeros(len(ids), dtype=bool)
        scored[alignment.server_rows] = True
        missing_at = [
            "" if scored[row] else ", ".join(name for name, held in alignment.held.items() if row not in held)
            for row in range(len(ids))
        ]
        back = np.argsort(alignment.server_rows)  # from the common order to the label owner's
        objective = self.objective
        regression = objective.classes is None
        none = np.empty(0, np.float64 if objective.classes is None else objective.classes.dtype)
        count = max(1, alignment.common)
        return Scores(
            ids,
            scored,
            tuple(missing_at),
            none if outputs is None else objective.predictions(outputs)[back],
            None if outputs is None or regression else objective.probabilities(outputs)[back],
            None if objective.classes is None else tuple(objective.classes.tolist()),
            self.traffic,
            self.forward_bytes(count) / count,
            self.forward_bytes(count, selected=False) / count,
        )

    def forward_bytes(self, rows: int, *, selected: bool = True) -> int:
        """Return the bytes of ciphertexts and residues that score so many rows, in `masked`.

        Not `selected`: for a model of the same kind with every client and every embedding dimension.
        """
        plan, settings = self.server.learner.plan, self.server.settings
        key_bytes = (self.key_bits or settings.key_bits) // 8
        widths = (
            [len(self.server.learner.open_dimensions(name)) for name in self.server.clients]
            if selected
            else [plan.embedding] * len(self.server.card["columns"])
        )
        bits = value_bits(plan.config, plan.name, settings.sigma, plan.rows_per_step)
        total = 0
        for start in range(0, rows, ROWS_PER_EXCHANGE):
            batch = min(ROWS_PER_EXCHANGE, rows - start)
            for width in widths:
                if plan.config.interactive == "dense":
                    outputs = plan.outputs
                    blocks = len(plan_minibatch(8 * key_bytes, batch, width, outputs, bits).forward_blocks)
                else:
                    outputs = width
                    blocks = len(plan_elementwise(8 * key_bytes, batch, width, bits).forward_blocks)
                # A ciphertext is twice as wide as the key: [[G]] there, C1 back; then V, as wide as the key.
                total += 8 * batch + blocks * key_bytes * (2 * width + 2 * outputs + outputs)
        return total

    def _in_the_clear(self, tables: Mapping[str, FeatureTable]) -> Tensor:
        parts = {name: saved.part for name, saved in self.parts.items() if saved.part is not None}
        weights = {name: of_client.astype(np.int64) for name, of_client in self.server.weights.items()}
        return predict_in_the_clear(self.server.learner, parts, weights, tables)

    def _needed(self, tables: Mapping[str, FeatureTable]) -> dict[str, FeatureTable]:
        missing = [name for name in self.server.clients if name not in tables]
        if missing:
            raise DataError(
                f"a prediction needs the rows of every client that holds selected columns; missing: "
                f"{', '.join(missing)}. Nothing is filled in for a party that is absent."
            )
        for name in self.server.clients:
            part = self.parts[name].part
            assert part is not None
            part.check(tables[name], f"client {name!r}")
        return {name: tables[name] for name in self.server.clients}

    def _session(
        self,
        tables: Mapping[str, FeatureTable],
        client_ids: Mapping[str, tuple[str, ...]] | None,
        ids: Sequence[str] | None,
        n_rows: int | None,
    ) -> PredictionSession:
        bits = self.key_bits or self.server.settings.key_bits
        roles = {
            name: ClientRole(
                ClientState(
                    LocalClient(name, table, fresh_private_seed()),
                    minimum_key_bits=min(bits, 2048),
                    allow_test_keys=self.allow_test_keys,
                    ids=None if client_ids is None else client_ids[name],
                    saved=self.parts[name],
                )
            )
            for name, table in tables.items()
        }
        channel = InProcessChannel(roles)
        self.traffic = channel.traffic
        return PredictionSession(
            channel, self.server, ids=ids, n_rows=n_rows, key_bits=bits, allow_test_keys=self.allow_test_keys
        )

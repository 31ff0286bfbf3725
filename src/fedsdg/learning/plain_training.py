"""Training in one process, in the clear: one call from tables to a model, over `plain_federation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.client_part import ClientPart
from fedsdg.learning.fixed_point_layer import build_layer
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.objective import Score
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.learning.server_learner import ServerLearner
from fedsdg.learning.training_result import Progress, TrainingResult
from fedsdg.learning.two_phase_training import train


def predict_in_the_clear(
    server: ServerLearner,
    parts: Mapping[str, ClientPart],
    weights: Mapping[str, IntArray],
    tables: Mapping[str, FeatureTable],
) -> Tensor:
    """Return raw outputs for new rows; only clients that hold selected columns are asked."""
    missing = sorted(set(parts) - set(tables))
    if missing:
        raise DataError(f"a prediction needs the tables of all clients that hold selected columns; missing: {missing}")
    rows = {name: tables[name].n_rows for name in parts}
    if len(set(rows.values())) > 1:
        raise DataError(f"the tables to predict differ in rows {rows}; align the parties' samples first")
    slots = {}
    for name, part in parts.items():
        part.check(tables[name], f"client {name!r}")
        embeddings = part.embed(tables[name])
        layer = build_layer(part.plan.config.interactive, weights[name], part.plan.config.fixed_point)
        slots[name] = layer.forward(embeddings, part.dither(embeddings))
    return server.precise_outputs(slots)


@dataclass(eq=False)
class PlainModel:
    """A trained model together with the parties that hold its parts."""

    federation: PlainFederation
    result: TrainingResult

    @property
    def selected_columns(self) -> dict[str, tuple[str, ...]]:
        """Names of the selected columns, per client."""
        return {name: client.selected_columns for name, client in self.federation.clients.items()}

    @property
    def selected_positions(self) -> dict[str, IntArray]:
        """Positions of the selected columns in each client's own table."""
        return {name: client.selected_positions for name, client in self.federation.clients.items()}

    @property
    def clipped_embeddings(self) -> int:
        """Embedding values that had to be clipped while training the kept model."""
        return sum(self.federation.clients[name].learner.clipped_embeddings for name in self.federation.layers)

    def outputs(self, tables: Mapping[str, FeatureTable]) -> Tensor:
        """Return raw model outputs for new samples."""
        layers = self.federation.layers
        parts = {name: self.federation.clients[name].part() for name in self.result.server.asked}
        weights = {name: layer.weights for name, layer in layers.items()}
        return predict_in_the_clear(self.result.server, parts, weights, tables)

    def predict(self, tables: Mapping[str, FeatureTable]) -> NDArray[np.generic]:
        """Return predictions in the labels' own terms."""
        return self.result.server.objective.predictions(self.outputs(tables))

    def predict_probabilities(self, tables: Mapping[str, FeatureTable]) -> FloatArray:
        """Return rows x classes probabilities (classification)."""
        return self.result.server.objective.probabilities(self.outputs(tables))

    def score(self, tables: Mapping[str, FeatureTable], labels: ArrayLike) -> float:
        """Return accuracy or R squared on new samples."""
        predicted, truth = self.predict(tables), np.asarray(labels)
        if predicted.shape != truth.shape:
            raise DataError(f"{len(truth)} labels for {len(predicted)} rows")
        if self.result.server.objective.task == "regression":
            residual = np.asarray(predicted, dtype=np.float64) - truth
            return float(1 - np.mean(residual**2) / max(float(np.var(truth)), 1e-12))
        return float(np.mean(predicted == truth))

    @property
    def validation_score(self) -> Score:
        """Score on the validation rows."""
        return self.result.validation_score


def train_plain(
    tables: Mapping[str, FeatureTable],
    labels: ArrayLike,
    config: TrainingConfig | None = None,
    *,
    private_seeds: Mapping[str, bytes] | None = None,
    bottom_models: Mapping[str, BottomModelFactory] | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> PlainModel:
    """Select features and train a model, all parties in this process, nothing encrypted.

    ``private_seeds`` maps ``"server"`` and every client to its private seed; a missing one is drawn fresh.
    Given the seeds and ``config.seed`` a run is repeated bit for bit.
    """
    config = TrainingConfig() if config is None else config
    seeds = dict(private_seeds or {})
    clients = {
        name: LocalClient(name, table, seeds.get(name) or fresh_private_seed(), (bottom_models or {}).get(name))
        for name, table in tables.items()
    }
    if "server" in clients:
        raise ConfigError("a client cannot be called 'server'")
    federation = PlainFederation(clients)
    n_labels = len(np.asarray(labels))
    for name, table in tables.items():
        if table.n_rows != n_labels:
            raise DataError(
                f"client {name!r} has {table.n_rows} rows and there are {n_labels} labels; align them first"
            )
    result = train(federation, labels, config, seeds.get("server") or fresh_private_seed(), watch)
    return PlainModel(federation, result)

"""All parties in one process, in the clear: the reference that encrypted profiles must equal.

The clients' learners, the server's learner and every integer between them are those of a `masked` run. Only
the interactive weights differ: here they lie in the open, there nobody holds them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsdg.config import TrainingConfig
from fedsdg.data.alignment import Alignment, align_in_the_clear
from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError, DataError, StateFileError
from fedsdg.learning.client_files import write_client_files
from fedsdg.learning.fixed_point_layer import DenseLayer, ElementwiseLayer, build_layer
from fedsdg.learning.gini import gini_scores
from fedsdg.learning.local_client import GateReport, LocalClient
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.server_learner import InteractiveGradient
from fedsdg.state_files import Checkpoints, under_prefix


class PlainFederation:
    """All clients in this process, with interactive weights in the clear."""

    def __init__(
        self,
        clients: Mapping[str, LocalClient],
        ids: Mapping[str, Sequence[str]] | None = None,
        folders: Mapping[str, Path] | None = None,
    ) -> None:
        """`ids`: one per row of each client, where rows are not aligned yet; `folders`: where each client writes."""
        if not clients:
            raise ConfigError("no client takes part: at least one is needed")
        rows = {name: client.table.n_rows for name, client in clients.items()}
        if ids is None and len(set(rows.values())) > 1:
            raise DataError(f"the clients' tables differ in rows {rows}; align the parties' samples first")
        self.clients = dict(clients)
        self.run_id = secrets.token_bytes(16)
        self._ids = ids
        self._taken_rows: Mapping[str, IntArray] = {}
        self._folders = dict(folders or {})
        self._checkpoints = {name: Checkpoints(folder / "checkpoints") for name, folder in self._folders.items()}
        self._layers: dict[str, dict[str, DenseLayer | ElementwiseLayer]] = {}
        self._weights: dict[tuple[str, int], dict[str, IntArray]] = {}
        self._embeddings: dict[str, IntArray] = {}
        self._phase = ""

    @property
    def layers(self) -> dict[str, DenseLayer | ElementwiseLayer]:
        """The interactive layers of the present phase, one per taking-part client."""
        return self._layers[self._phase]

    def align(self, ids: Sequence[str], order: np.random.Generator) -> Alignment:
        """Intersect the ids in the clear."""
        if self._ids is None:
            raise ConfigError("the clients' rows have no ids to align by")
        alignment = align_in_the_clear(ids, self._ids, order)
        assert alignment.client_rows is not None
        self._take_rows(alignment.client_rows)
        return alignment

    def _take_rows(self, rows: Mapping[str, IntArray]) -> None:
        self._taken_rows = rows
        for name, of_client in rows.items():
            self.clients[name].take_rows(of_client)

    def columns(self) -> dict[str, int]:
        """Return the number of columns of every client."""
        return {name: client.table.n_columns for name, client in self.clients.items()}

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Let every client prepare its columns."""
        for client in self.clients.values():
            client.begin(config, train_rows)

    def initialise_gates(self, labels: IntArray | None, n_classes: int) -> None:
        """Score every client's columns in the clear."""
        for client in self.clients.values():
            client.initialise_gates(None if labels is None else gini_scores(client.binning, labels, n_classes))

    def start_phase(self, plan: PhasePlan, clients: tuple[str, ...]) -> dict[str, int]:
        """Start fresh learners and layers at these clients; return their embedding widths."""
        widths = {name: self.clients[name].start_phase(plan) for name in clients}
        self._phase = plan.name
        self._layers[plan.name] = {
            name: build_layer(
                plan.config.interactive, self.clients[name].learner.initial_weights(), plan.config.fixed_point
            )
            for name in clients
        }
        return widths

    def use_phase(self, name: str) -> None:
        """Return to the learners and layers of a phase that was started before."""
        self._phase = name
        for client in self.layers:
            self.clients[client].use_phase(name)

    def forward(self, rows: IntArray, step: int, purpose: str) -> dict[str, IntArray]:
        """Return Z_m = G_m W_m + tau_m of every taking-part client."""
        slots = {}
        for name, layer in self.layers.items():
            learner = self.clients[name].learner
            embeddings = learner.embed(rows, step, training=purpose == "training")
            if purpose == "training":
                self._embeddings[name] = embeddings
            slots[name] = self._weigh(name, layer, embeddings, step, purpose)
        return slots

    def backward(
        self, gradients: Mapping[str, InteractiveGradient], dithers: Mapping[str, IntArray], step: int
    ) -> None:
        """Bring every client dL/dG, with the weights of the forward pass, then update the weights."""
        for name, layer in self.layers.items():
            to_client = layer.backward(gradients[name].gradient, dithers[name])
            layer.update(self._embeddings.pop(name), gradients[name].step_gradient)
            self.clients[name].learner.apply_gradient(to_client, step)

    def drop_closed_dimensions(self) -> dict[str, tuple[int, ...]]:
        """Drop dead embedding dimensions; return the open ones of clients where something changed."""
        changed = {}
        for name, layer in self.layers.items():
            kept = self.clients[name].learner.drop_closed_dimensions()
            if kept is not None:
                layer.keep(kept)
                changed[name] = self.clients[name].learner.open_dimensions()
        return changed

    def open_embeddings(self) -> int:
        """Return how many embedding dimensions are still computed, over all taking-part clients."""
        return sum(len(self.clients[name].learner.open_dimensions()) for name in self.layers)

    def gate_reports(self) -> dict[str, GateReport]:
        """Return how many gates are open, per client."""
        return {name: self.clients[name].gate_report() for name in self.layers}

    def save_snapshot(self, step: int) -> None:
        """Remember learners and weights under this step."""
        self._weights[self._phase, step] = {name: layer.weights for name, layer in self.layers.items()}
        for name in self.layers:
            self.clients[name].save_snapshot(step)

    def restore_snapshot(self, step: int) -> None:
        """Go back to learners and weights of this step."""
        for name, layer in self.layers.items():
            self.clients[name].restore_snapshot(step)
            layer.restore(self._weights[self._phase, step][name])

    def select(self, quota: Mapping[str, int] | None) -> dict[str, int]:
        """Fix the selected columns; return their number per client."""
        self._weights.clear()
        return {name: client.select(None if quota is None else quota[name]) for name, client in self.clients.items()}

    def save_checkpoint(self, number: int) -> None:
        """Let every client write down its state."""
        for name, checkpoints in self._checkpoints.items():
            arrays, facts = self.clients[name].to_state()
            rows = {"rows": self._taken_rows[name]} if self._taken_rows else {}
            client = self.clients[name]
            facts |= {
                "run_id": self.run_id.hex(),
                "settings": client.learner.plan.config.model_dump_json(),
                "table": client.data_digest(),
            }
            checkpoints.save(number, {**arrays, **rows}, facts)

    def checkpoint_numbers(self, run_id: bytes) -> list[tuple[int, ...]]:
        """Return every client's whole checkpoints of this run."""
        return [checkpoints.numbers_of_run(run_id) for checkpoints in self._checkpoints.values()]

    def forget_checkpoints(self) -> None:
        """Let every client remove what was written before: the run starts again."""
        for checkpoints in self._checkpoints.values():
            checkpoints.forget_after(-1)

    def holds_part(self, name: str) -> bool:
        """Return whether a prediction will ask this client."""
        return name in self.layers and len(self.clients[name].selected_positions) > 0

    def finish(self) -> None:
        """Let every client keep its part of the model."""
        for name, folder in self._folders.items():
            write_client_files(folder, self.clients[name], self.run_id, share=None, sigma=0, kept=self.holds_part(name))

    def to_state(self) -> tuple[StateArrays, dict[str, Any]]:
        """Return weights and their snapshots: in the clear, as everything in this profile."""
        arrays: StateArrays = {}
        for phase, layers in self._layers.items():
            arrays |= {f"weights/{phase}/{name}": layer.weights for name, layer in layers.items()}
        for (phase, step), weights in self._weights.items():
            arrays |= {f"snapshot/{phase}/{step}/{name}": of_client for name, of_client in weights.items()}
        return arrays, {
            "run_id": self.run_id.hex(),
            "phase": self._phase,
            "phases": {phase: list(layers) for phase, layers in self._layers.items()},
            "snapshots": [[phase, step] for phase, step in self._weights],
        }

    def resume(self, config: TrainingConfig, number: int, arrays: StateArrays, facts: Mapping[str, Any]) -> None:
        """Let all parties go back to a checkpoint."""
        self.run_id = bytes.fromhex(facts["run_id"])
        loaded = {name: checkpoints.load(number) for name, checkpoints in self._checkpoints.items()}
        for name, (of_client, client_facts) in loaded.items():
            if client_facts["settings"] != config.model_dump_json():
                raise ConfigError("The run was started with other settings.")
            rows = of_client.get("rows")
            fewer = rows is not None and rows.max(initial=-1) >= self.clients[name].table.n_rows
            if fewer or self.clients[name].data_digest(rows) != client_facts["table"]:
                raise StateFileError(
                    f"client {name!r}: its table, how it is prepared, or its private seed has changed since the "
                    "checkpoint; a run goes on with the same ones."
                )
        for name, (of_client, client_facts) in loaded.items():
            self._checkpoints[name].forget_after(number)
            if "rows" in of_client:
                self._taken_rows = {**self._taken_rows, name: of_client["rows"]}
                self.clients[name].take_rows(of_client["rows"])
            self.clients[name].restore_state(config, of_client, client_facts)
        for phase, names in facts["phases"].items():
            self._layers[phase] = {
                name: build_layer(config.interactive, arrays[f"weights/{phase}/{name}"], config.fixed_point)
                for name in names
            }
        for phase, step in facts["snapshots"]:
            found = under_prefix(f"snapshot/{phase}/{step}/", arrays)
            self._weights[phase, step] = {name: found[name] for name in facts["phases"][phase]}
        self._phase = facts["phase"]

    def _weigh(
        self, name: str, layer: DenseLayer | ElementwiseLayer, embeddings: IntArray, step: int, purpose: str
    ) -> IntArray:
        dither = self.clients[name].learner.forward_dither((len(embeddings), layer.width), step, purpose)
        return layer.forward(embeddings, dither)

"""Everything one client does in a whole run, from its table to its selected columns.

::

    take_rows            bring the rows into the common order
    begin                prepare and bin the columns, on training rows only
    initialise_gates     with the Gini scores of Algorithm 1, or without
    start_phase          a fresh learner: gated on all columns, then compact on the selected ones
    ... learner.embed / apply_gradient, save_snapshot, restore_snapshot, gate_report ...
    select               fix the columns
    part                 what predicts later: the selected columns' share of the model

A message handler of a client role and the in-process simulation call the same methods. Column names, gate
positions and features stay in this object; a :class:`GateReport` is all that leaves it. A *feature* is a column of the
table; preprocessing may turn it into several *inputs* (a category into one per level), which share one gate.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.binning import Binning
from fedsdg.data.encoding import EncodingSettings, TableEncoder
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import DataError, ProtocolError
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.client_part import ClientPart
from fedsdg.learning.gate_initialization import embedding_start, initial_gates
from fedsdg.learning.gate_path import GatePath, count_open, open_embeddings
from fedsdg.learning.gini import GiniScores, sampled_rows
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.state_files import under_prefix, with_prefix

T = TypeVar("T")

SHUT = -10.0
"""The mean of a gate that no draw opens."""


@dataclass(frozen=True, eq=False)
class GateReport:
    """What the server may know about a client's gates: numbers, never names or positions."""

    n_open: int
    """Open input gates."""
    open_means: FloatArray
    """Their means, widest first. Needed (and to be sent) only when a number of features is wished for."""
    open_embeddings: int
    """Embedding dimensions whose gate is open."""


class LocalClient:
    """One client: its table, its private seed, and its learner of the present phase."""

    def __init__(
        self,
        client_id: str,
        table: FeatureTable,
        private_seed: bytes,
        bottom_model: BottomModelFactory | None = None,
        encoding: EncodingSettings | None = None,
    ) -> None:
        self.client_id = client_id
        self.table = table
        self._encoding = encoding
        self._own_streams = RandomStreams(private_seed, ("client", client_id))
        self.streams = self._dither_streams = self._own_streams
        self.gini_scores: GiniScores | None = None
        self.starting_gates: FloatArray | None = None
        self.final_gates: FloatArray | None = None
        self.gate_path: GatePath | None = None
        self._bottom_model = bottom_model
        self._config: TrainingConfig | None = None
        self._encoder: TableEncoder | None = None
        self._prepared: NDArray[np.float32] | None = None
        self._binning: Binning | None = None
        self.train_rows = np.empty(0, dtype=np.int64)
        self._learners: dict[str, ClientLearner] = {}
        self._phase = ""
        self._snapshots: dict[tuple[str, int], StateArrays] = {}
        self._selected = np.arange(table.n_columns, dtype=np.int64)
        self._open_embeddings: int | None = None

    def take_rows(self, rows: IntArray) -> None:
        """Keep these rows of the table, in this order: what all parties have in common."""
        self.table = self.table.take(rows)

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Prepare all rows with what the training rows teach, and bin the training rows."""
        if len(train_rows) == 0 or train_rows.min() < 0 or train_rows.max() >= self.table.n_rows:
            raise DataError(
                f"client {self.client_id!r}: its {self.table.n_rows} rows do not hold all training rows; "
                "align the parties' samples first"
            )
        # One seed must not serve two runs that differ: the same dither on other values would cancel in a difference.
        settings = config.model_dump_json().encode()
        self.streams = self._own_streams.bound_to(settings, train_rows, self.table.values[train_rows])
        self._dither_streams = self.streams.bound_to(self.table.values)
        self._config, self.train_rows = config, train_rows
        encoder = TableEncoder.fit(self.table, train_rows, self._encoding)
        self._encoder = encoder
        self._prepared = encoder.transform(self.table)
        scored = train_rows[sampled_rows(len(train_rows), config.seed)]
        self._binning = encoder.bins(self.table, scored, config.binning)

    @property
    def binning(self) -> Binning:
        """The bins of the scored training rows, for Algorithm 1."""
        return _ready(self._binning)

    @property
    def learner(self) -> ClientLearner:
        """The learner of the present phase."""
        return _ready(self._learners.get(self._phase))

    def use_phase(self, name: str) -> None:
        """Return to the learner of a phase that was started before."""
        self._phase = name

    def initialise_gates(self, scores: GiniScores | None) -> None:
        """Set the starting gates (no scores: all alike)."""
        self.gini_scores = scores
        gates = initial_gates(scores, self.table.n_columns, _ready(self._config).gates)
        # A column that cannot be learned from (constant, a copy of another) is never selected: its gate stays shut.
        unusable = _ready(self._encoder).unusable
        gates[[column in unusable for column in self.table.columns]] = SHUT
        self.starting_gates = gates

    def start_phase(self, plan: PhasePlan) -> int:
        """Start a phase with a fresh learner and return its embedding width."""
        prepared, owner = _ready(self._prepared), _ready(self._encoder).feature_of_input
        learner = ClientLearner(
            prepared if plan.gated else prepared[:, np.isin(owner, self._selected)],
            plan,
            self.streams,
            input_gates=_ready(self.starting_gates) if plan.gated else None,
            embedding_start=embedding_start(self.gini_scores, plan.config.gates),
            feature_of_input=owner if plan.gated else None,
            dither_streams=self._dither_streams,
            embedding=plan.embedding if plan.gated else self.compact_width(plan),
            bottom_model=self._bottom_model,
        )
        self._learners[plan.name] = learner
        self._phase = plan.name
        return learner.width

    def compact_width(self, plan: PhasePlan) -> int:
        """Return the embedding width of the compact phase: the narrowest that the gates came to, within limits."""
        if self._open_embeddings is None or plan.config.model == "linear":
            return plan.embedding
        return min(plan.embedding, max(plan.config.gates.narrowest_embedding, self._open_embeddings))

    def gate_report(self) -> GateReport:
        """Report how many gates are open now."""
        learner = self.learner
        means = _ready(learner.input_gates).means()
        gates = learner.embedding_gates
        dimensions = count_open(learner.open_dimensions(), None if gates is None else gates.selected())
        return GateReport(int((means > 0).sum()), np.sort(means[means > 0])[::-1], dimensions)

    def save_snapshot(self, step: int) -> None:
        """Remember the present state under this step."""
        self._snapshots[self._phase, step] = self.learner.snapshot()

    def restore_snapshot(self, step: int) -> None:
        """Go back to the state of this step."""
        if (self._phase, step) not in self._snapshots:
            raise ProtocolError(f"client {self.client_id!r} has no snapshot of step {step}")
        self.learner.restore(self._snapshots[self._phase, step])

    def select(self, quota: int | None = None) -> int:
        """Fix the selected columns (the ``quota`` widest gates, or all open ones) and return their number.

        Gates that are not selected are shut, so the gated model uses exactly the selected columns too.
        Snapshots are freed.
        """
        report = self.gate_report()
        gates = _ready(self.learner.input_gates)
        means = gates.means()
        count = report.n_open if quota is None else quota
        if count > report.n_open:
            raise ProtocolError(f"client {self.client_id!r}: asked to keep {count} of {report.n_open} open gates")
        self._selected = np.sort(np.argsort(-means, kind="stable")[:count])
        self.final_gates = means
        shut = np.setdiff1d(np.arange(len(means)), self._selected)
        means_in_use = means.copy()
        means_in_use[shut] = np.minimum(means[shut], 0.0)
        gates.restore(means_in_use)
        of_phase = {step: snapshot for (phase, step), snapshot in self._snapshots.items() if phase == self._phase}
        self.gate_path = GatePath.of(of_phase, len(means))
        # Gates of the embedding go on closing after the columns are found, and the compact model starts afresh: it need
        # not be as wide as the gated one was at the point that was chosen for its columns.
        self._open_embeddings = min((report.open_embeddings, *map(open_embeddings, of_phase.values())))
        self._snapshots.clear()
        return count

    @property
    def gate_sigma(self) -> float:
        """Standard deviation of the gate noise."""
        return _ready(self._config).gates.sigma

    @property
    def notes(self) -> dict[str, str]:
        """Columns that cannot be learned from, and why: for their owner."""
        return dict(_ready(self._encoder).unusable)

    def part(self) -> ClientPart:
        """Return what predicts from now on: the present phase's model on the selected columns."""
        return ClientPart.of(
            self.learner, _ready(self._encoder), self._selected, self._dither_streams.derive("prediction")
        )

    @property
    def selected_positions(self) -> IntArray:
        """Positions of the selected columns in this client's own table."""
        return self._selected.copy()

    @property
    def selected_columns(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return tuple(self.table.columns[position] for position in self._selected)

    def data_digest(self, rows: IntArray | None = None) -> str:
        """Return a digest of the table (or of these rows), how it is prepared, and the seed: for its owner alone.

        A run goes on with what it was started with, or not at all.
        """
        table = self.table if rows is None else self.table.take(rows)
        digest = hashlib.sha256(b"fedsdg table v1" + self._own_streams.key("same data"))
        wishes = None if self._encoding is None else self._encoding.model_dump(mode="json")
        levels = sorted((column, list(of_column)) for column, of_column in table.levels.items())
        digest.update(json.dumps([list(table.columns), list(table.kinds), levels, wishes]).encode())
        digest.update(np.ascontiguousarray(table.values).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def to_state(self) -> tuple[StateArrays, dict[str, Any]]:
        """Return everything that cannot be computed again from the table, the settings and the seed."""
        arrays: StateArrays = {"train_rows": self.train_rows, "selected": self._selected}
        for name in ("starting_gates", "final_gates"):
            if getattr(self, name) is not None:
                arrays[name] = np.asarray(getattr(self, name))
        if self.gate_path is not None:
            arrays |= with_prefix("gate_path/", self.gate_path.to_arrays())
        gini = self.gini_scores
        if gini is not None:
            arrays["gini_scores"], arrays["gini_bins"] = gini.scores, gini.n_bins
        for name, learner in self._learners.items():
            arrays |= with_prefix(f"learner/{name}/", learner.snapshot())
        for (name, step), snapshot in self._snapshots.items():
            arrays |= with_prefix(f"snapshot/{name}/{step}/", snapshot)
        return arrays, {
            "phase": self._phase,
            "open_embeddings": self._open_embeddings,
            "plans": {name: learner.plan.sizes() for name, learner in self._learners.items()},
            "snapshots": [[name, step] for name, step in self._snapshots],
            "gini": None if gini is None else [gini.label_impurity, gini.n_rows, gini.n_classes],
        }

    def restore_state(self, config: TrainingConfig, arrays: StateArrays, facts: Mapping[str, Any]) -> None:
        """Go on from `to_state`: the same table, settings and seed give the same learners."""
        self.begin(config, np.asarray(arrays["train_rows"], np.int64))
        if facts["gini"] is not None:
            impurity, n_rows, n_classes = facts["gini"]
            scores = GiniScores(arrays["gini_scores"], impurity, arrays["gini_bins"], n_rows, n_classes)
            self.gini_scores = scores
        self.starting_gates, self.final_gates = arrays.get("starting_gates"), arrays.get("final_gates")
        if "gate_path/steps" in arrays:
            self.gate_path = GatePath.from_arrays(under_prefix("gate_path/", arrays))
        self._selected = np.asarray(arrays["selected"], np.int64)
        self._open_embeddings = facts["open_embeddings"]
        for name, sizes in facts["plans"].items():
            self.start_phase(PhasePlan(name, config, **sizes))
            self.learner.restore(under_prefix(f"learner/{name}/", arrays))
        for name, step in facts["snapshots"]:
            self._snapshots[name, step] = under_prefix(f"snapshot/{name}/{step}/", arrays)
        self._phase = facts["phase"]


def _ready(value: T | None) -> T:
    if value is None:
        raise ProtocolError("a client was asked for something before the step that prepares it")
    return value

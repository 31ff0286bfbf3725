"""Everything one client does in a whole run, from its table to its selected columns.

::

    begin                prepare and bin the columns, on training rows only
    initialise_gates     with the Gini scores of Algorithm 1, or without
    start_phase          a fresh learner: gated on all columns, then compact on the selected ones
    ... learner.embed / apply_gradient, save_snapshot, restore_snapshot, gate_report ...
    select               fix the columns

A message handler of a client role and the in-process simulation call the same methods. Column names, gate
positions and features stay in this object; a :class:`GateReport` is all that leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import BoolArray, FloatArray, IntArray
from fedsdg.data.binning import Binning, bin_columns
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.preprocessing import Preprocessor
from fedsdg.errors import DataError, ProtocolError
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.gate_initialization import initial_gates
from fedsdg.learning.gini import GiniScores
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan

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
    ) -> None:
        self.client_id = client_id
        self.table = table
        self._own_streams = RandomStreams(private_seed, ("client", client_id))
        self.streams = self._dither_streams = self._own_streams
        self.gini_scores: GiniScores | None = None
        self.starting_gates: FloatArray | None = None
        self.final_gates: FloatArray | None = None
        self._bottom_model = bottom_model
        self._config: TrainingConfig | None = None
        self._preprocessor: Preprocessor | None = None
        self._prepared: NDArray[np.float32] | None = None
        self._binning: Binning | None = None
        self._constant: BoolArray = np.zeros(table.n_columns, dtype=bool)
        self._learners: dict[str, ClientLearner] = {}
        self._phase = ""
        self._snapshots: dict[tuple[str, int], StateArrays] = {}
        self._selected = np.arange(table.n_columns, dtype=np.int64)
        self._open_embeddings: int | None = None

    def begin(self, config: TrainingConfig, train_rows: IntArray) -> None:
        """Prepare all rows with what the training rows teach, and bin the training rows."""
        if len(train_rows) == 0 or train_rows.min() < 0 or train_rows.max() >= self.table.n_rows:
            raise DataError(
                f"client {self.client_id!r}: its {self.table.n_rows} rows do not hold all training rows; "
                "align the parties' samples first"
            )
        training_values = self.table.values[train_rows]
        # One seed must not serve two runs that differ: the same dither on other values would cancel in a difference.
        settings = config.model_dump_json().encode()
        self.streams = self._own_streams.bound_to(settings, train_rows.tobytes(), training_values.tobytes())
        self._dither_streams = self.streams.bound_to(self.table.values.tobytes())
        self._config = config
        self._constant = (training_values == training_values[0]).all(axis=0)
        self._preprocessor = Preprocessor.fit(training_values)
        self._prepared = self._preprocessor.transform(self.table.values)
        self._binning = bin_columns(training_values, config.binning)

    @property
    def binning(self) -> Binning:
        """The bins of the training rows, for Algorithm 1."""
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
        # A column that is constant on the training rows cannot be learned from; shut, it can never be selected.
        gates[self._constant] = SHUT
        self.starting_gates = gates

    def start_phase(self, plan: PhasePlan) -> int:
        """Start a phase with a fresh learner and return its embedding width."""
        prepared = _ready(self._prepared)
        learner = ClientLearner(
            prepared if plan.gated else prepared[:, self._selected],
            plan,
            self.streams,
            input_gates=_ready(self.starting_gates) if plan.gated else None,
            dither_streams=self._dither_streams,
            embedding=plan.embedding if plan.gated else self.compact_width(plan),
            bottom_model=self._bottom_model,
        )
        self._learners[plan.name] = learner
        self._phase = plan.name
        return learner.width

    def compact_width(self, plan: PhasePlan) -> int:
        """Return the embedding width of the compact phase: what the gates left open, within limits."""
        if self._open_embeddings is None or plan.config.model == "linear":
            return plan.embedding
        return min(plan.embedding, max(plan.config.gates.narrowest_embedding, self._open_embeddings))

    def gate_report(self) -> GateReport:
        """Report how many gates are open now."""
        learner = self.learner
        means = _ready(learner.input_gates).means()
        gates = learner.embedding_gates
        still_sent = np.array(learner.open_dimensions())
        open_embeddings = len(still_sent) if gates is None else int(gates.selected()[still_sent].sum())
        return GateReport(int((means > 0).sum()), np.sort(means[means > 0])[::-1], open_embeddings)

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
        self._open_embeddings = report.open_embeddings
        self.final_gates = means
        shut = np.setdiff1d(np.arange(len(means)), self._selected)
        means_in_use = means.copy()
        means_in_use[shut] = np.minimum(means[shut], 0.0)
        gates.restore(means_in_use)
        self._snapshots.clear()
        return count

    @property
    def gate_sigma(self) -> float:
        """Standard deviation of the gate noise."""
        return _ready(self._config).gates.sigma

    def has_phase(self, name: str) -> bool:
        """Return whether this client took part in a phase."""
        return name in self._learners

    def preprocessing_state(self) -> StateArrays:
        """Return what preprocessing learned, as named arrays."""
        return _ready(self._preprocessor).to_arrays()

    @property
    def selected_positions(self) -> IntArray:
        """Positions of the selected columns in this client's own table."""
        return self._selected.copy()

    @property
    def selected_columns(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return tuple(self.table.columns[position] for position in self._selected)

    def embed_table(self, table: FeatureTable) -> IntArray:
        """Return quantised embeddings of new samples, for a prediction."""
        if table.columns != self.table.columns:
            raise DataError(
                f"client {self.client_id!r}: predict with the columns of the training table, in their order"
            )
        prepared = _ready(self._preprocessor).transform(table.values)
        learner = self.learner
        columns = prepared if learner.plan.gated else prepared[:, self._selected]
        return learner.embed_features(torch.from_numpy(np.ascontiguousarray(columns)))


def _ready(value: T | None) -> T:
    if value is None:
        raise ProtocolError("a client was asked for something before the step that prepares it")
    return value

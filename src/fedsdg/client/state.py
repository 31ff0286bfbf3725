"""All that one client holds during a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsdg.client.gini_initialization import PendingScores
from fedsdg.client.interactive_share import ClientKeys, InteractiveShare
from fedsdg.client.policy import Policy
from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import FloatArray
from fedsdg.errors import ProtocolError
from fedsdg.learning.client_files import SavedPart
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages.order import FIRST_STATE
from fedsdg.state_files import Checkpoints


@dataclass(eq=False)
class Session:
    """What is fixed once the client has joined a job."""

    run_id: bytes
    config: TrainingConfig
    keys: ClientKeys
    sigma: int


@dataclass(eq=False)
class PendingBatch:
    """A batch between its embedding and its gradient."""

    step: int
    purpose: str
    rows: int


@dataclass(eq=False)
class PendingScoring:
    """Rows to score between their embedding and the end of their forward pass."""

    dither: npt.NDArray[np.int64]


@dataclass(eq=False)
class ClientState:
    """A client's data, learner, key and shares. Nothing of it is ever sent as it is."""

    local: LocalClient
    minimum_key_bits: int = 2048
    allow_test_keys: bool = False
    order: str = FIRST_STATE
    session: Session | None = None
    #: The ids of the rows of `local.table`, in order; None where the parties' rows are aligned already.
    ids: tuple[str, ...] | None = None
    #: Between A0.4 and A0.5: the row at each position of the shuffled list that was sent.
    pending_alignment: npt.NDArray[np.int64] | None = None
    pending_scores: PendingScores | None = None
    #: Unmasks the sums of a filter, between F.2 and F.3; and what the last filter found, one score per column.
    pending_filter: Callable[[bytes], FloatArray] | None = None
    filter_scores: FloatArray | None = None
    train_rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    shares: dict[str, InteractiveShare] = field(default_factory=dict)
    phase: str = ""
    pending_batch: PendingBatch | None = None
    #: Rows of the whole table that take part, where they were aligned.
    rows: npt.NDArray[np.int64] | None = None
    #: The phase whose model is kept, once that is known, if this client took part in it.
    kept: bool = False
    #: Whether this party's part of the finished model was written (or would have been, had it a folder).
    kept_part: bool = False
    #: The part of an earlier run's model, for a prediction.
    saved: SavedPart | None = None
    scoring: PendingScoring | None = None
    #: This party's rules, and the job that was agreed on under them; without rules no agreement is needed.
    policy: Policy | None = None
    job: dict[str, Any] | None = None
    maximum_queries: int | None = None
    queries: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    #: Where this party's own files go: nowhere, if it only tries something.
    folder: Path | None = None
    checkpoints: Checkpoints | None = None
    answered: set[tuple[str, str, int]] = field(default_factory=set)
    share_snapshots: dict[tuple[str, int], npt.NDArray[np.object_]] = field(default_factory=dict)

    @property
    def joined(self) -> Session:
        """The session, once there is one."""
        if self.session is None:
            raise ProtocolError("The client has not joined a run.")
        return self.session

    @property
    def share(self) -> InteractiveShare:
        """The share of the present phase."""
        if self.phase not in self.shares:
            raise ProtocolError("No phase was started.")
        return self.shares[self.phase]

    def answer_once(self, purpose: str, step: int) -> None:
        """Refuse to embed for the same step twice: two answers with one dither would leak a difference."""
        key = (self.phase, purpose, step)
        if key in self.answered:
            raise ProtocolError(f"Step {step} ({purpose}) was answered before.")
        self.answered.add(key)

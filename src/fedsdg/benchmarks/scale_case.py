"""One case of the scale benchmark, in a process of its own: alignment, Gini and one epoch in `masked`.

::

    python -m fedsdg.benchmarks.scale_case '{"rows": 1000, "columns": 100, "clients": 2, "key_bits": 2048}'

prints one JSON object. A process of its own, because peak memory never falls: a second case would inherit the first
one's. All parties live in that process, so its memory is that of all of them together.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any, TypeVar

import numpy as np
from torch import nn

from fedsdg.api import check_tables
from fedsdg.client.role import ClientRole
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import WeakKeyWarning
from fedsdg.job import RunSettings
from fedsdg.learning.model_state import adam_step, build_adam
from fedsdg.messages.base import Message, Request
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.simulation import PartyTables, simulate

R = TypeVar("R", bound=Message)

#: A phase of the benchmark ends when this request has been answered by all clients.
ENDS = {"JoinRun": "keys", "TakeRows": "align", "PrepareColumns": "prepare", "FinishScores": "gini"}
PHASES = ("keys", "align", "prepare", "gini", "gated")
BATCH = 128
#: Columns that the label depends on, at the first client.
INFORMATIVE = 5


@dataclass(frozen=True)
class Case:
    """The sizes of one run; `columns` are those of all clients together."""

    rows: int
    columns: int
    clients: int
    key_bits: int = 2048

    @property
    def name(self) -> str:
        """The sizes in words."""
        parties = f"{self.clients} client{'s' if self.clients > 1 else ''}"
        return f"{self.rows:,} rows x {self.columns:,} columns, {parties}"


class PhaseChannel(InProcessChannel):
    """Notes wall seconds, CPU seconds and the peak memory at the end of each phase."""

    def __init__(self, roles: Mapping[str, ClientRole]) -> None:
        super().__init__(roles)
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.peak_mib: dict[str, float] = {}
        self.largest_message = 0
        self._since = time.perf_counter(), time.process_time()

    def exchange(self, requests: Mapping[str, Request[R]]) -> Mapping[str, R]:
        """See `Channel.exchange`."""
        replies = super().exchange(requests)
        kind = type(next(iter(requests.values()))).__name__
        if kind in ENDS:
            self.end(ENDS[kind])
        return replies

    def carry(self, client: str, kind: str, blob: bytes, *, to_server: bool) -> None:
        """Count a message and remember the largest."""
        super().carry(client, kind, blob, to_server=to_server)
        self.largest_message = max(self.largest_message, len(blob))

    def end(self, phase: str) -> None:
        """Close a phase."""
        now = time.perf_counter(), time.process_time()
        self.seconds[phase], self.cpu_seconds[phase] = (
            after - before for before, after in zip(self._since, now, strict=True)
        )
        self.peak_mib[phase] = peak_mib()
        self._since = now


def measure(case: Case) -> dict[str, Any]:
    """Run one case and return what it cost."""
    warm_up()
    data = tables(case)
    tables_mib = sum(table.values.nbytes for table in data.tables.values()) / 2**20
    before = peak_mib()
    settings = one_epoch(data)
    small = case.key_bits < 2048
    channels: list[PhaseChannel] = []

    def channel(roles: Mapping[str, ClientRole]) -> PhaseChannel:
        channels.append(PhaseChannel(roles))
        return channels[0]

    load = os.getloadavg()[0]
    simulation = simulate(
        data, settings, channel_type=channel, allow_test_keys=small, key_bits=case.key_bits if small else None
    )
    channels[0].end("gated")
    traffic, history = simulation.traffic, simulation.history
    steps = [after.seconds - before.seconds for before, after in pairwise(history)]  # the last one also validates
    return {
        **asdict(case),
        "backend": simulation.federation.backend,
        "steps": settings.training.gated_phase.steps,
        "seconds": with_total(channels[0].seconds),
        "cpu_seconds": with_total(channels[0].cpu_seconds),
        "step_seconds": round(median(steps[:-1] or [0.0]), 4),
        "load": round(load, 2),
        "bytes": traffic.total,
        "messages": sum(traffic.messages.values()),
        "largest_message_bytes": channels[0].largest_message,
        "tables_mib": round(tables_mib, 1),
        "before_mib": round(before, 1),
        "peak_mib_after": {phase: round(channels[0].peak_mib[phase], 1) for phase in PHASES},
        "peak_mib": round(peak_mib(), 1),
    }


def warm_up() -> None:
    """Let torch load what it loads when the first optimiser is made: seconds that belong to no phase."""
    model = nn.Linear(1, 1)
    adam_step(build_adam(model, 0.1, 0.0), 0.1)


def tables(case: Case) -> PartyTables:
    """Make tables whose rows lie in another order at every party: normal columns, some of which make the label."""
    stream = np.random.default_rng(1)
    ids = [f"row-{row:08d}" for row in range(case.rows)]
    labels = np.zeros(case.rows, np.int64)
    made: dict[str, FeatureTable] = {}
    client_ids: dict[str, tuple[str, ...]] = {}
    for number, own in enumerate(np.array_split(np.arange(case.columns), case.clients)):
        values = stream.standard_normal((case.rows, len(own)))
        order = stream.permutation(case.rows)  # row k of this client is the person order[k]
        if number == 0:
            score = values[:, :INFORMATIVE].sum(axis=1) + stream.standard_normal(case.rows)
            labels[order] = score > 0
        made[f"client_{number + 1}"] = FeatureTable.of(values, [f"x{column}" for column in own])
        client_ids[f"client_{number + 1}"] = tuple(ids[person] for person in order)
    return PartyTables(labels, made, ids=tuple(ids), client_ids=client_ids)


def one_epoch(data: PartyTables) -> RunSettings:
    """Return settings with as many gated steps as there are batches of training rows, and one validation pass."""

    def settings(steps: int) -> RunSettings:
        training = TrainingConfig(
            retrain=False,
            gated_phase=PhaseSettings(steps=steps, batch_size=BATCH),
            validation=ValidationSettings(every=steps),
        )
        return RunSettings(test_fraction=0, checkpoint_every=0, training=training)

    return settings(max(1, check_tables(data, settings(1)).training // BATCH))


def with_total(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of all phases, and of all together."""
    return {**{phase: round(seconds[phase], 3) for phase in PHASES}, "total": round(sum(seconds.values()), 3)}


def peak_mib() -> float:
    """Return the most memory that this process has had so far."""
    try:
        # Not rusage's maximum: on Linux that one includes the process that started this one.
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakKeyWarning)  # of a quick run, which measures nothing
        print(json.dumps(measure(Case(**json.loads(sys.argv[1])))))

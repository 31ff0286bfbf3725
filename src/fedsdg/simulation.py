"""A whole job in one process: build the parties, train with a profile, keep what every face needs afterwards.

`plain` computes in the clear; `masked` runs the real roles over encoded, counted, encrypted messages. Both drive the
same procedure (`server.run`) and learn the same model, bit for bit, from the same private seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.encoding import EncodingSettings
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError
from fedsdg.job import SERVER, RunSettings
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.client_files import SavedPart
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.objective import Objective, Score
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.learning.training_result import TrainingResult
from fedsdg.learning.two_phase_training import train_on_all_columns
from fedsdg.messages.traffic import Traffic
from fedsdg.prediction import Model
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.federation import Checkpoint, MaskedFederation
from fedsdg.server.keeper import newest_common, numbers_of_clients, run_id_of
from fedsdg.server.model_files import ServerPart
from fedsdg.server.run import LabelledRows, Outcome, Update, held_out, run_job
from fedsdg.state_files import Arrays, Checkpoints, Facts, under_prefix

__all__ = ["SERVER", "PartyTables", "Simulation", "Storage", "Update", "score_with_all_features", "simulate"]


@dataclass(frozen=True, eq=False)
class PartyTables:
    """Data of all parties: labels, and one table per client (the label owner may be one of them).

    Without `client_ids` all rows are aligned: row i is the same person everywhere.
    """

    labels: NDArray[np.generic]
    tables: Mapping[str, FeatureTable]
    label_owner: str = SERVER
    ids: tuple[str, ...] | None = None
    """The label owner's ids: for the alignment, and for the label draws of `label_epsilon`."""
    label_key: bytes | None = field(default=None, repr=False)
    """The label owner's lasting key for those draws; without it they are drawn for one run only."""
    client_ids: Mapping[str, tuple[str, ...]] | None = None
    """The ids of every client's rows, where they are not aligned yet."""
    encodings: Mapping[str, EncodingSettings] = field(default_factory=dict)
    """How a client prepares its columns, where it has wishes."""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How each party's rows are read (id column, kinds of columns): kept with its part, for the rows to predict."""

    def __post_init__(self) -> None:
        if not self.tables:
            raise ConfigError("no client takes part: at least one is needed")
        if SERVER in self.tables:
            raise ConfigError("a client cannot be called 'server'")
        for name, table in self.tables.items():
            if self.client_ids is None and table.n_rows != len(self.labels):
                raise DataError(
                    f"client {name!r} has {table.n_rows} rows and there are {len(self.labels)} labels; align them first"
                )

    @property
    def labelled(self) -> LabelledRows:
        """What the label owner brings."""
        return LabelledRows(self.labels, self.ids, self.label_key)


@dataclass(frozen=True)
class Storage:
    """Where the parties of a simulation write: each into a folder of its own."""

    server: Path
    clients: Mapping[str, Path]

    @property
    def checkpoints(self) -> Checkpoints:
        """The server's checkpoints."""
        return Checkpoints(self.server / "checkpoints")


@dataclass(eq=False)
class Simulation:
    """A finished run with all parties at hand."""

    settings: RunSettings
    clients: dict[str, LocalClient]
    federation: Any
    channel: InProcessChannel | None
    outcome: Outcome
    seeds: Mapping[str, bytes] = field(repr=False)
    allow_test_keys: bool = False

    @property
    def result(self) -> TrainingResult:
        """What training found."""
        return self.outcome.result

    @property
    def test_score(self) -> Score | None:
        """The score on rows that nobody learned from."""
        return self.outcome.test_score

    @property
    def test_rows(self) -> IntArray:
        """Those rows, in the common order."""
        return self.outcome.test_rows

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds by phase."""
        return self.outcome.seconds

    @property
    def history(self) -> list[Update]:
        """Every step."""
        return self.outcome.history

    @property
    def notes(self) -> list[str]:
        """What a reader of the result should know."""
        return self.outcome.notes

    @property
    def traffic(self) -> Traffic:
        """Messages and bytes (none in `plain`)."""
        return self.channel.traffic if self.channel is not None else Traffic()

    @property
    def objective(self) -> Objective:
        """The task, with the labels' own terms."""
        return self.result.server.objective

    def model(self) -> Model:
        """Return the finished model with all its parts in memory."""
        learner, masked = self.result.server, self.channel is not None
        weights = self.federation.weights if masked else self.federation.layers
        server = ServerPart(
            self.federation.run_id,
            self.settings,
            learner,
            {
                name: of_client.noisy if masked else of_client.weights.astype(object)
                for name, of_client in weights.items()
            },
            {"columns": {name: client.table.n_columns for name, client in self.clients.items()}},
        )
        sigma = self.settings.sigma
        parts = {
            name: SavedPart(
                self.federation.run_id,
                self.clients[name].part(),
                self.channel.roles[name].state.share.share if self.channel is not None else None,
                sigma,
                {},
            )
            for name in learner.asked
        }
        bits = self.federation.key_bits if masked else None
        return Model(server, parts, self.allow_test_keys, bits)

    def outputs(self, tables: Mapping[str, FeatureTable]) -> Tensor:
        """Return the model's raw outputs for aligned new rows of all clients that hold selected columns."""
        return self.model().outputs(tables)

    def predict(self, tables: Mapping[str, FeatureTable]) -> NDArray[np.generic]:
        """Return predictions in the labels' own terms."""
        return self.model().predict(tables)

    def probabilities(self, tables: Mapping[str, FeatureTable]) -> FloatArray:
        """Return class probabilities."""
        return self.model().probabilities(tables)


def simulate(
    data: PartyTables,
    settings: RunSettings,
    *,
    private_seeds: Mapping[str, bytes] | None = None,
    bottom_models: Mapping[str, BottomModelFactory] | None = None,
    watch: Callable[[Update], None] = lambda update: None,
    channel_type: Callable[[Mapping[str, ClientRole]], InProcessChannel] = InProcessChannel,
    allow_test_keys: bool = False,
    key_bits: int | None = None,
    storage: Storage | None = None,
    resume: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Simulation:
    """Run the whole method. Missing private seeds are drawn fresh.

    With `storage`, every party writes checkpoints and its part of the model into its own folder; `resume` goes on from
    the newest checkpoint that all parties have (from the beginning, if there is none).
    """
    with one_torch_thread():
        seeds = {name: (private_seeds or {}).get(name) or fresh_private_seed() for name in (SERVER, *data.tables)}
        clients = {
            name: LocalClient(name, table, seeds[name], (bottom_models or {}).get(name), data.encodings.get(name))
            for name, table in data.tables.items()
        }
        bits = key_bits or settings.key_bits
        parties = _Parties(data, settings, clients, storage, bits, allow_test_keys)
        federation: PlainFederation | MaskedFederation
        channel = None if settings.profile == "plain" else channel_type(parties.roles())
        if channel is None:
            federation, resumed = parties.in_the_clear(resume)
        else:
            federation, resumed = parties.masked(channel, resume)
        outcome = run_job(
            federation,
            data.labelled,
            settings,
            seeds[SERVER],
            align=parties.to_align,
            watch=watch,
            traffic=channel.traffic if channel else None,
            checkpoints=storage.checkpoints if storage else None,
            resumed=resumed,
            stop=stop,
        )
        return Simulation(settings, clients, federation, channel, outcome, seeds, allow_test_keys)


@dataclass(frozen=True, eq=False)
class _Parties:
    """Builds a federation out of parties in this process."""

    data: PartyTables
    settings: RunSettings
    clients: dict[str, LocalClient]
    storage: Storage | None
    key_bits: int
    allow_test_keys: bool

    @property
    def to_align(self) -> bool:
        """Whether rows are brought together by ids."""
        return self.data.client_ids is not None and self.settings.ids == "private"

    def roles(self) -> dict[str, ClientRole]:
        return {name: ClientRole(self._state(name, client)) for name, client in self.clients.items()}

    def _state(self, name: str, client: LocalClient) -> ClientState:
        folder = self.storage.clients[name] if self.storage else None
        return ClientState(
            client,
            minimum_key_bits=min(self.key_bits, 2048),
            allow_test_keys=self.allow_test_keys,
            ids=None if self.data.client_ids is None else self.data.client_ids[name],
            folder=folder,
            checkpoints=None if folder is None else Checkpoints(folder / "checkpoints"),
        )

    def in_the_clear(self, resume: bool) -> tuple[PlainFederation, tuple[Arrays, Facts] | None]:
        for name, own in (self.data.client_ids or {}).items():
            if not self.to_align and self.data.ids is not None and own != self.data.ids:
                raise DataError(
                    f"client {name!r}: all rows are said to be aligned, and its ids differ from the labels'"
                )
        ids = self.data.client_ids if self.to_align else None
        federation = PlainFederation(self.clients, ids, None if self.storage is None else self.storage.clients)
        if self.storage is None:
            return federation, None
        written = self.storage.checkpoints
        run_id = run_id_of(written) if resume else None
        number = None if run_id is None else newest_common(written, federation.checkpoint_numbers(run_id))
        if number is None:
            federation.forget_checkpoints()
            return federation, None
        arrays, facts = written.load(number)
        federation.resume(self.settings.training, number, under_prefix("federation/", arrays), facts["federation"])
        return federation, (arrays, facts)

    def masked(self, channel: InProcessChannel, resume: bool) -> tuple[MaskedFederation, tuple[Arrays, Facts] | None]:
        checkpoint, resumed = None, None
        if resume and self.storage is not None:
            own = self.storage.checkpoints
            run_id = run_id_of(own)
            number = (
                None if run_id is None else newest_common(own, numbers_of_clients(channel, list(self.clients), run_id))
            )
            if number is not None and run_id is not None:
                arrays, facts = resumed = own.load(number)
                checkpoint = Checkpoint(number, run_id, under_prefix("federation/", arrays), facts["federation"])
        federation = MaskedFederation(
            channel,
            list(self.clients),
            self.settings.training,
            key_bits=self.key_bits,
            sigma=self.settings.sigma,
            n_rows=None if self.to_align or checkpoint is not None else len(self.data.labels),
            ids=None if self.to_align or self.data.client_ids is None else self.data.ids,
            checkpoint=checkpoint,
            allow_test_keys=self.allow_test_keys,
        )
        return federation, resumed


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch on one thread: the models are small, and results must not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def score_with_all_features(data: PartyTables, settings: RunSettings, seeds: Mapping[str, bytes]) -> float:
    """Train the same model on every column, in the clear, and score it on the same held-out rows."""
    clients = {name: LocalClient(name, table, seeds[name]) for name, table in data.tables.items()}
    federation = PlainFederation(clients)
    fit_rows, test_rows = held_out(data.labels, settings, seeds[SERVER])
    with one_torch_thread():
        server = train_on_all_columns(federation, data.labels, settings.training, seeds[SERVER], rows=fit_rows)
        return server.score(federation.forward(test_rows, 0, "test"), test_rows).value

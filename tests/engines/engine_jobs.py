"""What the sites of the engine tests run: an echo, a small secure job, and parties that fail in chosen ways.

The engines' processes import this module by name: `FEDSDG_CLIENT_FACTORY=engine_jobs:client_factory`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
import typing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.data.feature_table import FeatureTable
from fedsdg.datasets.synthetic import madelon_like
from fedsdg.job import RunSettings
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.two_phase_training import train
from fedsdg.messages import codec
from fedsdg.messages.agreement import ProposeJob
from fedsdg.messages.base import Channel, Message
from fedsdg.messages.session import Joined, JoinRun
from fedsdg.party import PartyRole, load_party
from fedsdg.party_server import drive
from fedsdg.runtime.codec_channel import CodecChannel
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.runtime.serving import Answer
from fedsdg.runtime.site import JobContext
from fedsdg.server.federation import MaskedFederation

CLIENTS = ("bank", "shop")
N_ROWS, N_COLUMNS, KEY_BITS = 80, 8, 512


def seed_of(name: str) -> bytes:
    return f"private seed of {name}".encode().ljust(32, b".")


def training() -> TrainingConfig:
    sizes = {"hidden": (6,), "embedding": 3, "outputs": 2, "batch_size": 20, "top_hidden": (6,)}
    return TrainingConfig(
        gated_phase=PhaseSettings(steps=6, **sizes),
        compact_phase=PhaseSettings(steps=4, **sizes),
        validation=ValidationSettings(every=3),
    )


def data():
    return madelon_like(N_ROWS, N_COLUMNS, n_informative=3, n_redundant=2, seed=7)


def secure_role(name: str) -> ClientRole:
    torch.set_num_threads(1)
    columns = np.array_split(np.arange(N_COLUMNS), len(CLIENTS))[CLIENTS.index(name)]
    local = LocalClient(name, FeatureTable.of(data().features[:, columns]), seed_of(name))
    return ClientRole(ClientState(local, minimum_key_bits=256, allow_test_keys=True))


def secure_job(channel: Channel) -> bytes:
    """A complete job; the result holds every number that was learned, to the last bit."""
    torch.set_num_threads(1)
    config, labels = training(), data().labels
    federation = MaskedFederation(
        channel, list(CLIENTS), config, key_bits=KEY_BITS, sigma=64, n_rows=N_ROWS, allow_test_keys=True
    )
    result = train(federation, labels, config, seed_of("server"))
    return json.dumps(
        {
            "selected": dict(result.n_selected),
            "losses": {phase: [loss.hex() for loss in losses] for phase, losses in result.losses.items()},
            "path": [[point.step, point.n_open, point.score.value.hex()] for point in result.path],
            "kept": result.kept,
            "messages": sum(channel.traffic.messages.values()) if isinstance(channel, CodecChannel) else 0,
        },
        sort_keys=True,
    ).encode()


# --- The parties ---------------------------------------------------------------------------------------------------


def blank(kind: type[Message], **given: Any) -> Any:
    """A message with the given fields; the others mean nothing here."""
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(*(given[name] if name in given else hints[name]() for name in names))


class Echo:
    """Returns the bytes of a `JoinRun` in a `Joined`, and counts how often it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = 0

    def answer(self, blob: bytes) -> bytes:
        request = codec.decode(blob)
        assert isinstance(request, JoinRun)
        self.asked += 1
        if request.settings == "sleep":
            time.sleep(request.sigma / 1000)
        if request.settings == "die":
            os._exit(3)
        return codec.encode(blank(Joined, n_rows=self.asked, n_columns=os.getpid(), public_key=request.server_key))


def client_factory(name: str) -> Answer:
    """Make a party; others than the two of the secure job only echo."""
    return SwitchingRole(name).answer if name in CLIENTS else Echo(name).answer


class SwitchingRole:
    """A secure role; it echoes when the request is meant for an echo, and is a party when a job is proposed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.secure, self.echo = secure_role(name), Echo(name)
        self.party: PartyRole | None = None

    def answer(self, blob: bytes) -> bytes:
        request = codec.decode(blob)
        if isinstance(request, ProposeJob):
            self.party = PartyRole(load_party(parties_of(json.loads(request.job)["run"]) / f"{self.name}.toml"))
        if self.party is not None:
            return self.party(blob)
        if isinstance(request, JoinRun) and request.settings in ("echo", "sleep", "die"):
            return self.echo.answer(blob)
        return self.secure.answer(blob)


# --- Parties with files, a folder of them for each run -------------------------------------------------------------

OWNER = "owner"


def parties_of(run: str) -> Path:
    return Path(os.environ["ENGINE_TEST_FOLDER"]) / "parties" / run


def write_parties(folder: Path, policies: dict[str, str]) -> None:
    """Write the files of a label owner and of the clients that have a policy here."""
    folder.mkdir(parents=True)
    ids = [f"ID-{number:05d}" for number in range(N_ROWS)]
    columns = dict(zip(CLIENTS, np.array_split(data().features, len(CLIENTS), axis=1), strict=True))
    for name in (OWNER, *policies):
        rows: dict[str, Any] = {"who": ids, "outcome": data().labels}
        if name != OWNER:
            rows = {"who": ids, **{f"{name}_secret_{j}": column for j, column in enumerate(columns[name].T)}}
        pl.DataFrame(rows).write_csv(folder / f"{name}.csv")
        section = '[labels]\ntarget = "outcome"' if name == OWNER else "[rows]"
        (folder / f"{name}.toml").write_text(
            f'[party]\nname = "{name}"\nfolder = "state_{name}"\n\n{section}\ntable = "{name}.csv"\nid = "who"\n\n'
            f"[policy]\n{policies.get(name, '')}\n"
        )


def party_job(run: str, **changes: Any) -> dict[str, Any]:
    settings = RunSettings(training=training(), **changes).model_dump(mode="json")
    return {"scenario": "party", "job": {"kind": "train", "run": run, "settings": settings}}


# --- The server ----------------------------------------------------------------------------------------------------


def ask(
    channel: Channel, body: bytes, settings: str = "echo", sigma: int = 0, clients: tuple[str, ...] = CLIENTS
) -> dict[str, Joined]:
    request = blank(JoinRun, settings=settings, sigma=sigma, server_key=body)
    return dict(channel.exchange(dict.fromkeys(clients, request)))


def server_driver(channel: Channel, context: JobContext) -> bytes:
    settings: dict[str, Any] = dict(context.settings)
    scenario = settings["scenario"]
    if scenario == "secure":
        return secure_job(channel)
    if scenario == "party":
        job = settings["job"]
        owner = load_party(parties_of(job["run"]) / f"{OWNER}.toml")
        return json.dumps(drive(owner, channel, context.clients, job)).encode()
    if scenario == "echo":
        replies = [ask(channel, os.urandom(1000)) for _ in range(settings["times"])]
        counts = {name: [reply[name].n_rows for reply in replies] for name in CLIENTS}
        processes = {name: len({reply[name].n_columns for reply in replies}) for name in CLIENTS}
        return json.dumps({"counts": counts, "processes": processes, "clients": context.clients}).encode()
    if scenario == "die":
        ask(channel, b"", "die", clients=context.clients)
        return b"nobody died"
    raise AssertionError(scenario)


def in_process() -> bytes:
    """The same job with all parties in this process."""
    return secure_job(InProcessChannel({name: secure_role(name) for name in CLIENTS}))

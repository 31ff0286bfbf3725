"""`fedsdg align`: only the alignment of a job, with the real messages, all parties in this process."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedsdg.api import Frames, read_parties
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.data.sources import read_as_written
from fedsdg.errors import ConfigError
from fedsdg.job import Job
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.randomness import RandomStreams, fresh_private_seed
from fedsdg.party_source import PartySource
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.federation import MaskedFederation
from fedsdg.state_files import OWNER_FOLDER, write_atomically


@dataclass(frozen=True, eq=False)
class AlignmentRun:
    """What was found, and what it cost."""

    ids: Mapping[str, tuple[str, ...]]
    """Every party's common ids in the common order: the same for all."""
    report: list[str]
    bytes: int
    seconds: float


def align(job: Job, out: Path | None = None, frames: Frames | None = None) -> AlignmentRun:
    """Find the common rows; with `out`, write each party's rows in the common order into a folder of its own."""
    if job.ids == "aligned":
        raise ConfigError('job.ids = "aligned" says that there is nothing to align.')
    data = read_parties(job, frames)
    assert data.ids is not None
    assert data.client_ids is not None
    started = time.perf_counter()
    roles = {
        name: ClientRole(ClientState(LocalClient(name, table, fresh_private_seed()), ids=data.client_ids[name]))
        for name, table in data.tables.items()
    }
    channel = InProcessChannel(roles)
    federation = MaskedFederation(
        channel, list(roles), job.training, key_bits=job.key_bits, sigma=job.sigma, n_rows=None
    )
    order = RandomStreams(fresh_private_seed(), ("server",)).numpy("row-order")
    alignment = federation.align(data.ids, order)
    found = {data.label_owner: tuple(data.ids[row] for row in alignment.server_rows)}
    for name, role in roles.items():
        assert role.state.ids is not None
        found.setdefault(name, role.state.ids)
    seconds = time.perf_counter() - started
    if out is not None:
        write_rows(out, job, found, frames or {})
    return AlignmentRun(found, alignment.report(), channel.traffic.total, seconds)


def refuse_unusable(out: Path) -> None:
    """Refuse a folder that exists: nothing is overwritten."""
    if out.exists():
        raise ConfigError(f"{out} exists; choose another folder.")


def write_rows(out: Path, job: Job, ids: Mapping[str, tuple[str, ...]], frames: Frames) -> None:
    """Write every party's own rows in the common order: tables for a job with `ids = "aligned"`."""
    sources: dict[str, PartySource] = {job.server.name: job.server, **job.clients}
    for name, source in sources.items():
        own, rows = read_as_written(source, name, frames.get(name))
        row_of = {key: row for row, key in enumerate(own)}
        buffer = io.BytesIO()
        rows[[row_of[key] for key in ids[name]]].write_parquet(buffer)
        folder = out / name
        folder.mkdir(mode=OWNER_FOLDER, parents=True)
        write_atomically(folder / f"{name}.parquet", buffer.getvalue())

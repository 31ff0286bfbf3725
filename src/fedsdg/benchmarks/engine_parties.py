"""What the parties of an engine benchmark run: the product's own roles and driver, with a clock at every exchange.

The sites of an engine name `client_factory` and `server_driver` of this module in their environment. ::

    python -m fedsdg.benchmarks.engine_parties FOLDER

runs the same job from the same files in one process and prints what it measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch

from fedsdg.job import load_job
from fedsdg.messages.agreement import EndRun, ProposeJob
from fedsdg.messages.base import Channel, Message, Request
from fedsdg.party import Party, PartyRole, load_party
from fedsdg.party_server import drive
from fedsdg.runtime.codec_channel import CodecChannel
from fedsdg.runtime.serving import Answer
from fedsdg.runtime.site import JobContext
from fedsdg.simulation import one_torch_thread

R = TypeVar("R", bound=Message)

OWNER, CLIENTS = "owner", ("first", "second")
RUN = "measured"
#: What a client leaves in its folder: the seconds that it worked on each answer, and those of its processor.
WORK_FILE = "work.json"
#: What comes before and after the work that is measured: agreement reads the tables.
AROUND = (ProposeJob.__name__, EndRun.__name__)


class TimedRole:
    """A client that notes how long it works on each answer."""

    def __init__(self, party: Party) -> None:
        self._role, self._place, self._seconds = PartyRole(party), party.folder / WORK_FILE, list[float]()
        self._cpu = time.process_time()

    def __call__(self, blob: bytes) -> bytes:
        """Answer one request; at the end of the run, write down the seconds."""
        if any(kind.encode() in blob[:64] for kind in AROUND):
            cpu = time.process_time() - self._cpu
            self._place.write_text(json.dumps({"seconds": self._seconds, "cpu_seconds": cpu}))
            return self._role(blob)
        if not self._seconds:
            self._cpu = time.process_time()
        started = time.perf_counter()
        reply = self._role(blob)
        self._seconds.append(time.perf_counter() - started)
        return reply

    def close(self) -> None:
        """Let go of the run's folder."""
        self._role.close()


class TimedChannel:
    """A channel that notes how long every exchange takes."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.traffic = getattr(channel, "traffic", None)
        self.exchanges: list[tuple[list[str], float]] = []

    def exchange(self, requests: Mapping[str, Request[R]]) -> Mapping[str, R]:
        """See `Channel.exchange`."""
        started = time.perf_counter()
        replies = self._channel.exchange(requests)
        seconds = time.perf_counter() - started
        if type(next(iter(requests.values()))).__name__ not in AROUND:
            self.exchanges.append((list(requests), seconds))
        return replies


class InOneProcess(CodecChannel):
    """Clients of this process, one after the other."""

    def __init__(self, roles: Mapping[str, Answer]) -> None:
        super().__init__()
        self._roles = dict(roles)

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Let each client answer."""
        return {name: self._roles[name](blob) for name, blob in requests.items()}


def client_factory(site: str) -> TimedRole:
    """What an engine calls at a client."""
    torch.set_num_threads(1)  # as the product's own factory does
    return TimedRole(load_party())


def server_driver(channel: Channel, context: JobContext) -> bytes:
    """What an engine calls at the label owner."""
    return json.dumps(_measured(load_party(), channel, context.clients, context.settings)).encode()


def in_one_process(folder: Path) -> dict[str, Any]:
    """Run the job whose files lie in a folder, with all parties in this process."""
    settings = load_job(folder / "job.toml").settings.model_dump(mode="json")
    clients = {name: TimedRole(load_party(folder / f"{name}.toml")) for name in CLIENTS}
    job = {"kind": "resume", "run": RUN, "settings": settings}
    return _measured(load_party(folder / f"{OWNER}.toml"), InOneProcess(clients), CLIENTS, job)


def _measured(party: Party, channel: Channel, clients: tuple[str, ...], job: Mapping[str, Any]) -> dict[str, Any]:
    timed, before, began, cpu = TimedChannel(channel), device_bytes(), time.time(), time.process_time()
    with one_torch_thread():
        result = drive(party, timed, clients, job)
    assert timed.traffic is not None
    after = device_bytes()
    return {
        "result": result,
        "began": began,
        "ended": time.time(),
        "cpu_seconds": time.process_time() - cpu,
        "exchanges": timed.exchanges,
        "codec_bytes": timed.traffic.total,
        "device_bytes": {name: _difference(before.get(name), after[name]) for name in after},
    }


def _difference(before: tuple[int, int] | None, after: tuple[int, int]) -> list[int]:
    received, sent = before or (0, 0)
    return [after[0] - received, after[1] - sent]


def device_bytes() -> dict[str, tuple[int, int]]:
    """Return the bytes received and sent by every network device that this process sees."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    fields = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return {name: (int(values[0]), int(values[8])) for name, values in fields.items()}


if __name__ == "__main__":
    print(json.dumps(in_one_process(Path(sys.argv[1]))))

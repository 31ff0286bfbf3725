"""An engine with all its sites, started with the commands of the operator's guide, each on its party's host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from fedsdg.benchmarks.engine_hosts import Hosts
from fedsdg.benchmarks.engine_parties import CLIENTS, OWNER, RUN
from fedsdg.errors import PeerError
from fedsdg.runtime.processes import own_path, start, stop
from fedsdg.runtime.site import CLIENT_FACTORY, SERVER_DRIVER

Engine = Literal["flare", "flower"]
PARTS = {
    CLIENT_FACTORY: "fedsdg.benchmarks.engine_parties:client_factory",
    SERVER_DRIVER: "fedsdg.benchmarks.engine_parties:server_driver",
}
#: Seconds for a site to be there, and for a whole job.
READY, WHOLE = 180.0, 7200.0
#: Where Flower's log says that the result lies, and what the log of a submission is called.
BEHIND, SUBMISSION = "the result: ", "submission"


class Sites:
    """The running sites of an engine; they are stopped at the end of the block.

    `files` is a folder that `engine_files.write_files` made; what the engine writes goes to `folder`. `options` are
    further ones for `fedsdg deploy`.
    """

    def __init__(self, engine: Engine, files: Path, folder: Path, hosts: Hosts, options: Sequence[str] = ()) -> None:
        self.engine, self.files, self.folder, self.hosts, self._options = engine, files, folder, hosts, options
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FEDSDG_PARTY", "FLWR_"))}
        self._environment = {**kept, **PARTS, "PATH": own_path(), "FLWR_TELEMETRY_ENABLED": "0"}
        self._sites: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._deploy()
        except BaseException:
            stop(*reversed(self._sites))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        stop(*reversed(self._sites))

    def submit(self) -> subprocess.Popen[bytes]:
        """Start the run, at the label owner's; the process ends when the run does."""
        if self.engine == "flare":
            admin = self._kits / "lead@fedsdg.org"
            command = [_fedsdg(), "site", "submit", str(admin), str(self.folder / "job"), "--kind", "resume"]
        else:
            flwr = str(Path(sys.executable).with_name("flwr"))
            command = [flwr, "run", str(self.folder / "app"), "fedsdg", "--stream", "--run-config", 'kind="resume"']
        home = {"FLWR_HOME": str(self.folder / "superlink" / "flower")}
        environment = {**self._environment, **home}
        submitted = start(self.hosts.command(OWNER, command), self.folder, self.log(SUBMISSION), environment)
        self._sites.append(submitted)
        return submitted

    def result(self, submitted: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Wait for the end of the run and return what its driver returned."""
        code, said = submitted.wait(WHOLE), self.said(SUBMISSION)
        try:
            if self.engine == "flower":
                place = next(line.partition(BEHIND)[2] for line in said.splitlines() if BEHIND in line)
                return dict(json.loads(Path(place.strip()).read_text()))
            return dict(json.loads(said[said.index("{") :]))
        except (StopIteration, ValueError):
            raise PeerError(f"{self.engine}: the run left no result (exit {code}): {said[-2000:]}") from None

    def log(self, name: str) -> Path:
        """Return where the output of a party's site, or of a submission, is kept."""
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        """Return that output."""
        path = self.log(name)
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def _kits(self) -> Path:
        return self.folder / "kits" / "fedsdg" / "prod_00"

    def _deploy(self) -> None:
        host = self.hosts.address(OWNER)
        ports = ["--port", str(free_port())]
        if self.engine == "flower":
            ports += ["--stream-port", str(free_port())]
        job = str(self.files / "job.toml")
        where = ["--out", str(self.folder), "--host", host, "--run", RUN]
        self._run([_fedsdg(), "deploy", self.engine, job, *where, *ports, *self._options])
        if self.engine == "flare":
            self._start(OWNER, self._kits / host)
            for name in CLIENTS:
                self._start(name, self._kits / name)
            return
        from fedsdg.runtime.flower_kits import make_key

        link, nodes = self.folder / "superlink", {name: self.folder / "nodes" / name for name in CLIENTS}
        self._start(OWNER, link)
        for kit in nodes.values():
            description = json.loads((kit / "flower.json").read_text())
            (kit / "flower.json").write_text(json.dumps({**description, "port": free_port()}))
        public = [str(make_key(kit)) for kit in nodes.values()]
        self._run(self.hosts.command(OWNER, [_fedsdg(), "site", "register", str(link), *public]))
        for name, kit in nodes.items():
            self._start(name, kit)

    def _start(self, party: str, kit: Path) -> None:
        command = [_fedsdg(), "site", "start", str(kit), "--party", str(self.files / f"{party}.toml")]
        self._sites.append(start(self.hosts.command(party, command), self.folder, self.log(party), self._environment))

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(  # noqa: S603 - our own commands, without a shell
            list(command), env=self._environment, capture_output=True, text=True, check=False, timeout=READY
        )
        if done.returncode:
            raise PeerError(f"`{' '.join(command[:4])} ...` failed: {(done.stderr or done.stdout)[-2000:]}")


def free_port() -> int:
    """Return a port that nobody on this machine listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _fedsdg() -> str:
    return str(Path(sys.executable).with_name("fedsdg"))

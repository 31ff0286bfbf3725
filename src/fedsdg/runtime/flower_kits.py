"""A Flower deployment with TLS and known nodes: a kit for every party, the commands, and an app that carries no code.

A kit is a folder with a file `flower.json`. The label owner's holds the SuperLink's certificate and key; a client's
holds what it needs to know that SuperLink, and the client itself adds its own key, of which only the public half
leaves. The app names two objects of this installed package.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedsdg.errors import ConfigError, PeerError
from fedsdg.job import check_client_names
from fedsdg.runtime.certificates import write_authority, write_node_key
from fedsdg.runtime.flower_guard import COMPONENTS
from fedsdg.runtime.kit_files import checked_kit
from fedsdg.runtime.processes import own_path
from fedsdg.runtime.serving import Patience

CONNECTION = "fedsdg"
#: Flower then neither tells its makers about runs nor asks for newer versions; nor does Ray, in a simulation.
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
#: A simulated run has a name of its own: the parties' real first run must find its folder free.
SIMULATED_RUN = "simulated"
#: The file that makes a folder a kit.
KIT_FILE = "flower.json"
#: The port that a SuperNode opens for its own processes, on its own machine only.
NODE_PORT = 9094
#: Where settings stand that are more than a word.
REST = "more"
_GUARDED = (sys.executable, "-m", "fedsdg.runtime.flower_guard")


@dataclass(frozen=True)
class Deployment:
    """A SuperLink at the server's organisation: its folder and its address."""

    folder: Path
    host: str
    port: int

    @property
    def address(self) -> str:
        """Where SuperNodes and the command line reach it."""
        return f"{self.host}:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate that everybody needs to know the SuperLink."""
        return self.folder / "certificates" / "ca.pem"

    @property
    def environment(self) -> dict[str, str]:
        """What the server's processes and the command line need to be told."""
        return site_environment(self.folder)


def make_deployment(
    folder: Path, host: str, port: int = 8000, valid_days: int = 360, *, stream: str = ""
) -> Deployment:
    """Make the label owner's kit: certificates for a SuperLink, and a connection for Flower's command line.

    `stream` is the address of the messages' own stream, in every kit. A job's app decides; `fedsdg doctor` looks there.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; certificates are not made over. Choose another folder.")
    deployment = Deployment(folder.resolve(), host, port)
    write_authority(deployment.authority.parent, host, valid_days)
    _write_kit(deployment.folder, {"kind": "superlink", "host": host, "port": port, "stream": stream})
    return open_deployment(folder)


def make_simulation(folder: Path, port: int = 8000, *, stream: str = "") -> Deployment:
    """Make a kit that runs all parties on this machine, under Flower's simulation: no certificates, loopback only."""
    folder.mkdir(parents=True)
    _write_kit(folder, {"kind": "simulation", "host": "127.0.0.1", "port": port, "stream": stream})
    return open_deployment(folder)


def make_node_kit(folder: Path, name: str, deployment: Deployment, port: int = NODE_PORT, *, stream: str = "") -> Path:
    """Make what a client is given: its name, the SuperLink's address and certificate, and no key."""
    check_client_names([name])
    folder.mkdir(parents=True)
    shutil.copyfile(deployment.authority, folder / "ca.pem")
    kit = {"kind": "supernode", "name": name, "superlink": deployment.address, "port": port, "stream": stream}
    _write_kit(folder, kit)
    return folder


def make_node(folder: Path, name: str) -> Path:
    """Make a client's key pair, at the client; only `name.pub` is given away. Return the place of the private key."""
    check_client_names([name])
    return write_node_key(folder, name)


def make_key(kit: Path) -> Path:
    """Make the key pair of a client's kit, where it lies; return the public half, which the label owner registers."""
    found = read_kit(kit, "supernode")
    if (kit / found["name"]).exists():
        raise ConfigError(f"{kit} holds a key already; it is not made over")
    return make_node(kit, found["name"]).with_name(f"{found['name']}.pub")


def read_kit(kit: Path, *kinds: str) -> dict[str, Any]:
    """Return what a kit says of itself; it must be one of these kinds, and say all that its kind needs."""
    return checked_kit(kit / KIT_FILE, kinds)


def open_deployment(kit: Path) -> Deployment:
    """Return the deployment whose kit lies here; it may have been moved."""
    found = read_kit(kit, "superlink", "simulation")
    deployment = Deployment(kit.resolve(), str(found["host"]), int(found["port"]))
    connection: dict[str, Any] = {"address": deployment.address}
    if found["kind"] == "superlink":
        connection["root-certificates"] = str(deployment.authority)
    else:
        connection["insecure"] = True
    home = deployment.folder / "flower"
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}}))
    except OSError as problem:
        raise ConfigError(f"Cannot write to {home}: {problem.strerror or problem}.") from None
    return deployment


def site_command(kit: Path) -> list[str]:
    """Make a kit ready where it lies, and return the command that runs its site in the foreground, with this Python."""
    found = read_kit(kit, "superlink", "simulation", "supernode")
    if found["kind"] == "supernode":
        key = kit.resolve() / found["name"]
        if not key.is_file():
            raise ConfigError(f"{kit} has no key yet: make it here, with `fedsdg site key {shlex.quote(str(kit))}`")
        return supernode_command(found["name"], key, found["superlink"], key.with_name("ca.pem"), int(found["port"]))
    deployment = open_deployment(kit)
    return superlink_command(deployment) if found["kind"] == "superlink" else simulation_command(deployment)


def site_environment(kit: Path) -> dict[str, str]:
    """Return what the processes of a site need to be told; what Flower keeps on disk lies in the kit."""
    return {**QUIET, "FLWR_HOME": str(kit.resolve() / "flower"), "PATH": own_path()}


def superlink_command(deployment: Deployment, listen: str = "0.0.0.0") -> list[str]:  # noqa: S104 - clients dial in
    """Return the command of the SuperLink: TLS, only nodes whose key was registered, runs only from this machine."""
    certificates = deployment.authority.parent
    return [
        *(*_GUARDED, "superlink"),
        *("--host", listen, "--port", str(deployment.port)),
        *("--ssl-ca-certfile", str(certificates / "ca.pem")),
        *("--ssl-certfile", str(certificates / "server.pem")),
        *("--ssl-keyfile", str(certificates / "server.key")),
        *("--database", str(deployment.folder / "flower" / "state.db")),  # registered keys outlive a restart
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
    ]


def simulation_command(deployment: Deployment) -> list[str]:
    """Return the command of a SuperLink that makes up its own nodes, on this machine."""
    return [
        *(*_GUARDED, "superlink", "--simulation", "--insecure"),
        *("--host", deployment.host, "--port", str(deployment.port)),
        "--disable-runtime-dependency-installation",
    ]


def supernode_command(name: str, key: Path, superlink: str, authority: Path, port: int = NODE_PORT) -> list[str]:
    """Return the command of a client's SuperNode: apps that bring code are refused. The port is for this machine."""
    return [
        *(*_GUARDED, "supernode"),
        *("--superlink", superlink, "--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(key)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--node-config", f"name={json.dumps(name)}"),
    ]


def run_command(app: Path, simulated: int = 0) -> list[str]:
    """Return Flower's own command that starts a run and shows its log; `simulated`: so many clients, on this machine.

    Every simulated client works all the time, so each is given a processor, whether or not there are so many.
    """
    command = ["flwr", "run", str(app), CONNECTION, "--stream"]
    size = f"num-supernodes={simulated} init-args-num-cpus={simulated} client-resources-num-cpus=1"
    change = ("--federation-config", size, "--run-config", f'run="{SIMULATED_RUN}"')
    return [*command, *(change if simulated else ())]


def wait_for_superlink(deployment: Deployment, seconds: float) -> None:
    """Wait until the SuperLink listens."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((deployment.host, deployment.port), timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise PeerError(f"nothing listens at {deployment.address}: start the label owner's site") from None
        time.sleep(0.2)


def register_node(deployment: Deployment, name: str, public_key: Path) -> str:
    """Let a key in, under the client's name; return the node's id."""
    found = _flwr(deployment, "supernode", "register", str(public_key), CONNECTION, "--name", name)
    return str(found["node-id"])


def write_app(
    folder: Path,
    clients: Sequence[str],
    settings: Mapping[str, Any],
    *,
    listen: str,
    dial: str,
    patience: Patience | None = None,
) -> Path:
    """Write the folder of an app for these clients. It holds no code, no data and nothing private."""
    check_client_names(clients)
    if folder.exists():
        raise ConfigError(f"{folder} exists; an app gets a folder of its own")
    if not all(address.rpartition(":")[2].isdigit() for address in (listen, dial)):
        raise ConfigError("listen, dial: give address and port, for example 0.0.0.0:9100")
    plan = {"clients": ",".join(clients), "listen": listen, "dial": dial, **asdict(patience or Patience())}
    # What is one word can be changed with `flwr run --run-config`; Flower knows no lists and no tables.
    words = {name: value for name, value in settings.items() if isinstance(value, str)}
    rest = {name: value for name, value in settings.items() if name not in words}
    if taken := {*plan, REST} & {*words}:
        raise ConfigError(f"settings: the name {min(taken)!r} is taken")
    app = {"publisher": "fedsdg", "components": COMPONENTS, "config": {**plan, **words, REST: json.dumps(rest)}}
    project = {"name": "fedsdg-job", "version": "1.0.0", "description": "A job of fedsdg", "license": "Apache-2.0"}
    folder.mkdir(parents=True)
    content = {"project": {**project, "dependencies": []}, "tool": {"flwr": {"app": app}}}
    (folder / "pyproject.toml").write_text(tomli_w.dumps(content))
    return folder


def submit(deployment: Deployment, app: Path) -> str:
    """Start a run of an app; return its id."""
    return str(_flwr(deployment, "run", str(app), CONNECTION)["run-id"])


def status(deployment: Deployment, run: str) -> tuple[str, str]:
    """Return the status of a run, such as `finished:completed`, and what Flower says about it."""
    found = _flwr(deployment, "list", CONNECTION, "--run-id", run)
    first = found["runs"][0]
    return str(first["status"]), str(first.get("status-details") or first.get("details") or "")


def stop(deployment: Deployment, run: str) -> None:
    """Stop a run."""
    _flwr(deployment, "stop", run, CONNECTION)


def _flwr(deployment: Deployment, *arguments: str) -> dict[str, Any]:
    """Run Flower's command line and read its answer."""
    command = [str(Path(sys.executable).with_name("flwr")), *arguments, "--format", "json"]
    done = subprocess.run(  # noqa: S603 - our own command, no shell
        command,
        env={**os.environ, **deployment.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    try:
        answer = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        answer = {}
    if done.returncode or not answer.get("success"):
        reason = answer.get("error-message") or done.stderr.strip() or done.stdout.strip()
        raise PeerError(f"`{shlex.join(['flwr', *arguments])}` failed: {reason}")
    return dict(answer)


def _write_kit(folder: Path, content: Mapping[str, Any]) -> None:
    (folder / KIT_FILE).write_text(json.dumps(dict(content), indent=1) + "\n")

"""A Flower deployment with TLS and known nodes: the commands, and an app that carries no code.

The app names two objects of this installed package. Flower would run code that an app brings along; ours brings none.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedsdg.errors import ConfigError, PeerError
from fedsdg.job import check_client_names
from fedsdg.runtime.certificates import write_authority, write_node_key
from fedsdg.runtime.processes import own_path
from fedsdg.runtime.serving import Patience

CONNECTION = "fedsdg"
#: Flower then neither tells its makers about runs nor asks for newer versions.
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
_BIN = Path(sys.executable).parent


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
        return {**QUIET, "FLWR_HOME": str(self.folder / "flower")}


def make_deployment(folder: Path, host: str, port: int = 8000, valid_days: int = 360) -> Deployment:
    """Make certificates for a SuperLink and a connection for Flower's command line."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; certificates are not made over. Choose another folder.")
    deployment = Deployment(folder.resolve(), host, port)
    write_authority(deployment.authority.parent, host, valid_days)
    home = deployment.folder / "flower"
    home.mkdir()
    connection = {"address": deployment.address, "root-certificates": str(deployment.authority)}
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}}))
    return deployment


def superlink_command(deployment: Deployment, listen: str = "0.0.0.0") -> list[str]:  # noqa: S104 - clients dial in
    """Return the command of the SuperLink: TLS, and only nodes whose key was registered."""
    certificates = deployment.authority.parent
    return [
        str(_BIN / "flower-superlink"),
        *("--host", listen, "--port", str(deployment.port)),
        *("--ssl-ca-certfile", str(certificates / "ca.pem")),
        *("--ssl-certfile", str(certificates / "server.pem")),
        *("--ssl-keyfile", str(certificates / "server.key")),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
    ]


def make_node(folder: Path, name: str) -> Path:
    """Make a client's key pair, at the client; only `name.pub` is given away. Return the place of the private key."""
    check_client_names([name])
    return write_node_key(folder, name)


def supernode_command(name: str, key: Path, superlink: str, authority: Path, port: int = 9094) -> list[str]:
    """Return the command of a client's SuperNode. The port is for its own processes, on this machine only."""
    return [
        str(_BIN / "flower-supernode"),
        *("--superlink", superlink, "--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(key)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--node-config", f"name={json.dumps(name)}"),
    ]


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
    module = "fedsdg.runtime.flower"
    app = {
        "publisher": "fedsdg",
        "components": {"serverapp": f"{module}:server_app", "clientapp": f"{module}:client_app"},
        "config": {
            "clients": ",".join(clients),
            "listen": listen,
            "dial": dial,
            "settings": json.dumps(dict(settings)),
            **asdict(patience or Patience()),
        },
    }
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
    command = [str(_BIN / "flwr"), *arguments, "--format", "json"]
    done = subprocess.run(  # noqa: S603 - our own command, no shell
        command,
        env={**os.environ, "PATH": own_path(), **deployment.environment},
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

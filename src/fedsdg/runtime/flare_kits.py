"""FLARE kits: what each organisation gets to run its site, made offline, and kept to what our jobs need.

`provision` makes one folder per party with its certificate (mutual TLS) and its own rules. The rules are stricter than
FLARE's own: a site runs our two components and nothing that a job brings along, no file or log leaves it, and nobody
from outside starts, stops or inspects it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nvflare.lighter.constants import CtxKey
from nvflare.lighter.prov_utils import prepare_builders
from nvflare.lighter.provision import prepare_project
from nvflare.lighter.provisioner import Provisioner

from fedsdg.errors import ConfigError
from fedsdg.job import check_client_names
from fedsdg.runtime.kit_files import AGAIN, read_object
from fedsdg.runtime.processes import start
from fedsdg.state_files import write_atomically

Scheme = Literal["grpc", "tcp"]
ADMIN = "lead@fedsdg.org"
#: All that a job may name at a site; FLARE refuses any other class.
SERVER_CLASSES = ["nvflare.collab.runtime.controller.CollabController", "fedsdg.runtime.flare.FlareServer"]
CLIENT_CLASSES = ["nvflare.collab.runtime.executor.CollabExecutor", "fedsdg.runtime.flare.FlareClient"]
#: Of an error FLARE then writes the type and the place, not the text.
SITE_ENVIRONMENT = {"NVFLARE_SECURE_LOGGING": "true"}
#: What the person with the admin kit may do: start and stop jobs; at the server, also watch them and fetch results.
CLIENT_RIGHTS = {
    "submit_job": "any",
    "manage_job": "any",
    "view": "none",
    "download_job": "none",
    "operate": "none",
    "clone_job": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
SERVER_RIGHTS = {**CLIENT_RIGHTS, "view": "any", "download_job": "any"}


@dataclass(frozen=True)
class Kits:
    """The folders that `provision` made. Each goes to its party, and to nobody else."""

    server: Path
    clients: Mapping[str, Path]
    admin: Path
    admin_name: str


def provision(
    folder: Path,
    project: str,
    server_host: str,
    clients: Sequence[str],
    *,
    port: int = 8002,
    scheme: Scheme = "grpc",
    admin_name: str = ADMIN,
    valid_days: int = 360,
) -> Kits:
    """Make the kits of a project; the server listens on one port, clients and the admin only dial out."""
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]{0,62}", project):
        raise ConfigError(f"{project!r} cannot be a project: a letter, then letters, digits and _, at most 63")
    if scheme not in ("grpc", "tcp"):
        raise ConfigError(f"scheme: 'grpc' or 'tcp', not {scheme!r}")
    check_client_names(clients)
    if (folder / project).exists():
        raise ConfigError(f"{folder / project} exists; certificates are not made over. Choose another folder.")
    plan = _project(project, server_host, clients, port, scheme, admin_name, valid_days)
    context = Provisioner(str(folder), prepare_builders(plan)).provision(prepare_project(plan), logger=_Quiet())
    if context.get(CtxKey.BUILD_ERROR):
        raise ConfigError(f"FLARE could not make the kits: {'; '.join(context.get(CtxKey.ERRORS, []))}")
    made = Path(context[CtxKey.CURRENT_PROD_DIR])
    kits = Kits(made / server_host, {name: made / name for name in clients}, made / admin_name, admin_name)
    _lock_away(folder / project / "state")
    _restrict(kits.server, SERVER_CLASSES, SERVER_RIGHTS)
    for kit in kits.clients.values():
        _restrict(kit, CLIENT_CLASSES, CLIENT_RIGHTS)
    return kits


def _project(
    project: str,
    server_host: str,
    clients: Sequence[str],
    port: int,
    scheme: Scheme,
    admin_name: str,
    valid_days: int,
) -> dict[str, Any]:
    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": project,
        "description": "made by fedsdg",
        "participants": [
            {"name": server_host, "type": "server", "org": "server", "fed_learn_port": port, "admin_port": port},
            *({"name": name, "type": "client", "org": _organisation(name)} for name in clients),
            {"name": admin_name, "type": "admin", "org": "server", "role": "lead"},
        ],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {
                "path": f"{impl}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": scheme, "require_signed_jobs": True},
            },
            {"path": f"{impl}.cert.CertBuilder", "args": {"root_valid_days": valid_days}},
            {"path": f"{impl}.signature.SignatureBuilder"},
        ],
    }


def _organisation(name: str) -> str:
    """Every client is an organisation of its own."""
    return re.sub(r"\W|-", "_", name)


def _restrict(kit: Path, classes: list[str], rights: dict[str, str]) -> None:
    """Write a site's own rules; FLARE prefers them to the `.default` files beside them."""
    local = kit / "local"
    (local / "authorization.json").write_text(
        json.dumps({"format_version": "1.0", "permissions": {"lead": rights}}, indent=2)
    )
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] = classes
    resources["class_list_enforcement_mode"] = "enforce"
    resources["allow_log_streaming"] = False
    unwanted = ("site_log_streamer", "log_receiver")
    resources["components"] = [part for part in resources["components"] if part["id"] not in unwanted]
    (local / "resources.json").write_text(json.dumps(resources, indent=2))
    _keep_files_in_the_kit(kit)


def _keep_files_in_the_kit(kit: Path) -> None:
    """FLARE would keep jobs and their results under /tmp/nvflare, shared by all projects of a machine."""
    file = kit / "local" / "resources.json"
    resources = read_object(file)
    if "snapshot_persistor" not in resources:
        return
    try:
        resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(kit.resolve() / "snapshots")
        for part in resources["components"]:
            if part["id"] == "job_manager":
                part["args"]["uri_root"] = str(kit.resolve() / "jobs")
    except (KeyError, TypeError, IndexError):
        raise ConfigError(f"{file} is damaged: a part of it is missing or wrong; {AGAIN}") from None
    write_atomically(file, json.dumps(resources, indent=2).encode())


def _lock_away(state: Path) -> None:
    """The keys of all parties lie here; FLARE writes them for everybody to read."""
    state.chmod(0o700)
    for file in state.iterdir():
        file.chmod(0o600)


class _Quiet:
    """FLARE wants to tell somebody what it does while it makes kits."""

    def debug(self, message: str) -> None:
        """Say nothing."""

    info = warning = error = debug


def site_command(kit: Path) -> list[str]:
    """Make a kit ready where it lies, and return the command that runs its site in the foreground, with this Python.

    Run it with `SITE_ENVIRONMENT`, in the kit's folder.
    """
    startup = kit / "startup"
    if (startup / "fed_server.json").is_file():
        kind, module, identity = "server", "nvflare.private.fed.app.server.server_train", ["org=server"]
    elif (startup / "fed_client.json").is_file():
        kind, module = "client", "nvflare.private.fed.app.client.client_train"
        name = _name_in(startup / "fed_client.json")
        identity = [f"uid={name}", f"org={_organisation(name)}"]
    else:
        raise ConfigError(f"{kit} is no kit of a server or a client: nothing fitting lies in its folder startup")
    try:
        (kit / "transfer").mkdir(exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"Cannot write to {kit}: {problem.strerror or problem}.") from None
    _keep_files_in_the_kit(kit)
    settings = ["--set", "secure_train=true", *identity, "config_folder=config"]
    return [sys.executable, "-u", "-m", module, "-m", str(kit.resolve()), "-s", f"fed_{kind}.json", *settings]


def _name_in(file: Path) -> str:
    """Return whose kit it is."""
    client = read_object(file).get("client")
    name = client.get("fqsn") if isinstance(client, dict) else None
    if not isinstance(name, str):
        raise ConfigError(f"{file} is damaged: it names no client; {AGAIN}")
    check_client_names([name], f"{file}: client.fqsn")
    return name


def start_site(kit: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start the site of a kit in the background; what it says goes to `console.txt` in the kit."""
    return start(site_command(kit), kit, kit / "console.txt", {**SITE_ENVIRONMENT, **(environment or {})})

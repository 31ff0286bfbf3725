"""FLARE jobs: written, submitted, watched and stopped. A job is settings and the names of two installed classes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from fedsdg.errors import ConfigError, PeerError, PeerLost
from fedsdg.runtime.flare import SETTINGS_FILE
from fedsdg.runtime.flare_kits import ADMIN, CLIENT_CLASSES, SERVER_CLASSES
from fedsdg.runtime.serving import Patience
from fedsdg.runtime.site import FAILURE_FILE, LOST_FILE, RESULT_FILE

COMPLETED, ABORTED = "FINISHED:COMPLETED", "FINISHED:ABORTED"


def write_job(
    folder: Path, clients: Sequence[str], settings: Mapping[str, Any], patience: Patience | None = None
) -> Path:
    """Write the folder of a job for these clients. It holds no code, no data and nothing private."""
    if folder.exists():
        raise ConfigError(f"{folder} exists; a job gets a folder of its own")
    patience = patience or Patience()
    controller, server = SERVER_CLASSES
    executor, client = CLIENT_CLASSES
    meta = {
        "name": folder.name,
        "min_clients": len(clients),
        "mandatory_clients": list(clients),
        "resource_spec": {},
        "deploy_map": {"server": ["server"], "client": list(clients)},
    }
    server_config = {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": controller, "args": {"server_obj_id": "fedsdg"}}],
        "components": [{"id": "fedsdg", "path": server, "args": {}}],
        # FLARE, too, ends a job whose client is gone, by default after a minute: not before our own patience ends.
        "dead_client_grace_period": max(60.0, patience.silence),
    }
    client_config = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": executor, "args": {"client_obj_id": "fedsdg"}}}],
        "components": [{"id": "fedsdg", "path": client, "args": {}}],
    }
    for part, name, config in (
        ("server", "config_fed_server.json", server_config),
        ("client", "config_fed_client.json", client_config),
    ):
        where = folder / part / "config"
        where.mkdir(parents=True)
        (where / name).write_text(json.dumps(config, indent=2))
    # A file of its own, because FLARE takes {...} in its configuration for an expression.
    brought = {"settings": dict(settings), "patience": asdict(patience)}
    (folder / "server" / "config" / SETTINGS_FILE).write_text(json.dumps(brought, indent=2))
    (folder / "meta.json").write_text(json.dumps(meta, indent=2))
    return folder


@contextmanager
def admin_session(kit: Path, admin_name: str = ADMIN, timeout: float = 30.0) -> Iterator[Session]:
    """Log in at the server with the admin kit."""
    try:
        with redirect_stdout(sys.stderr):  # FLARE says that it connects; stdout is for results
            session = new_secure_session(admin_name, str(kit), timeout=timeout)
    except Exception as problem:
        raise PeerError(f"the FLARE server does not let {admin_name} in: {type(problem).__name__}: {problem}") from None
    try:
        yield session
    finally:
        session.close()


def wait_for_clients(session: Session, clients: Sequence[str], timeout: float, *, anew: bool = False) -> None:
    """Wait until these clients are connected; `anew`: until every one of them has given another sign of life.

    FLARE lists a site that died for ten more minutes. What changes is the time of its last heartbeat.
    """
    deadline = time.monotonic() + timeout
    before = {info.name: info.last_connect_time for info in session.get_connected_client_list()} if anew else {}
    missing = set(clients)
    while missing:
        connected = {info.name: info.last_connect_time for info in session.get_connected_client_list()}
        missing -= {name for name, last in connected.items() if before.get(name) != last}
        if missing and time.monotonic() > deadline:
            raise PeerError(
                f"not connected after {timeout:g} seconds: {', '.join(sorted(missing))}. Is its site running, does it "
                "reach this server's port, and is its certificate of this project? A wrong certificate shows in the "
                "logs of its site or of the server (CERTIFICATE_VERIFY_FAILED); fedsdg doctor --kit checks a kit"
            )
        if missing:
            time.sleep(0.5)


def submit(session: Session, job: Path) -> str:
    """Sign and submit the folder of a job; return its id."""
    try:
        return str(session.submit_job(str(job)))
    except Exception as problem:
        raise PeerError(f"the FLARE server refused the job: {type(problem).__name__}: {problem}") from None


def watch(
    session: Session,
    job_id: str,
    timeout: float = 0.0,
    seen: Callable[[str], None] = lambda status: None,
    every: float = 1.0,
) -> str:
    """Wait until a job has ended and return its status; a timeout of 0 waits for ever."""
    deadline = time.monotonic() + timeout
    while True:
        status = str(session.get_job_status(job_id))
        seen(status)
        if status.startswith("FINISHED"):
            return status
        if timeout and time.monotonic() > deadline:
            raise PeerError(f"job {job_id} has not ended after {timeout:g} seconds; its status is {status}")
        time.sleep(every)


def stop(session: Session, job_id: str) -> None:
    """Stop a job that runs."""
    session.abort_job(job_id)


def fetch_result(session: Session, job_id: str, folder: Path) -> bytes:
    """Fetch what the driver returned; if the job failed, raise with the reason that the server noted.

    `PeerLost`: a party has gone, and the run can go on when it is back.
    """
    place = Path(session.download_job_result(job_id, str(folder)))
    for file in sorted(place.rglob(RESULT_FILE)):
        return file.read_bytes()
    for file in sorted(place.rglob(FAILURE_FILE)):
        kind = PeerLost if file.with_name(LOST_FILE).exists() else PeerError
        raise kind(f"job {job_id} failed: {file.read_text().strip()}")
    raise PeerError(f"job {job_id} left no result; the server's log says why")

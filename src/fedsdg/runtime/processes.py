"""Sites as processes of this machine: started with a log, and stopped with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil


def start(
    command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in a folder, in a session of its own; what it says is appended to the log."""
    with log.open("ab") as console:
        return subprocess.Popen(  # noqa: S603 - a command of our own, without a shell
            list(command),
            cwd=folder,
            env={**os.environ, "PATH": own_path(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def own_path() -> str:
    """Return the search path with this installation first: engines start further commands of their own by name."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def stop(*processes: subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """Stop processes and all that they started: ask, wait, then insist.

    Some descendants live in sessions of their own, others have lost their parent; both kinds are found.
    """
    sessions = {process.pid for process in processes}
    family: dict[int, psutil.Process] = {}
    for member in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if member.pid in sessions or os.getsid(member.pid) in sessions:
                family |= {found.pid: found for found in (member, *member.children(recursive=True))}
    for member in family.values():
        _signal(member, signal.SIGTERM)
    _, alive = psutil.wait_procs(list(family.values()), timeout=grace)
    for member in alive:
        _signal(member, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=grace)
    for process in processes:
        process.wait(timeout=grace)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)  # psutil sees to it that the number was not given to another process meanwhile

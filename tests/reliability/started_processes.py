"""Real processes for tests, without the seconds that each would need to load everything.

One process loads everything, waits for orders, and forks: what it starts are processes of their own, with their own
standard streams, which can be signalled and killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PIPE_BYTES = 4096  # a process that prints more than that waits until somebody reads


class Nursery:
    """Starts processes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FEDSDG_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, **order: Any) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def wait(self, pid: int) -> int:
        """Return the exit code, or the negative number of the signal that ended a process."""
        return self.ask(wait=pid)

    @contextmanager
    def command(self, folder: Path, *arguments: object) -> Iterator[tuple[int, IO[str]]]:
        """Start `fedsdg`; yields its number and what it prints. Errors go to the file `errors` in the folder."""
        pipe = folder / "printed"
        os.mkfifo(pipe)
        pid = self.ask(arguments=[str(a) for a in arguments], printed=str(pipe), errors=str(folder / "errors"))
        ours = os.open(pipe, os.O_RDONLY)  # when the process has opened the other end
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            with os.fdopen(ours) as printed:
                yield pid, printed
        finally:
            pipe.unlink()

    def close(self) -> None:
        self._process.communicate()


def _serve() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from reliability_helpers import run, settings, storage_in

    from fedsdg.cli import main

    run(settings("plain"))  # what is loaded late, is loaded once for all

    def command(order: dict[str, Any]) -> None:
        streams = (
            (os.devnull, os.O_RDONLY),
            (order["printed"], os.O_WRONLY),
            (order["errors"], os.O_WRONLY | os.O_CREAT),
        )
        for number, (path, how) in enumerate(streams):
            os.dup2(os.open(path, how, 0o600), number)
        sys.argv = ["fedsdg", *order["arguments"]]
        main()

    def killed_run(order: dict[str, Any]) -> None:
        _kill_at(order["call"], order["moment"])
        run(settings(order["profile"]), storage=storage_in(Path(order["folder"])))

    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            print(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _child(command if "arguments" in order else killed_run, order)
        print(pid, flush=True)


def _child(work: Callable[[dict[str, Any]], None], order: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code: Any = 0
    try:
        work(order)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _kill_at(number: int, moment: str) -> None:
    """Kill this process at its n-th flush of a file to the disk or renaming of one."""
    calls = []

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(original)
            if len(calls) == number and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments)
            if len(calls) == number and moment == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    os.fsync, os.replace = counted(os.fsync), counted(os.replace)  # type: ignore[assignment]


if __name__ == "__main__":
    _serve()

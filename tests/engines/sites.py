"""Processes and ports of the engine tests."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], object], seconds: float = 90.0, what: str = "it") -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} seconds"
        time.sleep(0.05)


def wait_for_words(words: str, log: Callable[[], str], seconds: float = 60.0) -> None:
    """Wait until a log holds these words: another process writes it, often a little after the news has reached us."""
    wait_until(lambda: words in log(), seconds, f"a line {words!r} in a log")


def wait_for_port(port: int, seconds: float = 90.0) -> None:
    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(answers, seconds, f"listening on port {port}")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What every site of a test needs: it finds this package, and the parties of `engine_jobs`."""
    return {
        "PYTHONPATH": os.pathsep.join((str(SOURCE), str(HERE))),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "GRPC_VERBOSITY": "",  # Flower, imported here, sets it for this process; sites say why a certificate is refused
        "FEDSDG_CLIENT_FACTORY": "engine_jobs:client_factory",
        "FEDSDG_SERVER_DRIVER": "engine_jobs:server_driver",
        "ENGINE_TEST_FOLDER": str(folder),
        **more,
    }


def speaking_another_protocol(folder: Path, **more: str) -> dict[str, str]:
    """The same, for a site with another version of fedsdg."""
    customs = folder / "other-protocol"
    customs.mkdir()
    (customs / "sitecustomize.py").write_text(
        "import fedsdg.messages.base\nfedsdg.messages.base.PROTOCOL_VERSION = 99\n"
    )
    found = environment(folder, **more)
    return {**found, "PYTHONPATH": os.pathsep.join((str(customs), found["PYTHONPATH"]))}


class Proxy:
    """Passes bytes on until it is told to cut."""

    def __init__(self, target: int) -> None:
        self.target, self.accepted = target, 0
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self.accepted += 1
                self.pairs.append((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        source.close()

    def cut(self) -> None:
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # or `accept` would wait for ever
        self.listener.close()
        self.cut()

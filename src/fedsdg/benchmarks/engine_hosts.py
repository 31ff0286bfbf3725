"""Where the parties of an engine benchmark live: on the loopback device, or each on a host of its own.

A host is a network namespace with an address and a cable to a hub. It needs root and `ip`; nothing is changed in the
machine's own network. A cable can be cut and mended, and the label owner's can be made longer.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from fedsdg.benchmarks import delayed_link
from fedsdg.errors import ConfigError
from fedsdg.runtime.processes import stop

#: The device of every host, and the frames that may wait in a delayed cable.
DEVICE, QUEUE = "link0", "20000"
#: Measures a way there and back: a host answers at once that nothing listens at a port. The first try finds the way.
ROUND_TRIP = """
import socket, sys, time
for _ in range(3):
    with socket.socket() as probe:
        started = time.perf_counter()
        probe.connect_ex((sys.argv[1], 9))
        seconds = time.perf_counter() - started
print(seconds)
"""


class Hosts(Protocol):
    """Where parties run."""

    @property
    def device(self) -> str:
        """The device of the label owner whose bytes are counted."""

    def address(self, party: str) -> str:
        """Return the name or address of a party's host."""

    def command(self, party: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one on a party's host."""


class Loopback:
    """All parties on this machine, as they are."""

    device = "lo"

    def address(self, party: str) -> str:
        """See `Hosts`."""
        return "localhost"

    def command(self, party: str, command: Sequence[str]) -> list[str]:
        """See `Hosts`."""
        return list(command)


class Namespaces:
    """A host for each party, and a hub between them; they vanish at the end of the block."""

    device = DEVICE

    def __init__(self, parties: Sequence[str]) -> None:
        self._token = secrets.token_hex(4)
        self._parties = list(parties)
        self._hub = f"fedsdg-{self._token}-hub"
        self._cables: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove()

    def address(self, party: str) -> str:
        """Return a party's own address."""
        return f"10.77.0.{self._parties.index(party) + 1}"

    def command(self, party: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one on a party's host."""
        return [_tool(), "netns", "exec", self._host(party), *command]

    def cut(self, party: str) -> None:
        """Pull a party's cable out of the hub."""
        _ip("-n", self._hub, "link", "set", self._port(party), "down")

    def mend(self, party: str) -> None:
        """Plug it in again."""
        _ip("-n", self._hub, "link", "set", self._port(party), "up")

    def lengthen(self, party: str, milliseconds: float) -> None:
        """Give a party a cable that takes so many milliseconds each way; a second time, change how many."""
        if party in self._cables:
            told = self._cables[party].stdin
            assert told is not None
            told.write(f"{milliseconds:g}\n".encode())
            told.flush()
            return
        _ip("-n", self._host(party), "link", "del", DEVICE)
        near, far = f"near{self._parties.index(party)}", self._port(party)
        script = [sys.executable, delayed_link.__file__, near, far, f"{milliseconds:g}"]
        cable = self._cables[party] = subprocess.Popen(  # noqa: S603 - our own script, without a shell
            [_tool(), "netns", "exec", self._hub, *script], stdin=subprocess.PIPE, start_new_session=True
        )
        deadline = time.monotonic() + 30
        while not self._has(near) or not self._has(far):
            if time.monotonic() > deadline or cable.poll() is not None:
                raise ConfigError("a delayed cable could not be laid: does this machine have /dev/net/tun?")
            time.sleep(0.05)
        for device in (near, far):
            _ip("-n", self._hub, "link", "set", device, "txqueuelen", QUEUE)
        _ip("-n", self._hub, "link", "set", near, "netns", self._host(party), "name", DEVICE)
        self._plug_in(party)

    def round_trip(self, start: str, end: str) -> float:
        """Return the seconds from one party to another and back."""
        done = subprocess.run(  # noqa: S603 - our own script, without a shell
            self.command(start, [sys.executable, "-c", ROUND_TRIP, self.address(end)]),
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)

    def _make(self) -> None:
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "add", "hub", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "hub", "up")
        for party in self._parties:
            host = self._host(party)
            _ip("netns", "add", host)
            _ip("-n", host, "link", "set", "lo", "up")
            ends = ("link", "add", DEVICE, "netns", host, "type", "veth", "peer", "name", self._port(party))
            _ip(*ends, "netns", self._hub)
            self._plug_in(party)

    def _plug_in(self, party: str) -> None:
        host = self._host(party)
        # Packets as a real cable carries them: the kernel would else pass on 64 KB under one header, and count that.
        _ip("-n", host, "link", "set", DEVICE, "gso_max_segs", "1")
        _ip("-n", host, "address", "add", f"{self.address(party)}/24", "dev", DEVICE)
        _ip("-n", host, "link", "set", DEVICE, "up")
        _ip("-n", self._hub, "link", "set", self._port(party), "master", "hub")
        self.mend(party)

    def _remove(self) -> None:
        stop(*self._cables.values())
        for cable in self._cables.values():
            if cable.stdin is not None:
                cable.stdin.close()
        for name in (*map(self._host, self._parties), self._hub):
            with suppress(ConfigError):  # it was never made
                _ip("netns", "del", name)

    def _has(self, device: str) -> bool:
        with suppress(ConfigError):
            _ip("-n", self._hub, "link", "show", device)
            return True
        return False

    def _host(self, party: str) -> str:
        return f"fedsdg-{self._token}-{self._parties.index(party)}"

    def _port(self, party: str) -> str:
        return f"port{self._parties.index(party)}"


@cache
def no_namespaces() -> str | None:
    """Return why hosts of their own cannot be had here, if so."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the command `ip` is missing (package iproute2)"
    try:
        with Namespaces(["a", "b"]):
            return None
    except ConfigError as problem:
        return str(problem)


def no_delays() -> str | None:
    """Return why cables cannot be made longer here, if so."""
    return no_namespaces() or (None if Path("/dev/net/tun").exists() else "/dev/net/tun is missing")


def _tool() -> str:
    return shutil.which("ip") or "ip"


def _ip(*arguments: str) -> None:
    done = subprocess.run([_tool(), *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        reason = done.stderr.strip().splitlines()
        raise ConfigError(f"`ip {' '.join(arguments)}` is not possible here: {reason[0] if reason else 'no reason'}")

"""What the client side of every engine shares: one thread that makes the role and answers each request once.

A request may reach a client twice, because a network fails after the request arrived or before its answer did. It is
executed once: requests are numbered, and a number that was seen before is answered from memory.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

from fedsdg.errors import ConfigError, FedSDGError, ProtocolError, told

logger = logging.getLogger("fedsdg.runtime")

#: A client, as an engine sees it: the bytes of a request in, the bytes of a reply out. If it has a method `close`, that
#: is called when it is not needed any more.
Answer = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Patience:
    """How long the server waits, in seconds."""

    start: float = 600.0
    """Until every client has read its data and is ready."""
    silence: float = 120.0
    """For a sign of life of a client that cannot be reached: it may come back until then."""
    answer: float = 12 * 3600.0
    """For one answer of a client that can be reached: encrypted work on large tables takes hours."""

    def __post_init__(self) -> None:
        for name in ("start", "silence", "answer"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}: a waiting time in seconds is above 0, not {getattr(self, name)!r}")


def error_name(error: BaseException) -> str:
    """Return all that another party learns about an error: its type, if it is one of ours."""
    return type(error).__name__ if isinstance(error, FedSDGError) else "InternalError"


class RoleThread:
    """Makes a role and lets it answer, in one thread of its own.

    One thread, because a role is no more than one conversation; of its own, because an engine must go on to say that
    this party lives. It is a daemon: a process that ends does not wait for work that nobody wants any more.
    """

    def __init__(self, make_role: Callable[[], Answer]) -> None:
        self._tasks: SimpleQueue[tuple[Future[bytes], Callable[[], bytes]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._answer: Answer | None = None
        self._number = 0
        self._digest = b""
        self._closed = False
        #: Done when the role is made; requests are answered from then on.
        self.ready = self._last = self._later(lambda: self._make(make_role))
        threading.Thread(target=self._work, name="fedsdg-role", daemon=True).start()

    def ask(self, number: int, blob: bytes) -> Future[bytes]:
        """Return the answer to a request, to come or already known. Numbers start at 1 and leave no gap."""
        digest = hashlib.sha256(blob).digest()
        with self._lock:
            if number == self._number and digest == self._digest:
                return self._last
            if number != self._number + 1 or not self._last.done() or self._answer is None or self._closed:
                raise ProtocolError(f"Request {number} came after request {self._number}, out of turn.")
            self._number, self._digest = number, digest
            answer = self._answer
            self._last = self._later(lambda: answer(blob))
            return self._last

    def outcome(self, number: int) -> Future[bytes]:
        """Return the answer to a request that was asked before."""
        with self._lock:
            if number != self._number:
                raise ProtocolError(f"Request {number} is not known; the last one was {self._number}.")
            return self._last

    def close(self) -> None:
        """Drop the role, with its keys and its data, once the work under way is done; nothing more is answered."""
        with self._lock:
            self._closed = True
            self._tasks.put(None)

    def _make(self, make_role: Callable[[], Answer]) -> bytes:
        self._answer = make_role()
        return b""

    def _later(self, work: Callable[[], bytes]) -> Future[bytes]:
        future: Future[bytes] = Future()
        self._tasks.put((future, work))
        return future

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, work = task
            try:
                future.set_result(work())
            except Exception as error:
                logger.error("this party could not go on: %s", told(error))
                future.set_exception(error)
        with self._lock:
            answer, self._answer = self._answer, None
        if (close := getattr(answer, "close", None)) is not None:
            close()

"""The package's own log: where it goes, and for how long.

Loggers are `fedsdg.server`, `fedsdg.client`, `fedsdg.run` and `fedsdg.runtime`. What they say may be shown to any
party: names of parties, kinds, sizes and numbers of things, never an id, a cell, a column name, a key, a seed, a
ciphertext or the value of a gate. At INFO a run tells its story; at DEBUG every message, by kind and size.

While somebody listens, the package's logger lets everything through and each handler keeps to its own level. Whoever
configured logging otherwise must not notice: what reached the other handlers of the process before still does, and
nothing more.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from fedsdg.state_files import OWNER_ONLY

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
PACKAGE = logging.getLogger("fedsdg")

_lock = threading.Lock()
_listening: list[logging.Handler] = []
_before: tuple[int, bool] = (logging.NOTSET, True)


class OnScreen(logging.Handler):
    """A handler that shows its lines to whoever sits in front of the process."""


class _PassOn(logging.Handler):
    """Gives the parent logger what it would have got without our handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        level, propagate = _before
        parent = PACKAGE.parent
        if not propagate or parent is None or record.levelno < (level or parent.getEffectiveLevel()):
            return
        # Without any handler Python shows a warning itself: not a second time.
        if parent.hasHandlers() or not any(isinstance(handler, OnScreen) for handler in _listening):
            parent.callHandlers(record)


_pass_on = _PassOn()


def listen(handler: logging.Handler) -> None:
    """Let a handler hear the package from its own level on."""
    global _before
    with _lock:
        if not _listening:
            _before = PACKAGE.level, PACKAGE.propagate
            PACKAGE.propagate = False
            PACKAGE.setLevel(logging.DEBUG)
            PACKAGE.addHandler(_pass_on)
        _listening.append(handler)
        PACKAGE.addHandler(handler)


def stop_listening(handler: logging.Handler) -> None:
    """Take a handler off again, if it listens; with the last one, logging is as it was before the first."""
    with _lock:
        if handler not in _listening:
            return
        _listening.remove(handler)
        PACKAGE.removeHandler(handler)
        if not _listening:
            PACKAGE.removeHandler(_pass_on)
            PACKAGE.setLevel(_before[0])
            PACKAGE.propagate = _before[1]


class RunLog:
    """The file `run.log` of a run: the package's log at INFO, readable by its owner only."""

    def __init__(self, path: Path) -> None:
        """Open the file, or go on with it."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
        self._stream = os.fdopen(descriptor, "a", encoding="utf-8")
        self._handler = logging.StreamHandler(self._stream)
        self._handler.setLevel(logging.INFO)
        self._handler.setFormatter(logging.Formatter(FORMAT))
        listen(self._handler)

    def close(self) -> None:
        """Stop writing; closing twice does no harm."""
        stop_listening(self._handler)
        self._stream.close()

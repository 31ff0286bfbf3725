"""`--log-level`: what happens, to standard error. Names of parties, kinds and sizes of messages; never values."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Literal

import typer

from fedsdg.run_log import FORMAT, OnScreen, listen, stop_listening

LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option("--log-level", help="How much to log to standard error."),
]


class _StandardError(OnScreen):
    """Writes to standard error as it is at that moment: a live display takes it over to keep its lines whole."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


_handler = _StandardError()
_handler.setFormatter(logging.Formatter(FORMAT))


def log_to_stderr(level: str) -> None:
    """Send the package's log to standard error from this level on; other libraries' logs stay as they are."""
    log_nowhere()
    _handler.setLevel(level.upper())
    listen(_handler)


def log_nowhere() -> None:
    """Leave standard error alone again."""
    stop_listening(_handler)

"""The command line: parse, call, print. Nothing is computed here.

The commands import torch and polars, which takes seconds; this module does not, so that Ctrl-C is heard meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from fedsdg.errors import FedSDGError, PeerError, RunStopped

STOPPED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the `fedsdg` command; errors of ours become one clear line and exit code 2."""
    try:
        with _ended_by_ctrl_c():
            app, log_nowhere = _commands()
        _run(app, log_nowhere)
    except KeyboardInterrupt:
        raise SystemExit(STOPPED) from None


def one_line(problem: FedSDGError) -> str:
    """Return an error as one line, with the reason behind a client's refusal (all parties are on this machine)."""
    text = str(problem)
    if isinstance(problem, PeerError) and isinstance(problem.__cause__, FedSDGError):
        text += f" ({problem.__cause__})"
    return " ".join(text.split())


def _run(app: Callable[[], None], log_nowhere: Callable[[], None]) -> None:
    with suppress(ValueError):  # only a main thread may listen to signals
        signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except RunStopped as stopped:
        print(f"fedsdg: {one_line(stopped)}", file=sys.stderr)
        raise SystemExit(STOPPED) from None
    except FedSDGError as problem:
        cause = problem.__cause__
        if isinstance(problem, PeerError) and cause is not None and not isinstance(cause, FedSDGError):
            raise  # a fault of ours at a client: show where
        print(f"fedsdg: {one_line(problem)}", file=sys.stderr)
        raise SystemExit(2) from None
    finally:
        log_nowhere()


def _commands() -> tuple[Callable[[], None], Callable[[], None]]:
    from fedsdg.cli.app import app
    from fedsdg.cli.logs import log_nowhere

    return app, log_nowhere


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """End the process at once on Ctrl-C, in silence: nothing was begun.

    An exception would not do: half-imported libraries swallow it, or print it and go on.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # whoever ignores it, or listens himself, goes on doing so
        yield
        return
    with suppress(ValueError):
        signal.signal(signal.SIGINT, lambda *_: os._exit(STOPPED))
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, usual)


def _stop(number: int, frame: FrameType | None) -> None:
    """Leave as after Ctrl-C, so that a run that is told to stop cleans up."""
    raise SystemExit(128 + number)

"""The command line: parse, call, print. Nothing is computed here."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from types import FrameType

from fedsdg.cli.app import app
from fedsdg.cli.logs import log_nowhere
from fedsdg.errors import FedSDGError, PeerError, RunStopped


def main() -> None:
    """Run the `fedsdg` command; errors of ours become one clear line and exit code 2."""
    with suppress(ValueError):  # only a main thread may listen to signals
        signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except RunStopped as stopped:
        print(f"fedsdg: {one_line(stopped)}", file=sys.stderr)
        raise SystemExit(130) from None
    except FedSDGError as problem:
        cause = problem.__cause__
        if isinstance(problem, PeerError) and cause is not None and not isinstance(cause, FedSDGError):
            raise  # a fault of ours at a client: show where
        print(f"fedsdg: {one_line(problem)}", file=sys.stderr)
        raise SystemExit(2) from None
    finally:
        log_nowhere()


def one_line(problem: FedSDGError) -> str:
    """Return an error as one line, with the reason behind a client's refusal (all parties are on this machine)."""
    text = str(problem)
    if isinstance(problem, PeerError) and isinstance(problem.__cause__, FedSDGError):
        text += f" ({problem.__cause__})"
    return " ".join(text.split())


def _stop(number: int, frame: FrameType | None) -> None:
    """Leave as after Ctrl-C, so that a run that is told to stop cleans up."""
    raise SystemExit(128 + number)

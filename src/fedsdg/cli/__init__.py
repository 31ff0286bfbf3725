"""The command line: parse, call, print. Nothing is computed here."""

from __future__ import annotations

import sys

from fedsdg.cli.app import app
from fedsdg.errors import FedSDGError


def main() -> None:
    """Run the `fedsdg` command; errors of ours become one clear line and exit code 2."""
    try:
        app()
    except FedSDGError as problem:
        print(f"fedsdg: {problem}", file=sys.stderr)
        raise SystemExit(2) from None

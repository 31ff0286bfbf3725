"""Engine tests start real processes on loopback; helpers lie beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from engine_packages import check_engines

check_engines()

TOO_LATE = ["TimeoutExpired", "TimeoutError", "did not happen within", "timed out"]
"""What a wait that came to its end says, as regular expressions."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start real engines a second try when something took too long.

    Time-outs of other people's programs on a busy machine say nothing about us. A wrong outcome is never tried again, a
    second time-out is a failure, and whatever was tried again is counted in pytest's last line.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=TOO_LATE))

"""Engine tests start real processes on loopback; helpers lie beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from engine_packages import check_engines

check_engines()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start real engines a second try.

    Time-outs of other people's programs on a busy machine say nothing about us. A second failure is a failure, and
    whatever was tried again is counted in pytest's last line.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))

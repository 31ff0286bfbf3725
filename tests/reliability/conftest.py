"""What all tests of this folder share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs are so small that threads would only wait for each other."""
    monkeypatch.setenv("FEDSDG_THREADS", "1")

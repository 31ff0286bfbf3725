"""What the tests of this folder share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from reliability_helpers import Crash, crash_after_step, run, settings, storage_at, storage_in

from fedsdg.simulation import Storage


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs are so small that threads would only wait for each other."""
    monkeypatch.setenv("FEDSDG_THREADS", "1")


@pytest.fixture(scope="module", params=["plain", "masked"])
def profile(request: pytest.FixtureRequest) -> str:
    """Both profiles, one after the other."""
    return request.param


@pytest.fixture(scope="module")
def crashed(profile: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that crashed after its fifth step, with checkpoints 2 and 4 at every party."""
    folder = tmp_path_factory.mktemp(profile)
    with pytest.raises(Crash):
        run(settings(profile), storage=storage_in(folder), watch=crash_after_step(5))
    return folder


@pytest.fixture
def storage(crashed: Path, tmp_path: Path) -> Storage:
    """A copy of what the crash left."""
    shutil.copytree(crashed, tmp_path / "run")
    return storage_at(tmp_path / "run")

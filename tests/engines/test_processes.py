"""Sites are stopped with everything that they started."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("psutil", reason="needs fedsdg[flare] or fedsdg[flower]")

import psutil
from sites import wait_until

from fedsdg.runtime.processes import start, stop

SLEEP = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
FAMILY = f"""
import subprocess, sys, time
for session in (False, True):
    child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=session)
    print(child.pid, flush=True)
time.sleep({{seconds}})
"""


@pytest.mark.parametrize("seconds", [600, 0])
def test_children_in_other_sessions_and_orphans_are_stopped_too(tmp_path, seconds):
    log = tmp_path / "log"
    site = start([sys.executable, "-c", FAMILY.format(seconds=seconds)], tmp_path, log)
    wait_until(lambda: len(log.read_text().split()) == 2)
    children = [psutil.Process(int(pid)) for pid in log.read_text().split()]
    if not seconds:
        site.wait(30)
        children[1].kill()  # an orphan in a session of its own has nothing left that would lead to it
    stop(site)
    wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    assert site.poll() is not None


def test_who_does_not_listen_is_killed(tmp_path):
    log = tmp_path / "log"
    site = start([sys.executable, "-c", STUBBORN], tmp_path, log, {"ENGINE_TEST": "1"})
    wait_until(lambda: log.read_text())
    stop(site, grace=0.5)
    assert site.poll() is not None
    assert not psutil.pid_exists(site.pid)


def test_stopping_what_has_ended_is_no_error(tmp_path):
    site = start([sys.executable, "-c", ""], tmp_path, tmp_path / "log")
    site.wait(30)
    stop(site)

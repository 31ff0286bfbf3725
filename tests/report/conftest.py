"""Runs that several tests report on, and a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from headless_browser import Browser, find
from report_helpers import make_run


@pytest.fixture(scope="session")
def masked(tmp_path_factory) -> tuple[Path, object]:
    """The folder of a secure run, and its simulation."""
    out = tmp_path_factory.mktemp("masked") / "secure"
    return out, make_run(out, "masked")


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> tuple[Path, object]:
    """The same job in the clear."""
    out = tmp_path_factory.mktemp("plain") / "clear"
    return out, make_run(out, "plain")


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Browser]:
    """A headless Chromium, if there is one."""
    executable = find()
    if executable is None:
        refuse = pytest.fail if os.environ.get("FEDSDG_BROWSER_NEEDED") else pytest.skip
        refuse("no browser here: install Chromium (apt-get install chromium), or set FEDSDG_CHROMIUM to its path")
    opened = Browser(executable, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()

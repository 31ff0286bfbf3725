"""A missing engine is skipped only where it may be missing; a broken one never is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from engine_packages import PACKAGES, REQUIRED, check_engines
from sites import HERE

MISSING = {"an_engine_that_nobody_has": "flare"}
MAKEFILE = HERE.parent.parent / "Makefile"


@pytest.mark.parametrize("value", [None, "", "0"])
def test_an_engine_may_be_missing_where_none_is_required(monkeypatch, value):
    monkeypatch.delenv(REQUIRED, raising=False)
    if value is not None:
        monkeypatch.setenv(REQUIRED, value)
    check_engines(MISSING)


def test_where_engines_are_required_a_missing_one_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(ModuleNotFoundError, match=rf'is not installed, and {REQUIRED} is set: .*"\.\[flare\]"'):
        check_engines(MISSING)


@pytest.mark.parametrize("required", ["0", "1"])
def test_an_engine_that_is_installed_and_broken_is_always_an_error(monkeypatch, tmp_path, required):
    name = f"a_broken_engine_{required}"
    (tmp_path / f"{name}.py").write_text("import something_that_it_needs_and_is_gone\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(REQUIRED, required)
    with pytest.raises(ModuleNotFoundError, match="something_that_it_needs_and_is_gone"):
        check_engines({name: "flare"})


def test_a_broken_engine_fails_the_tests_that_would_be_skipped_without_it(tmp_path: Path):
    """In a process of its own: this one has imported everything already."""
    (tmp_path / "nvflare.py").write_text("import something_that_it_needs_and_is_gone\n")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "test_flare_calls.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), REQUIRED: "0"},
        capture_output=True,
        text=True,
    )
    assert found.returncode != 0
    assert "something_that_it_needs_and_is_gone" in found.stdout + found.stderr


def test_every_package_that_a_test_skips_without_is_looked_at():
    skipped = {
        name for path in HERE.glob("test_*.py") for name in re.findall(r'importorskip\("(\w+)"', path.read_text())
    }
    assert skipped - {"ray"} <= set(PACKAGES)


@pytest.mark.parametrize("target", ["test", "test-engines"])
def test_the_set_up_for_developers_requires_engines(target):
    (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE.read_text(), re.MULTILINE)
    assert f" {REQUIRED}=1 " in recipe

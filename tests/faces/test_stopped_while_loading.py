"""Ctrl-C in the first seconds, while torch and polars are imported: exit code 130 and not a word."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from fedsdg import cli

PRESSED = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                sum(range(1000))
            except KeyboardInterrupt:
                pass  # as a library does that is half imported
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal: jobs in the background start deaf to it
sys.meta_path.insert(0, CtrlC())
sys.argv = ["fedsdg", "--version"]
"""
ENTRIES = ("from fedsdg.cli import main; main()", "import runpy; runpy.run_module('fedsdg', run_name='__main__')")


def started(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("module", ["torch", "polars", "typer"])
def test_ctrl_c_while_libraries_are_imported_is_silent(entry, module):
    found = started(PRESSED.format(module=module) + entry)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


def test_the_entry_point_itself_imports_no_library():
    found = started("import sys, fedsdg.cli; print(sorted({'torch', 'polars', 'numpy', 'typer'} & set(sys.modules)))")
    assert found.stdout == "[]\n"


def test_ctrl_c_is_as_before_once_everything_is_loaded(command, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    assert command("--version").code == 0
    assert signal.getsignal(signal.SIGINT) is before

    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_commands", lambda: (stopped, lambda: None))
    assert command("--version").code == 130


def test_who_ignores_ctrl_c_goes_on_ignoring_it(command, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(
            cli, "_commands", lambda: (lambda: print(signal.getsignal(signal.SIGINT).name), lambda: None)
        )
        assert command("--version").out == "SIG_IGN\n"
    finally:
        signal.signal(signal.SIGINT, before)

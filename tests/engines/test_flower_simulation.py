"""Flower's own simulation, as in the operator's guide: all parties on this machine, each client in its own process."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs fedsdg[flower]")
pytest.importorskip("ray", reason="needs fedsdg[flower-simulation], which brings Ray")

from flower_parties import environment_of_a_terminal, make_small, result_of, twin_of
from sites import HERE, free_port, wait_for_port

from fedsdg.runtime.processes import start, stop
from plain_twins import learned_the_same

GUIDE = HERE.parent.parent / "docs" / "operators.md"


def test_a_simulated_run_learns_the_same_bits_as_in_the_clear(tmp_path: Path):
    section = GUIDE.read_text().split("\n## Flower\n")[1]
    site, run = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[2].replace("\\\n", "").splitlines()
    port, stream = free_port(), free_port()

    def typed(line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment_of_a_terminal(), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    typed("fedsdg init demo-job")
    make_small(tmp_path / "demo-job")
    typed(f"fedsdg deploy flower demo-job/job.toml --out project --port {port} --stream-port {stream}")
    command = ["bash", "-c", f"exec {site}"]
    process = start(command, tmp_path, tmp_path / "site.log", environment_of_a_terminal())
    try:
        wait_for_port(port)
        assert learned_the_same(result_of(typed(run)), twin_of(tmp_path, "simulated"))
    finally:
        stop(process)

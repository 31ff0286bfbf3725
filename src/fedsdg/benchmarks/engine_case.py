"""One measured run of the engine benchmark: in one process, on NVIDIA FLARE or on Flower."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

from fedsdg.benchmarks.engine_files import JobSize, write_files
from fedsdg.benchmarks.engine_hosts import Hosts
from fedsdg.benchmarks.engine_parties import CLIENTS, WORK_FILE
from fedsdg.benchmarks.engine_sites import Sites
from fedsdg.errors import ConfigError

Engine = Literal["in process", "flare", "flower"]
TRAINING = ("gated", "compact")


def measure(engine: Engine, size: JobSize, hosts: Hosts) -> dict[str, Any]:
    """Run the job once and return what it cost."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="fedsdg-bench-") as place:
        files, started = Path(place) / "files", time.time()
        write_files(files, size)
        if engine == "in process":
            found = _in_fresh_process(files)
        else:
            with Sites(engine, files, Path(place) / "engine", hosts) as sites:
                found = sites.result(sites.submit())
        over = time.time()
        work = [json.loads((files / f"state_{name}" / WORK_FILE).read_text()) for name in CLIENTS]
    together = engine != "in process"
    result, wire = found["result"], found["device_bytes"].get(hosts.device, [0, 0])
    seconds = [seconds for _, seconds in found["exchanges"]]
    return {
        "engine": engine,
        "load": load,
        "training_s": result["seconds"]["total"],
        "phases_s": result["seconds"],
        "steps": {phase: len(losses) for phase, losses in result["losses"].items()},
        "start_s": found["began"] - started,
        "end_s": over - found["ended"],
        "exchanges": len(seconds),
        "ms_per_exchange": 1000 * sum(seconds) / len(seconds),
        "carrying_ms_per_exchange": 1000 * carrying(found["exchanges"], work, together) / len(seconds),
        "cpu_s": found["cpu_seconds"] + (sum(of["cpu_seconds"] for of in work) if together else 0.0),
        "codec_bytes": found["codec_bytes"],
        "wire_bytes": wire_bytes(hosts.device, wire) if together else None,
        "learned": learned(result),
        "selected": result["selected"],
    }


def carrying(exchanges: list[Any], work: list[dict[str, Any]], together: bool) -> float:
    """Return the seconds of all exchanges in which no client worked: encoding, carrying and waiting.

    Together, the slowest client of an exchange counts; in one process they work one after the other.
    """
    answers = {name: iter(of["seconds"]) for name, of in zip(CLIENTS, work, strict=True)}
    total = 0.0
    for clients, seconds in exchanges:
        worked = [next(answers[name]) for name in clients]
        total += seconds - (max(worked) if together else sum(worked))
    return total


def wire_bytes(device: str, counted: list[int]) -> int:
    """Return the bytes that passed a device; what loopback sends, it also receives."""
    received, sent = counted
    return sent if device == "lo" else received + sent


def seconds_per_batch(case: dict[str, Any]) -> float:
    """Return the wall seconds of a training step, with its share of validation passes and checkpoints."""
    steps = sum(case["steps"].values())
    return float(sum(case["phases_s"][phase] for phase in TRAINING) / steps)


def learned(result: dict[str, Any]) -> str:
    """Return a fingerprint of the selection, of every loss and of the path, to the last bit."""
    what = [result["selected"], result["losses"], result["path"], result["metrics"]]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _in_fresh_process(files: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "fedsdg.benchmarks.engine_parties", str(files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    if done.returncode:
        raise ConfigError(f"the run in one process did not finish: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))

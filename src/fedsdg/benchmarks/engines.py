"""`fedsdg bench engines`: the same encrypted job in one process, on NVIDIA FLARE and on Flower; and on a longer way.

Engines run as real sites with TLS, started with the operator's commands. Where network namespaces are permitted each
party has a host of its own, and the bytes of the label owner's cable are counted; elsewhere all share loopback.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import version
from statistics import mean
from typing import Any

from fedsdg.benchmarks import crypto
from fedsdg.benchmarks.engine_case import Engine, measure, seconds_per_batch
from fedsdg.benchmarks.engine_files import JobSize
from fedsdg.benchmarks.engine_hosts import Hosts, Loopback, Namespaces, no_delays, no_namespaces
from fedsdg.benchmarks.engine_parties import CLIENTS, OWNER
from fedsdg.benchmarks.engines_page import NAMES, to_markdown
from fedsdg.crypto import backends
from fedsdg.errors import ConfigError

FULL = JobSize(rows=2000, columns=500, gated=200, compact=200)
QUICK = JobSize(rows=300, columns=20, gated=10, compact=5)
#: A batch costs the same whatever the number of rows and columns, and a few batches say what one costs.
DELAYED = JobSize(rows=1000, columns=40, gated=20, compact=20)
MODULES = {"flare": "nvflare", "flower": "flwr"}
#: Training may take so many times as long as in one process.
AIMS = {"flare": 1.3, "flower": 1.2}

__all__ = ["AIMS", "FULL", "QUICK", "run", "to_json", "to_markdown"]

Measure = Callable[[Engine, JobSize, Hosts], dict[str, Any]]


def run(
    quick: bool = False,
    latency: float = 50.0,
    say: Callable[[str], None] = lambda text: None,
    measure: Measure = measure,
) -> dict[str, Any]:
    """Measure and return the record that `--json` writes; a latency of 0 leaves the longer way out."""
    _check_installed()
    problem, size = no_namespaces(), QUICK if quick else FULL
    cases = []
    # In one process at both ends: what else the machine does may change meanwhile.
    order: tuple[Engine, ...] = ("in process", "flare", "flower", "in process")
    for engine in order:
        say(NAMES[engine])
        with nullcontext(Loopback()) if problem else Namespaces([OWNER, *CLIENTS]) as hosts:
            cases.append(measure(engine, size, hosts))
    if len({case["learned"] for case in cases}) > 1:
        raise AssertionError("the engines did not learn the same")
    both = [case["training_s"] for case in cases if case["engine"] == "in process"]
    return {
        "backend": backends.choose(2048).name,
        "date": crypto.now(),
        "machine": crypto.machine(),
        "versions": crypto.versions() | _engine_versions(),
        "quick": quick,
        "key_bits": 2048,
        "rows": size.rows,
        "columns": size.columns,
        "clients": len(CLIENTS),
        "network": "loopback" if problem else "namespaces",
        "cases": cases,
        "ratios": {engine: _ratio(cases, engine, mean(both)) for engine in AIMS},
        "noise": max(both) / min(both),
        "aims": AIMS,
        "same": True,
        "latency": _latency(latency, quick, say, measure) if latency else None,
        "load_at_end": os.getloadavg()[0],
    }


def _latency(each_way: float, quick: bool, say: Callable[[str], None], measure: Measure) -> dict[str, Any]:
    problem = no_delays()
    if problem is not None:
        return {"left_out": problem}
    size = QUICK if quick else DELAYED
    found: dict[str, Any] = {"ms_each_way": each_way, "steps": size.gated + size.compact, "engines": {}}
    engines: tuple[Engine, ...] = ("flare", "flower")
    for engine in engines:
        cases = {}
        for milliseconds in (0.0, each_way):
            say(f"{NAMES[engine]}, {milliseconds:g} ms each way")
            with Namespaces([OWNER, *CLIENTS]) as hosts:
                if milliseconds:
                    hosts.lengthen(OWNER, milliseconds)
                    found["round_trip_ms"] = 1000 * hosts.round_trip(CLIENTS[0], OWNER)
                cases[milliseconds] = measure(engine, size, hosts)
        near, far = cases[0.0], cases[each_way]
        if near["learned"] != far["learned"]:
            raise AssertionError("what was learned depends on the network")
        cost = seconds_per_batch(far) - seconds_per_batch(near)
        found["engines"][engine] = {
            "s_per_batch_near": seconds_per_batch(near),
            "s_per_batch_far": seconds_per_batch(far),
            "cost_s_per_batch": cost,
            "round_trips_per_batch": 1000 * cost / found["round_trip_ms"],
            "load": [near["load"], far["load"]],
        }
    return found


def _ratio(cases: list[dict[str, Any]], engine: str, alone: float) -> float:
    return float(next(case["training_s"] for case in cases if case["engine"] == engine) / alone)


def _check_installed() -> None:
    for extra, module in MODULES.items():
        if importlib.util.find_spec(module) is None:
            raise ConfigError(f'{NAMES[extra]} is not installed here: install it with pip install "fedsdg[{extra}]"')


def _engine_versions() -> dict[str, str]:
    return {module: version(module) for module in MODULES.values()}


def to_json(record: dict[str, Any]) -> str:
    """Return the record as JSON."""
    return json.dumps(record, indent=2) + "\n"

"""`fedsdg bench job`: what secure training costs: a step, how it falls as embeddings close, and a whole job.

The job is MADELON-sized: 2,000 rows, 500 columns, 2 clients, the default recipe, real keys. `phe` is timed on a part of
one mini-batch of the same shapes and scaled to the same number of steps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fedsdg.benchmarks import crypto, peers
from fedsdg.benchmarks.masked_minibatch import Clock, Keys, MaskedMinibatch
from fedsdg.crypto import Encryptor, PrivateKey, plan_minibatch
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.vertical_split import split_columns
from fedsdg.datasets.synthetic import madelon_like
from fedsdg.job import RunSettings
from fedsdg.simulation import PartyTables, Simulation, Update, simulate

ROWS, COLUMNS, CLIENTS = 2000, 500, 2
KEY_BITS = 2048
WIDTHS = (32, 16, 8, 4, 2)


def run(
    quick: bool = False,
    say: Callable[[str], None] = lambda text: None,
    watch: Callable[[Update], None] = lambda update: None,
) -> dict[str, Any]:
    """Measure and return the record that `--json` writes; `quick` leaves the whole job out."""
    key, other = PrivateKey.generate(KEY_BITS), PrivateKey.generate(KEY_BITS)
    say("one mini-batch, by embedding width")
    keys = Keys(key, other, Encryptor(key).backend)
    record: dict[str, Any] = {
        "backend": keys.backend,
        "date": crypto.now(),
        "machine": crypto.machine(),
        "versions": crypto.versions(),
        "key_bits": KEY_BITS,
        "by_width": [_width(width, keys, quick) for width in WIDTHS],
    }
    if quick:
        return record
    data, seeds = _madelon_sized()
    say("whole job, plain")
    plain = _time_job(data, RunSettings(profile="plain"), seeds, watch)
    say("whole job, masked")
    masked = _time_job(data, RunSettings(profile="masked", key_bits=KEY_BITS), seeds, watch)
    if plain.result.losses != masked.result.losses:
        raise AssertionError("the masked run learned something else than the plain one")
    record["job"] = _job_record(plain, masked)
    say("the same with phe, scaled")
    record["job"]["phe_hours"] = _phe_hours(masked, key)
    return record


def _width(width: int, keys: Keys, quick: bool) -> dict[str, float]:
    plan = plan_minibatch(KEY_BITS, 128, width, 8)
    work = MaskedMinibatch(plan, keys)
    clocks = [Clock(wall=True) for _ in range(2 if quick else 5)]
    wire = {work.step(clock) for clock in clocks}
    return {"embedding": width, "ms": 1e3 * min(clock.total for clock in clocks), "bytes": max(wire)}


def _madelon_sized() -> tuple[PartyTables, dict[str, bytes]]:
    made = madelon_like(ROWS, COLUMNS, seed=1)
    parts = split_columns(COLUMNS, CLIENTS, seed=1)
    tables = {
        f"client_{i + 1}": FeatureTable.of(made.features[:, columns], [f"x{j}" for j in columns])
        for i, columns in enumerate(parts)
    }
    seeds = {name: f"fedsdg benchmark {name}".encode().ljust(32, b".") for name in ("server", *tables)}
    return PartyTables(np.asarray(made.labels), tables), seeds


def _time_job(
    data: PartyTables, settings: RunSettings, seeds: dict[str, bytes], watch: Callable[[Update], None]
) -> Simulation:
    started = time.perf_counter()
    simulation = simulate(data, settings, private_seeds=seeds, watch=watch)
    simulation.seconds["wall"] = time.perf_counter() - started
    return simulation


def _job_record(plain: Simulation, masked: Simulation) -> dict[str, Any]:
    steps = {phase: len(losses) for phase, losses in masked.result.losses.items()}
    per_step = {
        profile: {phase: 1e3 * of.seconds[phase] / count for phase, count in steps.items()}
        for profile, of in (("plain", plain), ("masked", masked))
    }
    test = masked.test_score.value if masked.test_score else None
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "clients": CLIENTS,
        "steps": steps,
        "plain_s": plain.seconds["wall"],
        "masked_s": masked.seconds["wall"],
        "masked_seconds": {phase: round(s, 2) for phase, s in masked.seconds.items()},
        "ms_per_step": per_step,
        "bytes": masked.traffic.total,
        "messages": sum(masked.traffic.messages.values()),
        "selected": sum(masked.result.n_selected.values()),
        "test": test,
    }


def _phe_hours(masked: Simulation, key: PrivateKey) -> float | None:
    training, seconds = masked.settings.training, 0.0
    for phase, losses in masked.result.losses.items():
        shape = training.gated_phase if phase == "gated" else training.compact_phase
        part = peers.phe_minibatch(key, 128, shape.embedding, shape.outputs, integers=False)
        if part is None:
            return None
        seconds += part.total * len(losses) * CLIENTS
    return seconds / 3600


def to_json(record: dict[str, Any]) -> str:
    """Return the record as JSON."""
    return json.dumps(record, indent=2) + "\n"


def to_markdown(record: dict[str, Any]) -> str:
    """Return the record as the page docs/benchmarks-job.md."""
    where = record["machine"]
    lines = [
        "# What a secure job costs",
        "",
        "Written by `make bench`. Wall time, all cores, both parties and all clients on one machine.",
        "",
        f"- date: {record['date']}",
        f"- machine: {where['cpu']}, {where['cores']} cores",
        f"- back end {record['backend']}, {record['key_bits']}-bit keys",
        "",
        "## One mini-batch of one client, as embedding dimensions close",
        "",
        "128 samples, 8 outputs. Dimensions that are shut for good are no longer encrypted or sent.",
        "",
        "| open dimensions | ms | bytes | against the widest |",
        "|---|---|---|---|",
    ]
    widest = record["by_width"][0]["ms"]
    for row in record["by_width"]:
        lines.append(f"| {row['embedding']} | {row['ms']:.0f} | {row['bytes']:,} | {row['ms'] / widest:.2f} |")
    if "job" in record:
        lines += _job_table(record["job"])
    return "\n".join([*lines, ""])


def _job_table(job: dict[str, Any]) -> list[str]:
    steps = ", ".join(f"{count} {phase}" for phase, count in job["steps"].items())
    per_step = job["ms_per_step"]
    cost = "; ".join(
        f"{phase}: {per_step['plain'][phase]:.1f} ms plain, {per_step['masked'][phase]:.0f} ms masked"
        for phase in job["steps"]
    )
    phe = "not measured" if job["phe_hours"] is None else f"{job['phe_hours']:.1f} hours"
    parts = ", ".join(
        f"{phase} {s:.0f} s" for phase, s in job["masked_seconds"].items() if phase not in ("total", "wall")
    )
    return [
        "",
        f"## A whole job: {job['rows']:,} rows x {job['columns']} columns, {job['clients']} clients, default recipe",
        "",
        "| | |",
        "|---|---|",
        f"| steps | {steps} |",
        f"| `plain` | {job['plain_s']:.0f} s |",
        f"| `masked` | **{job['masked_s']:.0f} s** ({parts}); aim under 300 s |",
        f"| a step, both clients | {cost} |",
        f"| the same steps with `phe`, element by element (scaled) | {phe} |",
        f"| messages, bytes | {job['messages']:,}, {job['bytes'] / 1e6:.0f} MB |",
        f"| selected, accuracy on held-out rows | {job['selected']} of {job['columns']} columns, {job['test']:.3f} |",
        "",
        "Both profiles ran with the same private seeds, and their losses were equal to the last bit.",
    ]

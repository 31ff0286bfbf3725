"""`fedsdg bench crypto`: the encrypted arithmetic beside its peers, as ratios measured in one run.

CPU seconds of one thread on both sides, best of several runs; wall time with all threads stands beside them. The
limit is the number of 52-bit multiply-adds of the reference schedule (docs/packing.md) times the measured time of one.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from fedsdg.benchmarks import peers
from fedsdg.benchmarks.masked_minibatch import Clock, Keys, MaskedMinibatch
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, MinibatchPlan, PrivateKey, backends, plan_minibatch
from fedsdg.crypto.backends import native_ring

SHAPE = (128, 32, 16)
SIZES = (2048, 3072)
AIM = {"native": 1000, "gmpy2": 80}


def run(quick: bool = False, say: Any = lambda text: None) -> dict[str, Any]:
    """Measure everything and return the record that `--json` writes."""
    names = ["gmpy2"] if backends.native_problem() else ["native", "gmpy2"]
    record: dict[str, Any] = {
        "backend": backends.choose().name,
        "backend_reason": backends.choose().reason,
        "date": now(),
        "machine": machine(),
        "versions": versions(),
        "quick": quick,
        "shape": {"batch": SHAPE[0], "columns": SHAPE[1], "outputs": SHAPE[2], "sigma": 64},
        "ops": {},
        "minibatch": {},
    }
    for bits in SIZES:
        say(f"{bits}-bit keys: operations")
        key, other = PrivateKey.generate(bits), PrivateKey.generate(bits)
        record["ops"][str(bits)] = operations(key, names, quick)
        say(f"{bits}-bit keys: one mini-batch of {SHAPE[0]} x {SHAPE[1]} x {SHAPE[2]}")
        record["minibatch"][str(bits)] = minibatch(key, other, names, quick)
    return record


def operations(key: PrivateKey, names: list[str], quick: bool) -> dict[str, dict[str, float]]:
    """Milliseconds per operation for each library, and how many times faster we are."""
    table: dict[str, dict[str, float]] = {op: {} for op in ("encrypt", "decrypt", "add", "multiply", "dot")}
    for peer, times in (
        ("phe", peers.phe_operations(key)),
        ("heu", peers.heu_operations(key.public_key.bits)),
    ):
        for op, ms in (times or {}).items():
            table[op][f"{peer}_ms"] = ms
    native_ring.set_thread_count(1)
    try:
        for name in names:
            for op, ms in _our_operations(key, name, quick).items():
                table[op][f"{name}_ms"] = ms
                for peer in ("phe", "heu"):
                    if f"{peer}_ms" in table[op]:
                        table[op][f"{name}_vs_{peer}"] = table[op][f"{peer}_ms"] / ms
    finally:
        native_ring.set_thread_count(None)
    return table


def _our_operations(key: PrivateKey, name: str, quick: bool) -> dict[str, float]:
    """The same operations, in batches, as we use them: a dot product adds 32 weighted ciphertexts into 16 results."""
    count = 256 if name == "native" else 32
    repeats = 2 if quick else 5
    n = int(key.public_key.n)
    encryptor = Encryptor(key, name)
    decryptor, evaluator = Decryptor(encryptor), Evaluator(key.public_key, name)
    plaintexts = [secrets.randbelow(n) for _ in range(count)]
    a = encryptor.encrypt(plaintexts)
    ours = evaluator.load(a.to_bytes(), (count,))
    blocks = ours.reshape(count // 32, 32)
    weights = np.array([[secrets.randbelow(1 << 24) for _ in range(16)] for _ in range(32)])
    scalars = [[0xABCDE1]] * count
    column = ours.reshape(count, 1)

    def ms(work: Any, operations: int) -> float:
        return 1e3 * peers.seconds_per(work, repeats) / operations

    return {
        "encrypt": ms(lambda: encryptor.encrypt(plaintexts), count),
        "decrypt": ms(lambda: decryptor.decrypt(a), count),
        "add": ms(lambda: evaluator.add(ours, ours), count),
        "multiply": ms(lambda: evaluator.shifted_sums(column, scalars, [0]), count),
        "dot": ms(lambda: evaluator.dot(blocks, weights), blocks.shape[0] * 32 * 16),
    }


def minibatch(key: PrivateKey, other: PrivateKey, names: list[str], quick: bool) -> dict[str, Any]:
    """One whole masked mini-batch: ours by back end, `phe` scaled from a part, and the limit."""
    bits = key.public_key.bits
    plan = plan_minibatch(bits, *SHAPE)
    repeats = 1 if quick else 3
    floats = peers.phe_minibatch(key, *SHAPE, integers=False, repeats=repeats)
    exact = peers.phe_minibatch(key, *SHAPE, integers=True, repeats=repeats)
    up, down = plan.work.wire_bytes(bits)
    record: dict[str, Any] = {
        "layout": plan.gradient,
        "slots": [plan.forward.width, plan.update.width, plan.backward.width],
        "wire_bytes": up + down,
        "phe_s": floats.total if floats else None,
        "phe_without_rerandomisation_s": floats.without_rerandomisation if floats else None,
        "phe_integers_s": exact.total if exact else None,
        "phe_note": "measured on 2 samples (D E^T: also 2 columns) and scaled; plain narrow weights",
    }
    for name in names:
        repeats = (2 if quick else 5) if name == "native" else (1 if quick else 2)
        record[name] = _time_minibatch(plan, Keys(key, other, name), repeats)
        if floats:
            record[name]["speedup"] = floats.total / record[name]["s"]
            record[name]["speedup_without_rerandomisation"] = floats.without_rerandomisation / record[name]["s"]
    record["limit_s"] = None
    if "native" in names:
        digits = native_ring.digits_for(bits), native_ring.digits_for(bits // 2)
        if digits[0] is None or digits[1] is None:
            raise AssertionError("a standard size without a kernel")
        nanoseconds = native_ring.nanoseconds_per_multiply_add()
        count = plan.work.kernel_products(bits).digit_products(digits[0], digits[1])
        record["nanoseconds_per_ifma"] = nanoseconds
        record["limit_s"] = count * nanoseconds * 1e-9 / native_ring.LANES
        record["distance_from_limit"] = record["native"]["s"] / record["limit_s"]
    record["peak_mib"] = peak_mib(bits, names[0])
    return record


def _time_minibatch(plan: MinibatchPlan, keys: Keys, repeats: int) -> dict[str, Any]:
    work = MaskedMinibatch(plan, keys)
    native_ring.set_thread_count(1)
    try:
        clocks = [Clock() for _ in range(repeats)]
        for clock in clocks:
            work.step(clock)
    finally:
        native_ring.set_thread_count(None)
    best = min(clocks, key=lambda clock: clock.total)
    walls = [Clock(wall=True) for _ in range(repeats)]
    for wall in walls:
        work.step(wall)
    return {
        "s": best.total,
        "wall_s": min(wall.total for wall in walls),
        "threads": native_ring.thread_count() if keys.backend == "native" else 1,
        "steps_ms": {step: round(1e3 * seconds, 2) for step, seconds in best.seconds.items()},
    }


def peak_mib(bits: int, name: str) -> float | None:
    """Peak memory of a fresh process that makes keys and tables and runs one mini-batch."""
    # The child reads its own VmHWM: rusage's maximum would include this process, from which it was forked.
    program = (
        "from fedsdg.benchmarks.crypto import SHAPE\n"
        "from fedsdg.benchmarks.masked_minibatch import Clock, Keys, MaskedMinibatch\n"
        "from fedsdg.crypto import PrivateKey, plan_minibatch\n"
        f"keys = Keys(PrivateKey.generate({bits}), PrivateKey.generate({bits}), {name!r})\n"
        f"MaskedMinibatch(plan_minibatch({bits}, *SHAPE), keys).step(Clock())\n"
        "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')][0])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    return int(done.stdout) / 1024 if done.returncode == 0 and done.stdout.strip().isdigit() else None


def now() -> str:
    """Return the time of a measurement."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> dict[str, Any]:
    """Describe the machine in words that mean something next year."""
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        pass
    return {"cpu": model or platform.processor() or platform.machine(), "cores": os.cpu_count()}


def versions() -> dict[str, str]:
    """Versions of everything that is compared."""
    found = {"python": platform.python_version()}
    for package in ("fedsdg", "gmpy2", "numpy", "phe", "sf-heu"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def to_json(record: dict[str, Any]) -> str:
    """Return the record as JSON."""
    return json.dumps(record, indent=2) + "\n"


def to_markdown(record: dict[str, Any]) -> str:
    """Return the record as the page docs/benchmarks.md."""
    where = record["machine"]
    found = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Ratios hold better than times: machines differ and are noisy, but both sides of",
        "every ratio were measured in the same run. CPU seconds of one thread unless said otherwise.",
        "",
        f"- date: {record['date']}{' (quick run)' if record['quick'] else ''}",
        f"- machine: {where['cpu']}, {where['cores']} cores",
        f"- versions: {found}",
        f"- back end chosen here: **{record['backend']}** ({record['backend_reason']})",
        "",
        "## One masked mini-batch",
        "",
        f"{SHAPE[0]} samples, embedding {SHAPE[1]}, interactive layer {SHAPE[1]} x {SHAPE[2]}, sigma 64, default",
        "widths, both parties. Counted: encryption, the three products, masks and re-randomisation of all results,",
        "validation of everything received, decryption, unmasking. Every result is checked to be exact. `phe` does",
        "the same three products element by element, with plain narrow weights (not the wide noisy ones that our",
        "protocol needs); results are re-randomised when they are sent, as both libraries do by default. It is",
        "measured on two samples and scaled.",
        "",
        "| | 2048 bits | 3072 bits |",
        "|---|---|---|",
    ]
    batches = [record["minibatch"][str(bits)] for bits in SIZES]

    def row(title: str, cells: list[str]) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    def seconds(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.3g} s"

    lines.append(row("`phe`, floats (as its users write it)", [seconds(b["phe_s"]) for b in batches]))
    without = [seconds(b["phe_without_rerandomisation_s"]) for b in batches]
    lines.append(row("`phe`, floats, re-randomisation of results switched off (leaks)", without))
    lines.append(row("`phe`, integers instead of floats", [seconds(b["phe_integers_s"]) for b in batches]))
    for name in ("gmpy2", "native"):
        if name in batches[0]:
            lines.append(row(f"fedsdg, {name}", [seconds(b[name]["s"]) for b in batches]))
            ratio = [f"**{b[name]['speedup']:,.0f}x**" if "speedup" in b[name] else "-" for b in batches]
            lines.append(row(f"fedsdg, {name}, against `phe` (aim {AIM[name]:,}x)", ratio))
            key = "speedup_without_rerandomisation"
            unsafe = [f"{b[name][key]:,.0f}x" if key in b[name] else "-" for b in batches]
            lines.append(row(f"fedsdg, {name}, against `phe` without re-randomisation", unsafe))
            walls = [f"{seconds(b[name]['wall_s'])} ({b[name]['threads']} threads)" for b in batches]
            lines.append(row(f"fedsdg, {name}, wall time", walls))
    if batches[0]["limit_s"]:
        lines.append(row("limit: multiply-adds of the schedule x port", [seconds(b["limit_s"]) for b in batches]))
        distance = [f"{b['distance_from_limit']:.2f}x" for b in batches]
        lines.append(row("distance from the limit (aim under 2.5x)", distance))
        lines.append(row("measured port", [f"{b['nanoseconds_per_ifma']:.3f} ns per 8 multiply-adds" for b in batches]))
    lines.append(row("bytes on the wire", [f"{b['wire_bytes']:,}" for b in batches]))
    peaks = ["-" if b["peak_mib"] is None else f"{b['peak_mib']:.0f} MiB" for b in batches]
    lines.append(row("peak memory, keys and tables of both parties", peaks))
    lines += [
        "",
        "## Operations",
        "",
        "Milliseconds per operation; ours in batches. `multiply` is by a 24-bit number, `dot` is per element.",
        "",
    ]
    for bits in SIZES:
        lines += _operations_table(bits, record["ops"][str(bits)])
    lines += _steps_table(batches[0])
    return "\n".join(lines)


def _operations_table(bits: int, ops: dict[str, dict[str, float]]) -> list[str]:
    columns = [c for c in ("phe_ms", "heu_ms", "gmpy2_ms", "native_ms") if any(c in of for of in ops.values())]
    best = "native" if "native_ms" in columns else "gmpy2"
    ratios = [c for c in (f"{best}_vs_phe", f"{best}_vs_heu") if any(c in of for of in ops.values())]
    heads = [c.removesuffix("_ms") for c in columns] + [c.replace("_vs_", " against ") for c in ratios]
    lines = [f"### {bits} bits", "", f"| operation | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for op, of in ops.items():
        cells = [f"{of[c]:.3g}" if c in of else "-" for c in columns] + [
            f"{of[c]:,.0f}x" if c in of else "-" for c in ratios
        ]
        lines.append(f"| {op} | {' | '.join(cells)} |")
    return [*lines, ""]


def _steps_table(batch: dict[str, Any]) -> list[str]:
    name = "native" if "native" in batch else "gmpy2"
    lines = [f"## Where the time of a mini-batch goes (2048 bits, {name})", "", "| step | ms |", "|---|---|"]
    steps = sorted(batch[name]["steps_ms"].items(), key=lambda item: -item[1])
    return [*lines, *(f"| {step} | {ms:.1f} |" for step, ms in steps), ""]

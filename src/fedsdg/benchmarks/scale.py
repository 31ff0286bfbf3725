"""`fedsdg bench scale`: time and memory of large tables, and how both grow with rows, columns and clients.

Every case is a `masked` run with real keys through alignment, Algorithm 1 and one epoch of the gated phase, in a fresh
process (`scale_case.py`), so that its peak memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedsdg.benchmarks import crypto
from fedsdg.benchmarks.line_plot import Panel, draw
from fedsdg.benchmarks.scale_case import Case
from fedsdg.errors import ConfigError

#: What grows, one at a time.
SIZES = ("rows", "columns", "clients")
#: The lines of the plot, and what they are in a record.
PLOTTED = {"alignment": "align", "Gini": "gini", "one epoch": "gated", "all": "total"}


@dataclass(frozen=True)
class Plan:
    """Which cases are measured."""

    large: tuple[Case, ...]
    rows: tuple[Case, ...]
    columns: tuple[Case, ...]
    clients: tuple[Case, ...]

    @classmethod
    def of_sizes(
        cls,
        large: Sequence[tuple[int, int]],
        rows: Sequence[int],
        columns: Sequence[int],
        clients: Sequence[int],
        key_bits: int,
    ) -> Plan:
        """Grow one size at a time from the smallest; clients share the columns of the second smallest table."""
        return cls(
            tuple(Case(r, c, 2, key_bits) for r, c in large),
            tuple(Case(r, columns[0], 2, key_bits) for r in rows),
            tuple(Case(rows[0], c, 2, key_bits) for c in columns),
            tuple(Case(rows[1], columns[0], n, key_bits) for n in clients),
        )

    def groups(self) -> dict[str, tuple[Case, ...]]:
        """All cases by what they show."""
        return {"large": self.large, "rows": self.rows, "columns": self.columns, "clients": self.clients}


FULL = Plan.of_sizes(
    large=((1_000, 10_000), (100_000, 1_000)),
    rows=(1_000, 10_000, 100_000),
    columns=(100, 1_000, 10_000),
    clients=(1, 2, 4, 8),
    key_bits=2048,
)
#: Tiny sizes and keys: whether it works, not how fast.
QUICK = Plan.of_sizes(large=((64, 24), (160, 12)), rows=(64, 160), columns=(12, 24), clients=(1, 2), key_bits=512)


def in_fresh_process(case: Case) -> dict[str, Any]:
    """Measure one case in a process of its own."""
    command = [sys.executable, "-m", "fedsdg.benchmarks.scale_case", json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        reason = "killed: perhaps there was not enough memory" if done.returncode < 0 else _last_line(done.stderr)
        raise ConfigError(f"{case.name}: the measurement did not finish ({reason}).")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(
    quick: bool = False,
    say: Callable[[str], None] = lambda text: None,
    measure: Callable[[Case], dict[str, Any]] = in_fresh_process,
) -> dict[str, Any]:
    """Measure all cases and return the record that `--json` writes."""
    plan = QUICK if quick else FULL
    known: dict[Case, dict[str, Any]] = {}
    for case in dict.fromkeys(case for group in plan.groups().values() for case in group):
        say(case.name)
        known[case] = measure(case)
    first = known[plan.large[0]]
    return {
        "backend": first["backend"],
        "date": crypto.now(),
        "machine": crypto.machine(),
        "versions": crypto.versions(),
        "quick": quick,
        "key_bits": first["key_bits"],
        **{name: [known[case] for case in group] for name, group in plan.groups().items()},
    }


def to_json(record: dict[str, Any]) -> str:
    """Return the record as JSON."""
    return json.dumps(record, indent=2) + "\n"


def to_markdown(record: dict[str, Any], figure: str = "figures/scale.svg") -> str:
    """Return the record as the page docs/benchmarks-scale.md, which shows the figure at that place."""
    where, cases = record["machine"], [case for name in ("large", *SIZES) for case in record[name]]
    loads = [case["load"] for case in cases]
    libraries = min(case["before_mib"] - case["tables_mib"] for case in cases)
    lines = [
        "# How cost grows with the data",
        "",
        "Written by `make bench`. A `masked` run through private alignment by ids, Algorithm 1 (Gini) and one epoch of",
        "the gated phase: as many steps as there are batches of 128 training rows, and one validation pass at the end.",
        "85 % of the rows train, 15 % validate; Algorithm 1 scores at most 20,000 rows. Default model, two classes, no",
        "compact phase. Every case ran in a fresh process that holds all parties, so its peak memory is that of the",
        "server, of all clients and of the tables that they were given (64-bit numbers), with about",
        f"{libraries:.0f} MiB for Python and its libraries.",
        "",
        f"- date: {record['date']}{' (quick run: tiny sizes and keys)' if record['quick'] else ''}",
        f"- machine: {where['cpu']}, {where['cores']} cores",
        f"- back end {record['backend']}, {record['key_bits']}-bit keys",
        f"- load of the machine before the cases: {min(loads):.1f} to {max(loads):.1f}",
        "",
        "Every case was measured once. CPU seconds are those of all threads. Wall seconds grow with other work on the",
        "machine: a load above the number of cores means that there was some.",
        "",
        "## Large tables",
        "",
        *_large_table(record["large"]),
        "",
        "## Growth",
        "",
        "CPU seconds by phase and in all, then wall seconds. `prepare` is what clients do alone: fill, encode, scale",
        "and bin their columns.",
        "",
        f"![Seconds and peak memory by rows, columns and clients]({figure})",
        "",
    ]
    for name in SIZES:
        lines += [_growth(name, record[name]), "", *_growth_table(name, record[name]), ""]
    return "\n".join(lines)


def to_svg(record: dict[str, Any]) -> str:
    """Return the figure: seconds above, memory below, by rows, columns and clients."""

    def panel(size: str, unit: str, values: Callable[[dict[str, Any]], dict[str, float]]) -> Panel:
        cases = [values(case) for case in record[size]]
        lines = {label: [case[label] for case in cases] for label in cases[0]}
        return Panel(size, unit, [case[size] for case in record[size]], lines)

    def seconds(case: dict[str, Any]) -> dict[str, float]:
        return {label: case["cpu_seconds"][phase] for label, phase in PLOTTED.items()}

    def memory(case: dict[str, Any]) -> dict[str, float]:
        return {"peak": case["peak_mib"], "the tables alone": case["tables_mib"]}

    panels = [panel(size, "CPU seconds", seconds) for size in SIZES] + [panel(size, "MiB", memory) for size in SIZES]
    return draw(panels, columns=len(SIZES), title="Seconds and memory by rows, columns and clients")


def _growth(name: str, cases: list[dict[str, Any]]) -> str:
    first, last = cases[0], cases[-1]
    fixed = {
        "rows": f"{first['columns']:,} columns, {first['clients']} clients",
        "columns": f"{first['rows']:,} rows, {first['clients']} clients",
        "clients": f"{first['rows']:,} rows, {first['columns']:,} columns in all",
    }[name]
    time = last["cpu_seconds"]["total"] / first["cpu_seconds"]["total"]
    memory = last["peak_mib"] / first["peak_mib"]
    return (
        f"**By {name}** ({fixed}): {last[name] / first[name]:g} times the {name} take {time:.3g} times the CPU time "
        f"and {memory:.3g} times the memory."
    )


def _large_table(cases: list[dict[str, Any]]) -> list[str]:
    """Cases side by side: what a case costs is read from top to bottom."""

    def time_of(phase: str) -> Callable[[dict[str, Any]], str]:
        return lambda case: f"{case['seconds'][phase]:.1f} s ({case['cpu_seconds'][phase]:.1f} s)"

    rows: dict[str, Callable[[dict[str, Any]], str]] = {
        "clients": lambda case: f"{case['clients']}",
        "steps of one epoch": lambda case: f"{case['steps']:,}",
        "exchange of keys, wall (CPU)": time_of("keys"),
        "alignment": time_of("align"),
        "preparation of columns": time_of("prepare"),
        "Gini": time_of("gini"),
        "one epoch": time_of("gated"),
        "**all**": lambda case: f"**{time_of('total')(case)}**",
        "messages, bytes": lambda case: f"{case['messages']:,}, {case['bytes'] / 1e6:,.1f} MB",
        "largest message": lambda case: f"{case['largest_message_bytes'] / 1e6:,.1f} MB",
        "tables of all clients": lambda case: f"{case['tables_mib']:,.0f} MiB",
        "**peak memory, all parties**": lambda case: f"**{case['peak_mib']:,.0f} MiB**",
    }
    heads = [f"{case['columns']:,} columns x {case['rows']:,} rows" for case in cases]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(cases) + 1) + "|"]
    return lines + [f"| {title} | {' | '.join(show(case) for case in cases)} |" for title, show in rows.items()]


def _growth_table(name: str, cases: list[dict[str, Any]]) -> list[str]:
    heads = [name, "steps", "align", "prepare", "Gini", "epoch", "**all**", "wall", "MB sent", "**peak MiB**"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in cases:
        cells = [
            f"{case[name]:,}",
            f"{case['steps']:,}",
            *(f"{case['cpu_seconds'][phase]:.1f}" for phase in ("align", "prepare", "gini", "gated")),
            f"**{case['cpu_seconds']['total']:.1f}**",
            f"{case['seconds']['total']:.1f}",
            f"{case['bytes'] / 1e6:,.1f}",
            f"**{case['peak_mib']:,.0f}**",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _last_line(text: str) -> str:
    return text.strip().rsplit("\n", 1)[-1] or "no reason given"

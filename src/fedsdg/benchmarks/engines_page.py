"""The page docs/benchmarks-engines.md, from the record of `fedsdg bench engines`."""

from __future__ import annotations

from statistics import mean
from typing import Any

NAMES = {"in process": "in one process", "flare": "NVIDIA FLARE", "flower": "Flower"}
#: The machine was busy with something else if its load was above this before anything of ours ran, or if the same run
#: took so many times as long the second time.
QUIET, NOISE = 1.0, 1.15
WIRE = {
    "namespaces": [
        "Every party ran in a network namespace of its own, with its own address. Bytes on the wire are those that",
        "the label owner's device sent and received while the job was driven: our messages with TLS, HTTP/2 and the",
        "engine's own fields, its heartbeats, TCP and IP headers of packets of 1,500 bytes, acknowledgements,",
        "Ethernet headers. What a site's processes say to each other on their own machine is not among them.",
    ],
    "loopback": [
        "All parties shared this machine's loopback device (network namespaces were not permitted). Bytes on the wire",
        "are those that the device sent while the job was driven: our messages with TLS and the engine's own fields,",
        "its heartbeats, TCP and IP headers, and all that the processes of one site, or anybody else, said on this",
        "device.",
    ],
}


def to_markdown(record: dict[str, Any]) -> str:
    """Return the record as a page."""
    where, cases = record["machine"], record["cases"]
    loads = [case["load"] for case in cases]
    steps = ", ".join(f"{count} {phase}" for phase, count in cases[0]["steps"].items())
    size = f"{record['rows']:,} rows x {record['columns']} columns, {record['clients']} clients, {steps} steps"
    versions = ", ".join(f"{name} {record['versions'][name]}" for name in ("nvflare", "flwr"))
    lines = [
        "# What an engine costs",
        "",
        "Written by `make bench`. The same encrypted job from the same files and seeds: in one process, over NVIDIA",
        "FLARE with mutual TLS, over Flower with TLS and registered keys. The engines' sites were real processes,",
        "started with the commands of the [operator's guide](operators.md).",
        "",
        f"- date: {record['date']}{' (quick run: a tiny job, its ratios mean nothing)' if record['quick'] else ''}",
        f"- machine: {where['cpu']}, {where['cores']} cores; back end {record['backend']}",
        f"- {versions}",
        f"- the job: `masked`, {record['key_bits']}-bit keys, {size}",
        f"- load of the machine before the runs: {min(loads):.1f} to {max(loads):.1f}",
        "",
        "## Overhead",
        "",
        *_overhead(record),
        "",
        *_verdicts(record),
        "",
        "All runs selected the same columns, and all losses were equal to the last bit.",
        "",
        "Training is everything after the exchange of keys, up to the score on held-out rows. Starting is the time",
        "until the job's first request: kits, sites, processes and their libraries. What the ratio means: in one",
        "process the clients work one after the other, each on all cores; with an engine they are processes that work",
        "at the same time and share the same cores. So an engine adds its carrying and may win back some waiting. On",
        "machines of their own the parties would not share cores. The run in one process was measured before and",
        "after the engines, and the ratio is to the mean; on a busy machine a ratio says little (many processes",
        "get more of it than one); carrying and CPU seconds say more.",
        "",
        "Carrying is the part of an exchange in which no client works (with engines: the slowest one): encoding, TLS,",
        "the engine, the way. CPU seconds are those of the parties' own processes, without the engine's other ones.",
        "",
        "## Bytes on the wire",
        "",
        *WIRE[record["network"]],
        "",
        "| | codec's count | on the wire | ratio |",
        "|---|---|---|---|",
        *(
            f"| {NAMES[case['engine']]} | {case['codec_bytes']:,} | {case['wire_bytes']:,} | "
            f"{case['wire_bytes'] / case['codec_bytes']:.3f} |"
            for case in cases
            if case["wire_bytes"] is not None
        ),
        "",
        "## A longer way",
        "",
        *_longer_way(record["latency"]),
    ]
    return "\n".join([*lines, ""])


def _overhead(record: dict[str, Any]) -> list[str]:
    columns = {engine: [case for case in record["cases"] if case["engine"] == engine] for engine in NAMES}
    ratios = {"in process": 1.0, **record["ratios"]}

    def row(title: str, name: str, form: str) -> str:
        cells = (" and ".join(form.format(case[name]) for case in cases) for cases in columns.values())
        return f"| {title} | {' | '.join(cells)} |"

    return [
        f"| | {' | '.join(NAMES.values())} |",
        "|---|---|---|---|",
        row("load before", "load", "{:.1f}"),
        row("training, seconds", "training_s", "{:.1f}"),
        f"| **against one process** | {' | '.join(f'**{ratios[engine]:.2f}**' for engine in columns)} |",
        row("starting, seconds", "start_s", "{:.1f}"),
        row("exchanges", "exchanges", "{:,}"),
        row("ms per exchange", "ms_per_exchange", "{:.1f}"),
        row("of that carrying", "carrying_ms_per_exchange", "{:.1f}"),
        row("CPU seconds", "cpu_s", "{:.1f}"),
    ]


def _verdicts(record: dict[str, Any]) -> list[str]:
    alone = mean(case["training_s"] for case in record["cases"] if case["engine"] == "in process")
    lines = []
    for engine, aim in record["aims"].items():
        case = next(case for case in record["cases"] if case["engine"] == engine)
        carried = case["exchanges"] * case["carrying_ms_per_exchange"] / 1000
        outcome = "it is met" if record["ratios"][engine] < aim else "it is **missed**"
        if busy := _busy(record):
            outcome = f"{busy}, so **nothing can be said**"
        lines.append(
            f"* {NAMES[engine]}: the aim is under {aim} times; {outcome} at {record['ratios'][engine]:.2f}. "
            f"Carrying took {carried:.1f} s, {100 * carried / alone:.0f} % of the time in one process."
        )
    return lines


def _busy(record: dict[str, Any]) -> str | None:
    """Return why ratios mean nothing: what else the machine did. Before the first run nothing of ours was running."""
    before = record["cases"][0]["load"]
    if before > QUIET:
        return f"the machine was busy (load {before:.1f} before the first run)"
    if record["noise"] > NOISE:
        return f"the two runs in one process differ {record['noise']:.2f} times"
    return None


def _longer_way(latency: dict[str, Any] | None) -> list[str]:
    if latency is None:
        return ["Not measured."]
    if "left_out" in latency:
        return [f"Not measured: {latency['left_out']}."]
    lines = [
        f"The label owner's cable was made {latency['ms_each_way']:g} ms longer each way: whole frames were held back,",
        f"below TCP. From a client to the label owner and back took {latency['round_trip_ms']:.1f} ms. A smaller job,",
        f"{latency['steps']} batches of 128 rows, without and with the delay; a batch counts with its share of",
        "validation passes and checkpoints. Both learned the same bits.",
        "",
        "| | seconds per batch, near | far | **cost of the way** | round trips per batch | load before |",
        "|---|---|---|---|---|---|",
    ]
    for engine, found in latency["engines"].items():
        loads = " and ".join(f"{load:.1f}" for load in found["load"])
        lines.append(
            f"| {NAMES[engine]} | {found['s_per_batch_near']:.2f} | {found['s_per_batch_far']:.2f} | "
            f"**{found['cost_s_per_batch']:.2f} s** | {found['round_trips_per_batch']:.1f} | {loads} |"
        )
    return lines

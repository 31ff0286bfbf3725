"""What a finished run prints."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedsdg.demo import Demonstration
from fedsdg.estimate import Estimate
from fedsdg.report.quantities import duration, size
from fedsdg.results import SelectionResult


def show_result(console: Console, result: SelectionResult, out: Path | None) -> None:
    """Selected features, score, cost, what leaks, and where the files are."""
    show_selection(console, result)
    metrics = result.metrics
    name = "R²" if metrics["metric"] == "r2" else "accuracy"
    line = f"{name}: validation {float(metrics['validation']):.3f}"
    if "test" in metrics:
        line += f", test [bold]{float(metrics['test']):.3f}[/] ± {float(metrics['test_standard_error']):.3f}"
        line += f" ({metrics['test_rows']} rows nobody learned from)"
    console.print(line, highlight=False)
    show_cost(console, result)
    for note in result.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    console.print(f"what leaks: {result.leakage}", highlight=False)
    if out is not None:
        show_files(console, out)


def show_files(console: Console, out: Path) -> None:
    """Where everything lies; paths are never wrapped, so that they can be copied."""
    text = f"files: {out}/ (selection.json, metrics.jsonl, one folder per party)"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def show_selection(console: Console, result: SelectionResult) -> None:
    """One row per client, with its selected columns."""
    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    table.add_column("client")
    table.add_column("columns", justify="right")
    table.add_column("kept", justify="right")
    table.add_column("selected features (widest gate first)")
    for name, client in result.clients.items():
        by_gate = sorted(client.selected, key=lambda column: -client.gates[column])
        columns = ", ".join(escape(column) for column in by_gate) or "-"
        table.add_row(escape(name), str(client.n_features), str(len(by_gate)), columns)
    console.print(table)


def show_cost(console: Console, result: SelectionResult) -> None:
    """Key size, back end, messages, bytes, seconds by phase."""
    parts = ", ".join(f"{phase} {duration(s)}" for phase, s in result.seconds.items() if phase != "total")
    if result.profile == "masked":
        console.print(
            f"cost: {result.key_bits}-bit keys on {result.backend}, {sum(result.messages.values()):,} messages, "
            f"{size(result.bytes['total'])}, {duration(result.seconds['total'])} ({parts})",
            highlight=False,
        )
    else:
        console.print(f"cost: {duration(result.seconds['total'])} in the clear ({parts})", highlight=False)


def show_demo(console: Console, demo: Demonstration, out: Path) -> None:
    """The demonstration's story, beside the truth."""
    story, result = demo.story, demo.result
    console.rule("what was selected")
    show_selection(console, result)
    truth = result.truth or {}
    informative = sum(len(columns) for columns in story.informative.values())
    redundant = sum(len(columns) for columns in story.redundant.values())
    found = sum(len(story.informative[name] & set(of.selected)) for name, of in result.clients.items())
    console.print(
        f"truth: {informative} informative and {redundant} redundant columns of {result.metrics['n_columns']}; "
        f"precision [bold]{truth['precision']:.2f}[/], recall [bold]{truth['recall']:.2f}[/] ({found} of the "
        f"{informative} informative columns; a redundant one adds nothing beside what it repeats)",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("model", "columns", "accuracy on rows nobody learned from"):
        table.add_column(title, justify="left" if title == "model" else "right")
    table.add_row("fedsdg, selected features", str(result.n_selected), f"{float(result.metrics['test']):.3f}")
    table.add_row("same model, all features (plain)", str(result.metrics["n_columns"]), f"{demo.all_features_test:.3f}")
    console.print(table)
    show_cost(console, result)
    console.print(f"what leaks: {result.leakage}", highlight=False)
    show_files(console, out)
    console.print(
        "\nyour own tables: [bold]fedsdg init my-job[/] writes a commented job.toml to start from", highlight=False
    )


def show_estimate(console: Console, estimate: Estimate, settings_profile: str) -> None:
    """One row per phase, and the total."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("phase", "steps", "messages", "bytes", "seconds here"):
        table.add_column(title, justify="left" if title == "phase" else "right")
    for phase in estimate.phases:
        table.add_row(
            phase.name, str(phase.steps or "-"), f"{phase.messages:,}", size(phase.bytes), duration(phase.seconds)
        )
    table.add_row(
        "at most", "", f"{estimate.messages:,}", size(estimate.bytes), duration(estimate.seconds), style="bold"
    )
    console.print(table)
    console.print(
        f"profile {settings_profile}, back end {estimate.backend}; all parties on this machine. The gated phase often "
        "stops early, and closed embedding dimensions are no longer sent.",
        highlight=False,
    )

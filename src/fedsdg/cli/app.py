"""The commands of `fedsdg`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import fedsdg
from fedsdg import api, diagnosis, site_checks, starter
from fedsdg import demo as demonstration
from fedsdg.cli import flower as flower  # adds its commands to `deploy` and `site`
from fedsdg.cli import progress as display
from fedsdg.cli import report, rows, running
from fedsdg.cli.bench import bench
from fedsdg.cli.deploy import deploy, site
from fedsdg.cli.experiment import experiment
from fedsdg.cli.inspect import inspect
from fedsdg.cli.running import Quiet
from fedsdg.cli.write_report import report as write_report
from fedsdg.estimate import estimate as estimate_cost
from fedsdg.job import RunSettings, load_job
from fedsdg.run_folder import RunFolder

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=fedsdg.__doc__)
app.add_typer(bench, name="bench")
app.add_typer(deploy, name="deploy")
app.add_typer(experiment, name="experiment")
app.add_typer(site, name="site")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"fedsdg {fedsdg.__version__}")
        raise typer.Exit


@app.command()
def doctor(
    party: Annotated[Path | None, typer.Option(help="Check this party's file, its rows and its policy, too.")] = None,
    kit: Annotated[Path | None, typer.Option(help="Check this site's certificate, clock and port, too.")] = None,
) -> None:
    """Show what this installation runs on: back end and why, CPU, versions. Exit code 1 if something is broken."""
    findings = diagnosis.examine()
    if party is not None or kit is not None:
        findings += site_checks.examine_site(party, kit)
    console = Console()
    for finding in findings:
        mark = {"ok": "[green]ok[/]  ", "note": "[yellow]note[/]", "broken": "[red]FAIL[/]"}[finding.verdict]
        text = f"{mark}  [bold]{finding.subject}[/]: {escape(finding.text)}"
        console.print(text, highlight=False, soft_wrap=True)
    if any(finding.verdict == "broken" for finding in findings):
        raise typer.Exit(1)


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Where to write job.toml and sample tables.")] = Path()) -> None:
    """Write a commented job.toml and sample tables to start from."""
    written = starter.write_starter(folder)
    for path in written:
        print(f"written: {path}")
    print(f"next: fedsdg run {shlex.quote(str(written[0]))} --out {shlex.quote(str(folder / 'run'))}")


app.command()(inspect)
app.command()(running.run)
app.command()(running.resume)
app.command()(rows.align)
app.command()(rows.predict)
app.command("report")(write_report)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for this run; it must not exist yet.")] = Path("runs/demo"),
    key_bits: Annotated[int, typer.Option(help="2048 or 3072.")] = 2048,
    quiet: Quiet = False,
) -> None:
    """Let a bank, a phone company and a web shop select features together: generated tables, real encryption."""
    console = Console(quiet=quiet)
    RunFolder.refuse_unusable(out)
    settings = RunSettings(profile="masked", key_bits=key_bits, checkpoint_every=0, training=demonstration.TRAINING)
    console.print(
        "A bank knows who paid back a loan. A phone company and a web shop hold columns about the same "
        f"{demonstration.ROWS:,} people;\nmost columns are noise, and nobody may see another's. They train together "
        f"under {key_bits}-bit Paillier encryption.",
        highlight=False,
    )
    if console.is_terminal and not quiet:
        with display.LiveProgress(console) as watch:
            shown = demonstration.demonstrate(out, watch, settings)
    else:
        shown = demonstration.demonstrate(out, display.silent if quiet else display.plain_lines(100), settings)
    report.show_demo(console, shown, out)


@app.command()
def estimate(job: Annotated[Path, typer.Argument(help="The job file.")]) -> None:
    """Say what a job will cost before it runs: messages, bytes, seconds on this machine."""
    loaded = load_job(job)
    data, alignment = api.align(loaded)
    private = alignment if loaded.ids == "private" else None
    report.show_estimate(Console(), estimate_cost(data, loaded.settings, private), loaded.profile)

"""The commands of `fedsdg`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

import fedsdg
from fedsdg import diagnosis
from fedsdg.benchmarks import crypto as crypto_benchmark
from fedsdg.errors import ConfigError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=fedsdg.__doc__)
bench = typer.Typer(no_args_is_help=True, help="Measure, side by side with what you would use instead.")
app.add_typer(bench, name="bench")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"fedsdg {fedsdg.__version__}")
        raise typer.Exit


@app.command()
def doctor() -> None:
    """Show what this installation runs on: back end and why, CPU, versions. Exit code 1 if something is broken."""
    findings = diagnosis.examine()
    console = Console()
    for finding in findings:
        mark = {"ok": "[green]ok[/]  ", "note": "[yellow]note[/]", "broken": "[red]FAIL[/]"}[finding.verdict]
        console.print(f"{mark}  [bold]{finding.subject}[/]: {finding.text}", highlight=False)
    if any(finding.verdict == "broken" for finding in findings):
        raise typer.Exit(1)


@bench.command("crypto")
def bench_crypto(
    json: Annotated[Path | None, typer.Option(help="Write the measurements as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the page that docs/benchmarks.md shows.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions: under two minutes.")] = False,
) -> None:
    """Encrypted arithmetic against python-paillier and HEU, as ratios measured in one run."""
    targets = [path for path in (json, markdown) if path is not None]
    for path in targets:
        if not path.parent.is_dir():
            raise ConfigError(f"Cannot write {path}: the folder {path.parent} does not exist.")
    console = Console()
    with console.status("measuring") as status:
        record = crypto_benchmark.run(quick, say=lambda text: status.update(text))
    page = crypto_benchmark.to_markdown(record)
    if json is not None:
        json.write_text(crypto_benchmark.to_json(record), encoding="utf-8")
    if markdown is not None:
        markdown.write_text(page, encoding="utf-8")
    console.print(Markdown(page))
    for path in targets:
        console.print(f"written: {path}")

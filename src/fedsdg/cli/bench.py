"""`fedsdg bench ...`: measure, side by side with what you would use instead."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from fedsdg.benchmarks import crypto as crypto_benchmark
from fedsdg.benchmarks import job as job_benchmark
from fedsdg.benchmarks import scale as scale_benchmark
from fedsdg.deployment import engine_module
from fedsdg.errors import ConfigError

bench = typer.Typer(no_args_is_help=True, help="Measure, side by side with what you would use instead.")

Json = Annotated[Path | None, typer.Option(help="Write the measurements as JSON.")]
Page = Annotated[Path | None, typer.Option(help="Write the measurements as a Markdown page.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer repetitions: under two minutes.")]


@bench.command()
def crypto(json: Json = None, markdown: Page = None, quick: Quick = False) -> None:
    """Encrypted arithmetic against python-paillier and HEU, as ratios measured in one run."""
    _check_targets(json, markdown)
    console = Console()
    with console.status("measuring") as status:
        record = crypto_benchmark.run(quick, say=lambda text: status.update(text))
    _publish(console, json, markdown, crypto_benchmark.to_json(record), crypto_benchmark.to_markdown(record))


@bench.command()
def job(json: Json = None, markdown: Page = None, quick: Quick = False) -> None:
    """Secure training: one step, its cost as embeddings close, and (not with --quick) a whole MADELON-sized job."""
    _check_targets(json, markdown)
    console = Console()
    with console.status("measuring") as status:
        record = job_benchmark.run(
            quick,
            say=lambda text: status.update(text),
            watch=lambda update: status.update(f"{update.phase} {update.step}/{update.steps}"),
        )
    _publish(console, json, markdown, job_benchmark.to_json(record), job_benchmark.to_markdown(record))


@bench.command()
def scale(json: Json = None, markdown: Page = None, quick: Quick = False) -> None:
    """Large tables: time and memory, and how both grow with rows, columns and clients (--quick: tiny tables)."""
    _check_targets(json, markdown)
    console = Console()
    with console.status("measuring") as status:
        record = scale_benchmark.run(quick, say=lambda text: status.update(text))
    page = scale_benchmark.to_markdown(record)
    _publish(console, json, markdown, scale_benchmark.to_json(record), page)
    if markdown is not None:
        figure = markdown.parent / "figures" / "scale.svg"
        figure.parent.mkdir(exist_ok=True)
        figure.write_text(scale_benchmark.to_svg(record), encoding="utf-8")
        console.print(f"written: {figure}", highlight=False, markup=False, soft_wrap=True)


@bench.command()
def engines(
    json: Json = None,
    markdown: Page = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny job: whether it works, not how fast.")] = False,
    latency: Annotated[float, typer.Option(min=0, help="Also with so many ms added each way; 0: leave it out.")] = 50.0,
) -> None:
    """The same encrypted job in one process, on NVIDIA FLARE and on Flower: time, exchanges, bytes on the wire."""
    _check_targets(json, markdown)
    measured = engine_module("fedsdg.benchmarks.engines", "flare")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or sites and network namespaces would be left behind
    console = Console()
    with console.status("measuring") as status:
        record = measured.run(quick, latency, say=lambda text: status.update(text))
    _publish(console, json, markdown, measured.to_json(record), measured.to_markdown(record))


def _check_targets(*paths: Path | None) -> None:
    """Refuse unwritable targets before anything is measured."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"Cannot write {path}: the folder {path.parent} does not exist.")
        if path is not None and path.is_dir():
            raise ConfigError(f"Cannot write {path}: it is a folder.")


def _publish(console: Console, json: Path | None, markdown: Path | None, record: str, page: str) -> None:
    console.print(Markdown(page))
    for path, content in ((json, record), (markdown, page)):
        if path is not None:
            path.write_text(content, encoding="utf-8")
            console.print(f"written: {path}", highlight=False, markup=False, soft_wrap=True)

"""`fedsdg run` and `fedsdg resume`."""

from __future__ import annotations

import json as json_module
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from fedsdg import api
from fedsdg.cli import progress as display
from fedsdg.cli import report
from fedsdg.cli.logs import LogLevel, log_to_stderr
from fedsdg.job import load_job
from fedsdg.results import SelectionResult, to_json
from fedsdg.run_folder import RunFolder, settings_of
from fedsdg.trackers import Trackers, tracking

Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
JsonLines = Annotated[bool, typer.Option("--json-lines", help="One JSON line per step, then the result.")]

TensorBoardFolder = Annotated[
    Path | None, typer.Option("--tensorboard", help="Record the run in this folder, for TensorBoard.", metavar="DIR")
]
MLflowUri = Annotated[
    str | None,
    typer.Option("--mlflow", help="Record the run in MLflow: a server's address, or a folder.", metavar="URI"),
]


def run(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    out: Annotated[Path, typer.Option(help="The folder for this run; it must not exist yet.")],
    quiet: Quiet = False,
    json_lines: JsonLines = False,
    log_level: LogLevel = "warning",
    tensorboard: TensorBoardFolder = None,
    mlflow: MLflowUri = None,
) -> None:
    """Select features and train, securely, with all parties' tables on this machine. Ctrl-C stops; resume goes on."""
    log_to_stderr(log_level)
    settings = load_job(job).settings  # a broken job file is told before anything is shown
    RunFolder.refuse_unusable(out)
    with (
        tracking(settings, name=out.resolve().name, tensorboard=tensorboard, mlflow=mlflow) as trackers,
        stop_at_next_step(quiet) as stop,
    ):
        _show(lambda watch: api.run(job, out, watch, stop=stop), out, quiet, json_lines, trackers)


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of an interrupted run.")],
    job: Annotated[Path | None, typer.Option(help="The job file, if it has moved since.")] = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
    log_level: LogLevel = "warning",
    tensorboard: TensorBoardFolder = None,
    mlflow: MLflowUri = None,
) -> None:
    """Go on with an interrupted run from its last checkpoint, to the result it would have had."""
    log_to_stderr(log_level)
    name = run.resolve().name.removesuffix(".partial")
    with (
        tracking(settings_of(run), name=name, tensorboard=tensorboard, mlflow=mlflow) as trackers,
        stop_at_next_step(quiet) as stop,
    ):
        _show(lambda watch: api.resume(run, watch, job=job, stop=stop), run, quiet, json_lines, trackers)


def _show(
    work: Callable[[api.Watch], SelectionResult], out: Path, quiet: bool, json_lines: bool, trackers: Trackers
) -> None:
    console = Console(quiet=quiet)
    if quiet or json_lines:
        result = work(trackers.watch(display.json_lines if json_lines else display.silent))
        trackers.finish(result)
        if json_lines:
            print(to_json({"result": json_module.loads(result.to_json())}))
        return
    if not console.is_terminal:
        result = work(trackers.watch(display.plain_lines()))
    else:
        with display.LiveProgress(console) as watch:
            result = work(trackers.watch(watch))
    trackers.finish(result)
    report.show_result(console, result, out)


@contextmanager
def stop_at_next_step(quiet: bool = False) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C (and SIGTERM) stop a run after the present step, with a checkpoint; a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if not quiet:
            print("stopping after this step (again: at once) ...", file=sys.stderr, flush=True)

    before = {}
    with suppress(ValueError):  # only a main thread may listen to signals
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""`fedsdg experiment ...`: rerun the comparisons, resume them, and print their tables."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from fedsdg.datasets import registry
from fedsdg.datasets.local_folder import FOLDER_VARIABLE
from fedsdg.errors import ConfigError
from fedsdg.experiments import catalogue, runner
from fedsdg.experiments.cell import Row
from fedsdg.experiments.grid import Grid, idle_methods, left_out
from fedsdg.experiments.methods import label
from fedsdg.experiments.recorded import read_recorded, told_if_unusable
from fedsdg.experiments.results import FAILURES, RESULTS
from fedsdg.report.markdown_tables import needed_width
from fedsdg.report.quantities import duration

experiment = typer.Typer(no_args_is_help=True, help="Rerun the paper's comparisons with honest splits.")

USUAL_PROCESSES = min(2, os.cpu_count() or 1)
MOST = 1000
"""Folds or seeds: with a few zeros too many, a list of all cells would fill the memory before anything is said."""


@experiment.command("list")
def list_experiments(
    of: Annotated[str, typer.Argument(metavar="[NAME]", help="Show this one's methods, as --methods takes them.")] = "",
) -> None:
    """Show every experiment with its question, data sets and number of methods, then every data set."""
    console = Console()
    if of:
        _list_methods(console, of)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("experiment", "question", "data sets", "methods"):
        table.add_column(name)
    for each in catalogue.EXPERIMENTS.values():
        table.add_row(each.name, each.question, ", ".join(each.datasets), str(len(each.variants)))
    console.print(table)
    sets = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("data set", "kind", "what it is"):
        sets.add_column(name)
    for entry in registry.ENTRIES.values():
        sets.add_row(entry.name, entry.kind, entry.description)
    console.print()
    console.print(sets)


def _list_methods(console: Console, of: str) -> None:
    """Show the methods as --methods takes them, as tables call them, and where they run if that is not everywhere."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("method", "in tables", "data sets, if not all"):
        table.add_column(name)
    for each in catalogue.find(of).variants:
        table.add_row(each.name, label(each.name), ", ".join(each.datasets or ()))
    console.print(table, highlight=False)


@experiment.command()
def run(
    name: Annotated[str, typer.Argument(help="The experiment; `fedsdg experiment list` shows them.")],
    out: Annotated[Path, typer.Option(help="The folder of its results; rows that are there are kept.")],
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: the experiment's.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, max=MOST, help="Folds of the cross-validation.")] = 5,
    seeds: Annotated[
        int, typer.Option(min=1, max=MOST, help="Repetitions with other folds, dealings and initial weights.")
    ] = 1,
    first_seed: Annotated[int, typer.Option(min=0, max=MOST, help="The first of these repetitions.")] = 0,
    preset: Annotated[str | None, typer.Option(help="Training settings: default, wide or paper.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, separated by commas or semicolons.")] = None,
    processes: Annotated[
        int, typer.Option(min=1, max=runner.MOST_PROCESSES, help="Worker processes.")
    ] = USUAL_PROCESSES,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Run an experiment, or go on with it: rows that are already in results.jsonl are skipped."""
    console = Console(quiet=quiet)
    asked = () if datasets is None else _names(datasets, ",")
    grid = Grid(name, asked, folds, seeds, first_seed, preset, None if methods is None else _methods(methods, name))
    for line in _not_computed(grid):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    began = time.perf_counter()
    try:
        with _display(console) as progress:
            bar = progress.add_task(name, total=None, last="")

            def watch(done: int, total: int, row: Row) -> None:
                progress.update(bar, completed=done, total=total, last=_line(row))
                if not console.is_terminal and not quiet:
                    print(f"{done}/{total} {_line(row)} {duration(time.perf_counter() - began)}", flush=True)

            outcome = runner.run(grid, out, processes=processes, watch=watch)
    except KeyboardInterrupt:
        console.print(f"stopped; every finished row is in {out / RESULTS}. The same command goes on from there.")
        raise typer.Exit(130) from None
    console.print(
        f"{outcome.done} rows computed, {outcome.skipped} were there: {out / RESULTS}", highlight=False, soft_wrap=True
    )
    if outcome.failed:
        console.print(f"{outcome.failed} rows failed: {out / FAILURES}; the same command tries them again.")
        raise typer.Exit(1)


@experiment.command()
def table(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown as it is, as into a pipe.")] = False,
) -> None:
    """Print the table of an experiment, also of an unfinished one.

    Where its tables are wider than the terminal, or nobody looks at one, it is Markdown: cut-off names say nothing.
    """
    found = read_recorded(folder)
    with told_if_unusable(folder):
        body = found.experiment.page(found.rows) if found.rows else "No rows yet."
    page = f"# {found.about['name']}: {found.about['question']}\n\n{body}"
    if markdown or not sys.stdout.isatty() or Console().width < needed_width(page):
        print(page)
    else:
        Console().print(Markdown(page))


def _names(text: str, separator: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(separator) if name.strip())
    if not names:  # an unset variable, or a lone comma: nobody meant everything by it
        raise ConfigError(f"{text!r} names nothing; leave the option out for everything")
    return names


def _methods(text: str, experiment: str) -> tuple[str, ...]:
    """Split at semicolons, and at commas unless a comma belongs to a method's name."""
    known = {each.name for each in catalogue.find(experiment).variants}
    return tuple(name for piece in _names(text, ";") for name in ([piece] if piece in known else _names(piece, ",")))


def _not_computed(grid: Grid) -> Iterator[str]:
    """Say what somebody might expect and will not find among the rows."""
    for name in left_out(grid):
        yield f"{name} is left out: it is no genuine data set, and is read from a folder that {FOLDER_VARIABLE} names."
    for name, sets in idle_methods(grid).items():
        yield f"{name} is left out: it runs on {', '.join(sets)}, and on none of these data sets."


def _line(row: Row) -> str:
    named = {"accuracy": "accuracy", "r2": "R²"}
    scores = [f"{what} {row[name]:.3f}" for name, what in named.items() if row.get(name) is not None]
    found = f"FAILED {row['error']}" if "error" in row else ", ".join(scores)
    return f"{row['dataset']} {row['method']} fold {row['fold']} seed {row['seed']} {found}"


def _display(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[last]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )

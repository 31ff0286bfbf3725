"""`fedsdg inspect`: what each party's columns are taken for and what becomes of them, from its own rows only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedsdg.data.encoding import TableEncoder
from fedsdg.data.sources import IdentifiedLabels, IdentifiedTable, read_labels, read_party
from fedsdg.errors import ConfigError
from fedsdg.job import Job, load_job
from fedsdg.party_source import EncodingSettings


def inspect(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    party: Annotated[str | None, typer.Option(help="Look at this party only.")] = None,
) -> None:
    """Show each party's columns: kind, treatment, inputs, missing cells and notes. Nothing leaves a party."""
    loaded, console = load_job(job), Console()
    for name in parties(loaded, party):
        if name == loaded.server.name:
            labels, table = read_labels(loaded.server, name)
            show_labels(console, name, loaded.server.target, labels)
            encoding = loaded.server.encoding
        else:
            table, encoding = read_party(loaded.clients[name], name), loaded.clients[name].encoding
        if table is not None:
            show_columns(console, name, table, encoding)
    console.print(
        "What is learned (medians, scales, frequent levels and words) is shown for all rows; a run learns it from its "
        "training rows.",
        highlight=False,
    )


def parties(job: Job, only: str | None) -> Iterator[str]:
    """Return the names of the parties to look at."""
    names = (job.server.name, *job.clients)
    if only is not None and only not in names:
        raise ConfigError(f"--party: there is no party {only!r}; there are {', '.join(names)}.")
    return (name for name in names if only in (None, name))


def show_labels(console: Console, name: str, target: str, labels: IdentifiedLabels) -> None:
    """One line about the labels."""
    text = (
        f"{name}: {len(labels.ids):,} rows, labels {target!r} with {len(np.unique(labels.labels)):,} different values"
    )
    console.print(text, highlight=False, markup=False)


def show_columns(console: Console, name: str, read: IdentifiedTable, encoding: EncodingSettings) -> None:
    """One row per column."""
    encoder = TableEncoder.fit(read.table, np.arange(read.table.n_rows), encoding)
    fates = {fate.name: fate for fate in encoder.describe()}
    console.print(
        f"{name}: {read.table.n_rows:,} rows, {len(read.read):,} columns, {encoder.n_inputs:,} inputs",
        highlight=False,
        markup=False,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("column", "kind", "", "inputs", "missing", "treatment", "note"):
        right = title in ("inputs", "missing")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for column in read.read:
        fate = fates.get(column.name)
        dropped = f"never selected: {fate.unusable}" if fate is not None and fate.unusable is not None else ""
        table.add_row(
            escape(column.name),
            column.pin.kind,
            "pinned" if column.pinned else "inferred",
            str(fate.inputs) if fate is not None else "-",
            f"{column.missing / read.table.n_rows:.1%}",
            fate.treatment if fate is not None else "-",
            escape(dropped or column.note or ""),
        )
    console.print(table)

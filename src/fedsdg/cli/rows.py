"""`fedsdg align` and `fedsdg predict`: the rows that parties have in common, and scores for new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedsdg import alignment_run, scoring
from fedsdg.cli.logs import LogLevel, log_to_stderr
from fedsdg.errors import ConfigError
from fedsdg.job import load_job
from fedsdg.report.quantities import duration, size


def align(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    out: Annotated[
        Path | None, typer.Option(help="Write each party's common rows there, in the common order, in its own folder.")
    ] = None,
    log_level: LogLevel = "warning",
) -> None:
    """Find the rows that all parties hold, by private set intersection, and say who learned what."""
    log_to_stderr(log_level)
    loaded = load_job(job)
    if out is not None:
        alignment_run.refuse_unusable(out)
    found = alignment_run.align(loaded, out)
    console = Console()
    for line in found.report:
        console.print(line, highlight=False, markup=False)
    console.print(f"cost: {size(found.bytes)}, {duration(found.seconds)}", highlight=False)
    if out is not None:
        console.print(f"files: {out}/ (one folder per party)", highlight=False, markup=False, soft_wrap=True)


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    rows: Annotated[
        list[str],
        typer.Option(help="NAME=FILE for every party, or a folder with one file per party, named like it."),
    ],
    out: Annotated[Path, typer.Option(help="Where the label owner's scores go: .csv, .tsv or .parquet.")],
    ids: Annotated[str | None, typer.Option(help="Score only these ids, separated by commas.")] = None,
    log_level: LogLevel = "warning",
) -> None:
    """Score new rows jointly with the model of a run; only the label owner gets scores."""
    log_to_stderr(log_level)
    scoring.refuse_unusable_output(out)
    wanted = None if ids is None else [key for key in ids.split(",") if key.strip()]
    scores = scoring.predict(run, _tables(rows), wanted)
    _, id_name = scoring.owner_and_id(run)
    scoring.write_scores(scores, out, id_name)
    console = Console()
    count, asked = int(scores.scored.sum()), len(scores.ids)
    console.print(f"scored {count:,} of {asked:,} ids -> {out}", highlight=False, markup=False, soft_wrap=True)
    if count < asked:
        lacking: dict[str, int] = {}
        for missing in scores.missing_at:
            if missing:
                lacking[missing] = lacking.get(missing, 0) + 1
        for parties, number in lacking.items():
            are = "id is" if number == 1 else "ids are"
            console.print(f"no score: {number:,} {are} not held by {parties}", highlight=False, markup=False)
    if scores.traffic.total and count:
        total, each = size(scores.traffic.total), size(scores.bytes_per_row)
        whole = scores.bytes_per_row_without_selection
        saved = 1 - scores.bytes_per_row / whole
        less = f"{saved:.0%} less" if saved >= 0.005 else "nothing saved: all of them are needed"
        line = (
            f"traffic: {total} in all; {each} of ciphertexts per scored row, {size(whole)} with every client and every "
            f"embedding dimension ({less})"
        )
        console.print(line, highlight=False)


def _tables(rows: list[str]) -> dict[str, str] | str:
    if len(rows) == 1 and "=" not in rows[0]:
        return rows[0]
    tables: dict[str, str] = {}
    for item in rows:
        name, equals, file = item.partition("=")
        if not (name and equals and file):
            raise ConfigError(f"--rows {item}: write NAME=FILE, or give one folder.")
        if name in tables:
            raise ConfigError(f"--rows: {name!r} is given twice.")
        tables[name] = file
    return tables

"""The files of an engine benchmark: one job, its tables, a file for each party, and always the same private seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fedsdg.benchmarks.engine_parties import CLIENTS, OWNER, RUN
from fedsdg.data.vertical_split import split_columns
from fedsdg.datasets.synthetic import madelon_like

JOB = """\
[job]
key_bits = 2048

[server]
name = "{owner}"
table = "{owner}.parquet"
id = "id"
target = "label"

{clients}
[training.gated_phase]
steps = {gated}
batch_size = {batch}

[training.compact_phase]
steps = {compact}
batch_size = {batch}
"""


@dataclass(frozen=True)
class JobSize:
    """How large the job is."""

    rows: int
    columns: int
    gated: int
    compact: int
    batch: int = 128


def write_files(folder: Path, size: JobSize) -> Path:
    """Write job, tables and party files; return the job file.

    Every party finds its private seed where an interrupted run would have left it. Such a run, resumed before its first
    checkpoint, begins at the beginning with that seed: so all runs of a benchmark learn the same.
    """
    folder.mkdir(parents=True)
    made = madelon_like(size.rows, size.columns, seed=1)
    ids = pl.Series("id", [f"P{number:06d}" for number in range(size.rows)])
    parts = split_columns(size.columns, len(CLIENTS), seed=1)
    pl.DataFrame([ids, pl.Series("label", made.labels)]).write_parquet(folder / f"{OWNER}.parquet")
    for name, columns in zip(CLIENTS, parts, strict=True):
        table = pl.DataFrame([ids, *(pl.Series(f"x{j}", made.features[:, j]) for j in columns)])
        table.write_parquet(folder / f"{name}.parquet")
    for name in (OWNER, *CLIENTS):
        what = '[labels]\ntarget = "label"' if name == OWNER else "[rows]"
        (folder / f"{name}.toml").write_text(
            f'[party]\nname = "{name}"\nfolder = "state_{name}"\n\n{what}\ntable = "{name}.parquet"\nid = "id"\n'
        )
        place = folder / f"state_{name}" / "runs" / RUN
        place.mkdir(mode=0o700, parents=True)
        (place / "private_seed").write_text(f"private seed of {name}".encode().ljust(32, b".").hex() + "\n")
    clients = "".join(f'[clients.{name}]\ntable = "{name}.parquet"\nid = "id"\n\n' for name in CLIENTS)
    phases = {"gated": size.gated, "compact": size.compact, "batch": size.batch}
    job = folder / "job.toml"
    job.write_text(JOB.format(owner=OWNER, clients=clients, **phases))
    return job

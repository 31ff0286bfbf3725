"""The parties of the operator's guide, made small, and what they would learn in the clear."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
from sites import SOURCE

from fedsdg.job import load_job
from fedsdg.party import load_party
from fedsdg.runtime.processes import own_path
from fedsdg.simulation import Simulation
from plain_twins import plain_twin

OWNER, CLIENTS = "bank", ("phone_company", "web_shop")
PHASE = "batch_size = 32\nhidden = [8]\nembedding = 4\n"
TRAINING = f"\n[training.gated_phase]\nsteps = 40\n{PHASE}\n[training.compact_phase]\nsteps = 8\noutputs = 4\n{PHASE}"


def make_small(folder: Path) -> None:
    """Shrink what `fedsdg init` wrote: fewer rows, columns and steps, and a checkpoint every 10 steps."""
    for path in folder.glob("*.csv"):
        table = pl.read_csv(path)
        table.select(table.columns[:6]).head(250).write_csv(path)
    job = folder / "job.toml"
    job.write_text(job.read_text().replace("# checkpoint_every = 25 ", "checkpoint_every = 10") + TRAINING)


def environment_of_a_terminal() -> dict[str, str]:
    """This installation's commands, this source; nothing else that a test has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FEDSDG_", "FLWR_", "GRPC_"))}
    return {
        **kept,
        "PATH": own_path(),
        "PYTHONPATH": os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    }


def twin_of(folder: Path, run: str) -> Simulation:
    """The same job in one process, in the clear, from the seeds that the parties drew."""
    parties = {name: load_party(folder / "project" / "parties" / f"{name}.toml") for name in (OWNER, *CLIENTS)}
    settings = load_job(folder / "demo-job" / "job.toml").settings.model_dump(mode="json")
    return plain_twin(parties, OWNER, run, settings)


def result_of(log: str) -> dict[str, Any]:
    """Read the result whose place the label owner's log names at its end."""
    places = [line.split("the result: ")[1] for line in log.splitlines() if "the result: " in line]
    assert places, log  # Flower's command ends well, whatever became of the run
    return dict(json.loads(Path(places[0]).read_text()))

"""The parties of the operator's guide, made small, and what they would learn in the clear."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
from sites import SOURCE

from fedsdg.data.sources import read_labels, read_party
from fedsdg.job import RunSettings, load_job
from fedsdg.party import load_party
from fedsdg.runtime.processes import own_path
from fedsdg.simulation import PartyTables, simulate

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


def plain_twin(folder: Path, run: str) -> Any:
    """The same job in one process, in the clear, from the seeds that the parties drew."""
    parties = {name: load_party(folder / "project" / "parties" / f"{name}.toml") for name in (OWNER, *CLIENTS)}
    labels, _ = read_labels(parties[OWNER].labels, OWNER)
    rows = {name: read_party(parties[name].rows, name) for name in CLIENTS}
    seeds = {name: (party.run_folder(run) / "private_seed").read_text() for name, party in parties.items()}
    settings = load_job(folder / "demo-job" / "job.toml").settings.model_dump(mode="json")
    return simulate(
        PartyTables(
            labels.labels,
            {name: of.table for name, of in rows.items()},
            OWNER,
            labels.ids,
            client_ids={name: of.ids for name, of in rows.items()},
        ),
        RunSettings(**{**settings, "profile": "plain"}),
        private_seeds={"server" if name == OWNER else name: bytes.fromhex(seed) for name, seed in seeds.items()},
    )


def learned_the_same(result: dict[str, Any], twin: Any) -> bool:
    """Whether every loss, the selection and the score agree to the last bit."""
    return (
        result["losses"] == {phase: list(losses) for phase, losses in twin.result.losses.items()}
        and result["selected"] == twin.result.n_selected
        and result["metrics"]["test"] == twin.test_score.value
    )


def result_of(log: str) -> dict[str, Any]:
    """Read the result whose place the label owner's log names at its end."""
    place = next(line for line in log.splitlines() if "the result: " in line).split("the result: ")[1]
    return dict(json.loads(Path(place).read_text()))

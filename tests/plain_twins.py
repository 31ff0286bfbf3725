"""What a job between organisations must equal: the same job in one process, in the clear, from the same seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsdg.data.sources import read_labels, read_party
from fedsdg.job import RunSettings
from fedsdg.party import Party
from fedsdg.simulation import PartyTables, Simulation, simulate


def plain_twin(parties: Mapping[str, Party], owner: str, run: str, settings: Mapping[str, Any]) -> Simulation:
    """Run the job of these parties in the clear and in one go, from the seeds that they drew."""
    labels, _ = read_labels(parties[owner].labels, owner)
    rows = {name: read_party(party.rows, name) for name, party in parties.items() if name != owner}
    seeds = {name: (party.run_folder(run) / "private_seed").read_text() for name, party in parties.items()}
    return simulate(
        PartyTables(
            labels.labels,
            {name: of.table for name, of in rows.items()},
            owner,
            labels.ids,
            client_ids={name: of.ids for name, of in rows.items()},
        ),
        RunSettings(**{**settings, "profile": "plain"}),
        private_seeds={"server" if name == owner else name: bytes.fromhex(seed) for name, seed in seeds.items()},
    )


def learned_the_same(result: Mapping[str, Any], twin: Simulation) -> bool:
    """Whether every loss, the selection and the score agree to the last bit."""
    return (
        result["losses"] == {phase: list(losses) for phase, losses in twin.result.losses.items()}
        and result["selected"] == twin.result.n_selected
        and result["metrics"]["test"] == twin.test_score.value
    )

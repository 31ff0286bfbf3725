"""Three organisations on one machine, each with its own file and folder, joined by a channel of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from fedsdg.config import PhaseSettings, TrainingConfig
from fedsdg.datasets.named_tables import bank_loans
from fedsdg.job import RunSettings
from fedsdg.party import Party, PartyRole, load_party
from fedsdg.runtime.codec_channel import CodecChannel

TRAINING = TrainingConfig(
    gated_phase=PhaseSettings(steps=10, batch_size=32, hidden=(8,), embedding=4),
    compact_phase=PhaseSettings(steps=8, batch_size=32, hidden=(8,), embedding=4, outputs=4),
)
SETTINGS = RunSettings(key_bits=2048, training=TRAINING, checkpoint_every=5).model_dump(mode="json")


class BytesChannel(CodecChannel):
    """What an engine does: bytes in, bytes out."""

    def __init__(self, answers: Mapping[str, Callable[[bytes], bytes]]) -> None:
        super().__init__()
        self.answers = dict(answers)

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return {client: self.answers[client](blob) for client, blob in requests.items()}


class Organisations:
    """A bank with labels and two clients, in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        story = bank_loans(260, n_noise=3)
        self.clients = tuple(story.tables)
        ids = np.array([f"C{number:05d}" for number in range(260)])
        rng = np.random.default_rng(0)
        self.policies: dict[str, str] = {}
        self.roles: dict[str, PartyRole] = {}
        self._write("bank", pl.DataFrame({"who": ids, "defaulted": story.labels})[rng.permutation(250)])
        for name, table in story.tables.items():
            columns = {column: table.values[:, j] for j, column in enumerate(table.columns)}
            self._write(name, pl.DataFrame({"who": ids, **columns})[rng.permutation(260)[:255]])

    def _write(self, name: str, rows: pl.DataFrame) -> None:
        (self.folder / name).mkdir()
        rows.write_csv(self.folder / name / "rows.csv")
        section = 'labels]\ntarget = "defaulted"' if name == "bank" else "rows]"
        (self.folder / name / "party.toml").write_text(
            f'[party]\nname = "{name}"\nfolder = "state"\n\n[{section}\ntable = "rows.csv"\nid = "who"\n\n'
            '[rows_to_score]\ntable = "rows.csv"\nid = "who"\n\n[policy]\n'
        )

    def party(self, name: str) -> Party:
        path = self.folder / name / "party.toml"
        if name in self.policies:
            path.write_text(path.read_text().split("[policy]")[0] + "[policy]\n" + self.policies[name] + "\n")
        return load_party(path)

    def channel(self) -> BytesChannel:
        """Reach the clients in new processes: the old ones have ended."""
        self.close()
        self.roles = {name: PartyRole(self.party(name)) for name in self.clients}
        return BytesChannel(self.roles)

    def close(self) -> None:
        for role in self.roles.values():
            role.close()

    def state(self, name: str) -> Path:
        return self.folder / name / "state" / "runs" / "first"

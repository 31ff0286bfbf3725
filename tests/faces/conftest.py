"""Small jobs for the faces: tables and a job file in a temporary folder, and the command in this process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsdg.cli import main

ROWS = 60
TRAINING = """
[training.gated_phase]
steps = 6
batch_size = 16
[training.compact_phase]
steps = 4
batch_size = 16
[training.validation]
every = 3
"""


@dataclass
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


class JobFolder:
    """A folder with a job file and the tables of a label owner and two clients."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = path / "run"
        rng = np.random.default_rng(5)
        self.ids = [f"person-{i:03d}" for i in range(ROWS)]
        a, b = rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 2))
        self.labels = (a[:, 0] + b[:, 1] > 0).astype(int)
        self.frames = {
            "owner": pl.DataFrame({"id": self.ids, "label": self.labels, "age": rng.normal(size=ROWS)}),
            "left": pl.DataFrame({"id": self.ids, **{f"a{j}": a[:, j] for j in range(3)}}),
            "right": pl.DataFrame({"id": self.ids, **{f"b{j}": b[:, j] for j in range(2)}}),
        }
        self.job_settings = 'profile = "plain"'
        self.server_settings = ""
        self.training = TRAINING
        self.files = {name: f"{name}.csv" for name in self.frames}
        self.extra_client = ""
        self.missing: set[str] = set()  # tables that are not written

    @property
    def job(self) -> Path:
        return self.path / "job.toml"

    def write(self) -> Path:
        """Write everything that was not written by the test itself, and return the job file."""
        for name, frame in self.frames.items():
            target = self.path / self.files[name]
            if target.exists() or name in self.missing:
                continue
            if target.suffix == ".parquet":
                frame.write_parquet(target)
            else:
                frame.write_csv(target, separator="\t" if target.suffix == ".tsv" else ",")
        clients = "".join(
            f'[clients.{name}]\ntable = "{self.files[name]}"\nid = "id"\n' for name in self.frames if name != "owner"
        )
        self.job.write_text(
            f'[job]\n{self.job_settings}\n[server]\nname = "bank"\ntable = "{self.files["owner"]}"\nid = "id"\n'
            f'target = "label"\n{self.server_settings}\n{clients}{self.extra_client}\n{self.training}\n',
            encoding="utf-8",
        )
        return self.job

    def leftovers(self) -> list[str]:
        """Return what a run left besides the job and its tables."""
        return [path.name for path in self.path.iterdir() if path.name.startswith("run")]


@pytest.fixture
def job_folder(tmp_path: Path) -> JobFolder:
    """A job that runs in the clear in a fraction of a second."""
    return JobFolder(tmp_path)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """The `fedsdg` command, in this process."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["fedsdg", *(str(argument) for argument in arguments)])
        before = signal.getsignal(signal.SIGTERM)
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            signal.signal(signal.SIGTERM, before)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run

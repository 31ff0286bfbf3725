"""A job: who brings which columns, who has the labels, and how to train. Read from TOML, checked as a whole.

::

    [job]       profile, key_bits, sigma, label_epsilon, test_fraction, seed
    [server]    name, table, id, target, columns      the label owner; `columns` lets it take part as a client, too
    [clients.NAME]  table, id, columns
    [training]  anything of fedsdg.config.TrainingConfig
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fedsdg.config import Settings, TrainingConfig
from fedsdg.errors import ConfigError

Profile = Literal["masked", "plain"]
KEY_BITS = (2048, 3072)


class RunSettings(Settings):
    """How a job runs, whatever its data."""

    profile: Profile = "masked"
    """`masked` encrypts everything; `plain` computes the same integers in the clear, for experiments."""
    key_bits: int = 2048
    """Paillier key size, 2048 or 3072. Between organisations use 3072."""
    sigma: int = Field(default=64, ge=40, le=128)
    """Statistical security of the shares and masks, in bits."""
    label_epsilon: float | None = Field(default=None, gt=0, le=20)
    """Randomised response on the labels: bounds what clients can infer about any label. Off by default."""
    test_fraction: float = Field(default=0.2, ge=0, lt=0.9)
    """Rows that nobody learns from, for the final score."""
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _key_size_is_allowed(self) -> Self:
        if self.key_bits not in KEY_BITS:
            raise ValueError(f"key_bits: {' or '.join(str(b) for b in KEY_BITS)}, not {self.key_bits}")
        return self


class LabelSource(Settings):
    """The label owner's table."""

    name: str = "server"
    table: Path
    id: str
    target: str
    columns: Literal["none", "all"] | tuple[str, ...] = "none"
    """Columns of its own that the label owner brings along."""


class ClientSource(Settings):
    """A client's table."""

    table: Path
    id: str
    columns: Literal["all"] | tuple[str, ...] = "all"


class Job(RunSettings):
    """A job file."""

    server: LabelSource
    clients: dict[str, ClientSource] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _somebody_brings_columns(self) -> Self:
        if not self.clients and self.server.columns == "none":
            raise ValueError("no client takes part: add [clients.NAME], or server.columns")
        if self.server.name in self.clients:
            raise ValueError(f"clients.{self.server.name}: the label owner has that name; rename one of the two")
        if any(not name or name == "server" or not name.replace("-", "_").isidentifier() for name in self.clients):
            raise ValueError("clients: names are letters, digits, - and _, and not 'server'")
        return self

    @property
    def settings(self) -> RunSettings:
        """The part that does not name data."""
        return RunSettings(**{name: getattr(self, name) for name in RunSettings.model_fields})


def load_job(path: Path) -> Job:
    """Read and check a job file; relative paths start at its folder."""
    if not path.is_file():
        raise ConfigError(f"There is no job file {path}. `fedsdg init` writes one to start from.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: not valid TOML: {problem}") from None
    unknown = set(content) - {"job", "server", "clients", "training"}
    if unknown:
        raise ConfigError(f"{path}: unknown section [{sorted(unknown)[0]}]; there are job, server, clients, training.")
    if "server" not in content:
        raise ConfigError(f"{path}: the section [server] is missing: who has the labels?")
    general = dict(content.get("job", {}))
    training = dict(content.get("training", {}))
    if "seed" in general:
        training.setdefault("seed", general.pop("seed"))
    try:
        fields: dict[str, Any] = {
            **general,
            "server": _resolved(content["server"], path.parent),
            "clients": {name: _resolved(of, path.parent) for name, of in content.get("clients", {}).items()},
            "training": training,
        }
        return Job(**fields)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from None


def _resolved(section: Any, folder: Path) -> Any:
    if not isinstance(section, dict) or "table" not in section or not isinstance(section["table"], str):
        return section
    return {**section, "table": folder / section["table"]}

"""A job: who brings which columns, who has the labels, and how to train. Read from TOML, checked as a whole.

::

    [job]           profile, key_bits, sigma, label_epsilon, test_fraction, ids, checkpoint_every, seed
    [server]        name, table, id, target, columns: the label owner; `columns` lets it take part as a client, too
    [clients.NAME]  table, id, columns
    [training]      anything of fedsdg.config.TrainingConfig

Instead of a table, a party may name a database and a query; [server.schema], [clients.NAME.schema] and .encoding say
what its columns mean (see fedsdg.party_source). Paths, also that of an SQLite file, start at the job file's folder.

A job file is checked key by key before anything is built from it: a key that does not exist, a missing one and a value
of the wrong type are each refused by their full name, such as `training.gated_phase.steps`.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, SecretStr, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from fedsdg.config import COMPACT_PHASE, Settings, TrainingConfig, paper_config, wide_config
from fedsdg.errors import ConfigError
from fedsdg.party_source import (
    SERVER,
    ClientSource,
    ColumnPin,
    LabelSource,
    PartySource,
    check_client_names,
    check_party_name,
)

__all__ = ["SERVER", "ClientSource", "Job", "LabelSource", "Profile", "RunSettings", "check_client_names", "load_job"]

Profile = Literal["masked", "plain"]
KEY_BITS = (2048, 3072)
PRESETS: dict[str, Callable[[], TrainingConfig]] = {
    "default": TrainingConfig,
    "paper": paper_config,
    "wide": wide_config,
}
SECTIONS = ("job", "server", "clients", "training")


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
    ids: Literal["private", "aligned"] = "private"
    """`private`: the parties find their common ids without showing the others. `aligned`: row k is the same person
    everywhere already, and no ids are compared."""
    checkpoint_every: int = Field(default=25, ge=0)
    """Steps between two checkpoints; 0: none."""
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _key_size_is_allowed(self) -> Self:
        if self.key_bits not in KEY_BITS:
            raise ConfigError(f"key_bits: {' or '.join(str(b) for b in KEY_BITS)}, not {self.key_bits}")
        return self

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read settings back that were written with `model_dump_json`."""
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ConfigError("the settings are damaged: they are no JSON object")
        return cls(**content)


class Job(RunSettings):
    """A job file."""

    server: LabelSource
    clients: dict[str, ClientSource] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _somebody_brings_columns(self) -> Self:
        brings_columns = self.server.columns != "none"
        if not self.clients and not brings_columns:
            raise ConfigError("no client takes part: add a section [clients.NAME], or server.columns")
        check_party_name(self.server.name, "server.name")
        if self.server.name in self.clients:
            raise ConfigError(f"clients.{self.server.name}: the label owner has that name; rename one of the two")
        if brings_columns and self.server.name == SERVER:
            raise ConfigError(
                f"server.name: with server.columns the label owner takes part as a client, too, and needs a name other "
                f'than {SERVER!r}, for example name = "bank"'
            )
        check_client_names([*self.clients, *([self.server.name] if brings_columns else [])])
        return self

    @model_validator(mode="after")
    def _rows_can_be_matched(self) -> Self:
        sources: dict[str, PartySource] = {"server": self.server}
        sources |= {f"clients.{name}": source for name, source in self.clients.items()}
        for section, source in sources.items():
            if source.id is None and self.ids == "private":
                raise ConfigError(
                    f'{section}.id is missing; add it to the section [{section}], or set job.ids = "aligned" if row k '
                    "is the same person at all parties already"
                )
        if self.label_epsilon is not None and self.server.table is None and self.server.label_key is None:
            raise ConfigError(
                "server.label_key is missing: job.label_epsilon needs a lasting key, and there is no table that it "
                "could lie beside"
            )
        return self

    @property
    def settings(self) -> RunSettings:
        """The part that does not name data."""
        return RunSettings(**{name: getattr(self, name) for name in RunSettings.model_fields})


def load_job(path: Path) -> Job:
    """Read and check a job file; relative paths start at its folder."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give the job file in it, for example {path / 'job.toml'}.")
    if not path.is_file():
        raise ConfigError(f"There is no job file {path}. `fedsdg init` writes one to start from.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid TOML: it is not a UTF-8 text file") from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ConfigError(f"{path}: not valid TOML: {problem}") from None
    try:
        return _job(content, path.parent)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from None


def _job(content: dict[str, Any], folder: Path) -> Job:
    for name, section in content.items():
        if name not in SECTIONS:
            what = f"unknown section [{name}]" if isinstance(section, dict) else f"{name!r} stands outside any section"
            raise ConfigError(f"{what}; there are {', '.join(f'[{s}]' for s in SECTIONS)}{_meant(name, SECTIONS)}")
        if not isinstance(section, dict):
            raise ConfigError(f"{name}: {_section_wanted('clients.NAME' if name == 'clients' else name)}")
    if "server" not in content:
        raise ConfigError("the section [server] is missing: who has the labels?")
    general, training = dict(content.get("job", {})), dict(content.get("training", {}))
    if "seed" in general:
        if "seed" in training:
            raise ConfigError("job.seed and training.seed are the same setting; keep one of them")
        seed = _value(TrainingConfig.model_fields["seed"], general.pop("seed"), "job.seed", folder)
        training["seed"] = seed
    training = _on_preset(general.pop("preset", "default"), training)
    return Job(
        **_values(RunSettings, general, "job", without=("training",), also=("seed", "preset")),
        server=checked_section(LabelSource, content["server"], "server", folder),
        clients={
            name: checked_section(ClientSource, of, f"clients.{name}", folder)
            for name, of in content.get("clients", {}).items()
        },
        training=checked_section(TrainingConfig, training, "training", folder),
    )


def _on_preset(preset: Any, training: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a preset with those of the job file on top."""
    if preset not in PRESETS:
        raise ConfigError(f"job.preset: {' or '.join(repr(name) for name in PRESETS)}, not {preset!r}")
    if preset == "default":
        return training
    merged: dict[str, Any] = PRESETS[preset]().model_dump(mode="json")
    for name, value in training.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = {**merged[name], **value} if both else value
    return merged


M = TypeVar("M", bound=Settings)


def checked_section(model: type[M], content: Any, where: str, folder: Path) -> M:
    """Build one section; every complaint names its key."""
    values = _values(model, content, where, folder)
    try:
        return model(**values)
    except ConfigError as problem:  # two settings that contradict each other
        raise ConfigError(f"{where}: {_reason(problem, model)}") from None


def _values(
    model: type[Settings],
    content: Any,
    where: str,
    folder: Path = Path(),
    *,
    without: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Check one section key by key and return what its model is built from."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: {_section_wanted(where)}")
    fields = {field.alias or name: field for name, field in model.model_fields.items() if name not in without}
    known = (*fields, *also)
    for name in content:
        if name not in fields:
            raise ConfigError(f"{where}.{name}: unknown setting; there are {', '.join(known)}{_meant(name, known)}")
    missing = [name for name, field in fields.items() if field.is_required() and name not in content]
    if missing:
        raise ConfigError(f"{where}.{missing[0]} is missing; add it to the section [{where}]")
    return {name: _value(fields[name], value, f"{where}.{name}", folder) for name, value in content.items()}


def _value(field: FieldInfo, value: Any, where: str, folder: Path) -> Any:
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if where == "training.penalty" and not isinstance(value, dict):  # a bare strength
            return checked_section(cast(type[Settings], kind), {"strength": value}, where, folder)
        if isinstance(value, dict) and where == "training.compact_phase":  # what is not said keeps its default
            _values(cast(type[Settings], kind), value, where, folder)
            value = {**COMPACT_PHASE.model_dump(mode="json"), **value}
        return checked_section(cast(type[Settings], kind), value, where, folder)
    if field.alias == "schema":
        return _pins(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: {value} is no usable number")
    checker: TypeAdapter[Any] = TypeAdapter(Annotated[kind, *field.metadata] if field.metadata else kind)
    try:
        plain = json.dumps(value)
    except TypeError:
        raise ConfigError(f"{where}: a date or time cannot be used here") from None
    try:
        found = checker.validate_json(plain, strict=True)
    except ValidationError as problem:
        reasons = {item["msg"].replace("Input should", "it should") for item in problem.errors(include_url=False)}
        shown = "what stands there" if where.endswith(".database") else _short(value)  # it may hold a password
        raise ConfigError(f"{where}: {shown} cannot be used: {' or '.join(sorted(reasons))}") from None
    if isinstance(found, SecretStr):
        return SecretStr(_from_folder(found.get_secret_value(), folder))
    return folder / found if isinstance(found, Path) else found


def _pins(content: Any, where: str) -> dict[str, ColumnPin]:
    """Check a schema column by column; a bare kind is enough."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: {_section_wanted(where)}")
    return {
        column: checked_section(ColumnPin, {"kind": pin} if isinstance(pin, str) else pin, f"{where}.{column}", Path())
        for column, pin in content.items()
    }


def _from_folder(url: str, folder: Path) -> str:
    """Let the relative path of an SQLite file start at the job file's folder."""
    found = re.fullmatch(r"((?:adbc\+)?sqlite(?:\+\w+)?:///)([^/:$].*)", url, re.DOTALL)
    if found is None or found[2].startswith("file:"):
        return url
    return f"{found[1]}{folder.absolute() / found[2]}"


def _reason(problem: ConfigError, model: type[Settings]) -> str:
    """Return the reason without the names of our classes."""
    text = str(problem).removeprefix(f"{model.__name__} cannot be used: ")
    return text.replace("settings: ", "").replace("Value error, ", "")


def _section_wanted(where: str) -> str:
    return f"a section is wanted here: write [{where}] and its settings below it"


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."

"""What the files of a run's folder must hold for a report of it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from fedsdg.experiments.checked_files import Count, Form, Number

Error = Annotated[Number, Field(ge=0)]
Seconds = Annotated[Number, Field(ge=0)]


class Selection(Form):
    """One client's part of a selection."""

    selected: list[str]
    n_features: Count
    gates: dict[str, Number]
    gate_probabilities: dict[str, Number]
    gini: dict[str, Number | None]
    notes: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_its_columns(self) -> Self:
        if not set(self.selected) <= self.gates.keys() & self.gate_probabilities.keys():
            raise ValueError("a selected column has no gate")
        if not len(self.selected) <= len(self.gates) == self.n_features:
            raise ValueError("columns and gates are not equally many")
        return self


class Metrics(Form):
    """Scores of what was kept."""

    metric: str | None = None
    validation: Number | None = None
    kept: str | None = None
    n_selected: Count
    test: Number | None = None
    test_standard_error: Error | None = None
    test_rows: Count | None = None


class PathEntry(Form):
    """One validation pass of the gated phase."""

    open_features: Count
    score: Number | None
    standard_error: Error | None = None


class Traffic(Form):
    """Bytes, by direction and kind of message."""

    total: Count
    to_clients: dict[str, Count]
    to_server: dict[str, Count]


class Truth(Form):
    """How much of what is known to matter was found."""

    relevant: Number | None
    precision: Number | None
    recall: Number | None


class Result(Form):
    """``selection.json`` of a run of all parties."""

    profile: str
    key_bits: Count | None
    backend: str
    clients: dict[str, Selection]
    metrics: Metrics
    bytes: Traffic
    messages: dict[str, Count]
    seconds: dict[str, Seconds]
    versions: dict[str, str]
    config_hash: str
    leakage: str
    path: list[PathEntry]
    truth: Truth | None = None
    notes: list[str]

    @field_validator("clients")
    @classmethod
    def _are_names_of_folders(cls, clients: dict[str, Selection]) -> dict[str, Selection]:
        if any(name in ("", ".", "..") or "/" in name or not name.isprintable() for name in clients):
            raise ValueError("a client's name is no name of a folder")
        return clients


class Step(Form):
    """A line of ``metrics.jsonl``."""

    phase: str
    step: Count
    loss: Number | None = None
    open_features: Count | None = None
    open_embeddings: Count | None = None
    bytes: Count | None = None


class Anything(Form):
    """A file whose content is shown as it is, or looked at later: a JSON object."""


class ServerSettings(Form):
    """What a report says about the server's settings by name."""

    key_bits: Count | None = None


class ServerCard(Form):
    """``model.json`` of the server."""

    party: str
    profile: str
    leakage: str
    clients: dict[str, Count | None]
    columns: dict[str, Count]
    selected: dict[str, Count]
    metrics: Metrics
    versions: dict[str, str]
    settings: ServerSettings

    @model_validator(mode="after")
    def _counts_every_client(self) -> Self:
        if not self.columns.keys() <= self.selected.keys():
            raise ValueError("a client has no number of selected columns")
        return self


class Embeddings(Form):
    """What a report of all parties wants of the server's ``model.json``."""

    clients: dict[str, Count | None] = Field(default_factory=dict)


class ServerResult(Form):
    """``result.json`` of the server of a job between organisations."""

    bytes: Count | None = None
    messages: dict[str, Count] = Field(default_factory=dict)
    seconds: dict[str, Seconds] = Field(default_factory=dict)
    path: list[PathEntry] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class ClientCard(Form):
    """``model.json`` of a client."""

    party: str
    profile: str
    leakage: str
    embedding_dimensions: Count | None = None

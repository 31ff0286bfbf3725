"""What a run returns, and what `selection.json` records: typed, and the same from every face."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ClientSelection:
    """One client's part of the selection, in its own column names."""

    selected: tuple[str, ...]
    n_features: int
    gates: Mapping[str, float]
    """Final mean of every input gate; selected means above 0."""
    gate_probabilities: Mapping[str, float]
    """How often a gate is open while training."""
    gini: Mapping[str, float]
    """Gini score of every column (empty if gates started alike)."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Columns that could not be used, and why."""


@dataclass(frozen=True)
class SelectionResult:
    """Everything a run found, and what it cost."""

    profile: str
    key_bits: int | None
    backend: str
    clients: Mapping[str, ClientSelection]
    metrics: Mapping[str, float | str | int]
    bytes: Mapping[str, Any]
    messages: Mapping[str, int]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    config_hash: str
    leakage: str
    path: tuple[Mapping[str, float], ...] = ()
    """The validation passes of the gated phase: step, open features, score and its standard error."""
    truth: Mapping[str, float] | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def selected(self) -> dict[str, tuple[str, ...]]:
        """Selected columns per client."""
        return {name: client.selected for name, client in self.clients.items()}

    @property
    def n_selected(self) -> int:
        """Selected columns of all clients."""
        return sum(len(client.selected) for client in self.clients.values())

    def to_json(self) -> str:
        """Return the record as JSON; `truth` is left out where it is not known."""
        record = asdict(self)
        if self.truth is None:
            del record["truth"]
        return to_json(record, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> SelectionResult:
        """Read what `to_json` wrote."""
        record = json.loads(text)
        clients = {
            name: ClientSelection(**{**client, "selected": tuple(client["selected"])})
            for name, client in record.pop("clients").items()
        }
        path, notes = tuple(record.pop("path")), tuple(record.pop("notes"))
        return cls(clients=clients, path=path, notes=notes, **record)


def to_json(content: Any, indent: int | None = None) -> str:
    """Return strict JSON; NaN and infinities, which JSON does not know, become null."""
    return json.dumps(_finite(content), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


#: What each profile leaves visible, in one line; docs/threat_model.md has the whole table with measurements.
LEAKAGE = {
    "masked": (
        "Nobody sees another's columns or weights. Clients can infer labels from dL/dG and Gini scores (use "
        "label_epsilon to bound that); the server sees embeddings up to an unknown linear map."
    ),
    "masked, labels protected": (
        "Nobody sees another's columns or weights. What clients can infer about labels is bounded by label_epsilon; "
        "the server sees embeddings up to an unknown linear map."
    ),
    "plain": "Nothing is encrypted: for experiments in one process only.",
}

"""A finished run as a report needs it, read from the folder of all parties or from one party's own folder.

What a party's folder does not hold is not there: the server's record has no column names, and a client's gates come
from that client's folder alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsdg.errors import StateFileError
from fedsdg.experiments.checked_files import Form, read_json, read_lines
from fedsdg.learning.client_files import GATE_PATH, read_card, read_gate_path
from fedsdg.learning.gate_path import GatePath
from fedsdg.report.folders import Kind
from fedsdg.report.run_forms import Anything, ClientCard, Embeddings, Result, Selection, ServerCard, ServerResult, Step
from fedsdg.results import ClientSelection
from fedsdg.run_folder import read_result
from fedsdg.server.step_record import StepRecord
from fedsdg.state_files import damaged_if_unreadable

Json = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """What is known about one client."""

    name: str
    n_features: int
    n_selected: int
    embedding: int | None = None
    """Embedding values that it sends per row."""
    selection: ClientSelection | None = None
    path: GatePath | None = None


@dataclass(frozen=True)
class RunRecord:
    """What is known about a run."""

    name: str
    kind: Kind
    party: str
    """Whose folder it is; empty: everybody's."""
    profile: str
    leakage: str
    parts: tuple[Part, ...]
    metrics: Mapping[str, Any] = field(default_factory=dict)
    key_bits: int | None = None
    backend: str = ""
    total_bytes: int | None = None
    to_clients: Mapping[str, int] = field(default_factory=dict)
    to_server: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()
    truth: Mapping[str, float] | None = None
    notes: tuple[str, ...] = ()

    @property
    def score_name(self) -> str:
        """Accuracy or R squared."""
        return "R²" if self.metrics.get("metric") == "r2" else "accuracy"


def read_run(folder: Path, kind: Kind) -> RunRecord:
    """Read a finished run."""
    folder = folder.resolve()
    with damaged_if_unreadable(folder):
        if kind == "run":
            return _all_parties(folder)
        return _server(folder) if kind == "server" else _client(folder)


def _all_parties(folder: Path) -> RunRecord:
    read_json(folder / "selection.json", Result)
    result, server = read_result(folder), _json(folder / "server" / "model.json", Embeddings)
    parts = tuple(
        Part(
            name,
            client.n_features,
            len(client.selected),
            server.get("clients", {}).get(name),
            client,
            _gate_path(folder / "clients" / name, client),
        )
        for name, client in result.clients.items()
    )
    return RunRecord(
        folder.name,
        "run",
        "",
        result.profile,
        result.leakage,
        parts,
        metrics=result.metrics,
        key_bits=result.key_bits,
        backend=result.backend,
        total_bytes=int(result.bytes["total"]),
        to_clients=result.bytes["to_clients"],
        to_server=result.bytes["to_server"],
        messages=result.messages,
        seconds=result.seconds,
        versions=result.versions,
        settings=_json(folder / "settings.json", Anything),
        path=result.path,
        steps=_steps(folder),
        truth=result.truth,
        notes=result.notes,
    )


def _server(folder: Path) -> RunRecord:
    card, result = _card(folder, ServerCard), _json(folder / "result.json", ServerResult)
    own = folder / "own_columns"
    mine = _part(own) if (own / "model.json").is_file() else None  # the label owner's own columns lie with it
    parts = tuple(
        mine
        if mine is not None and mine.name == name
        else Part(name, int(columns), int(card["selected"][name]), card["clients"].get(name))
        for name, columns in card["columns"].items()
    )
    masked = card["profile"] == "masked"
    return RunRecord(
        _name_of(folder),
        "server",
        "the server",
        card["profile"],
        card["leakage"],
        parts,
        metrics=card["metrics"],
        key_bits=card["settings"].get("key_bits") if masked else None,
        total_bytes=result.get("bytes"),
        messages=result.get("messages", {}),
        seconds=result.get("seconds", {}),
        versions=card["versions"],
        settings=card["settings"],
        path=tuple(result.get("path", ())),
        steps=_steps(folder),
        notes=tuple(result.get("notes", ())),
    )


def _client(folder: Path) -> RunRecord:
    card, part = _card(folder, ClientCard), _part(folder)
    return RunRecord(_name_of(folder), "client", part.name, card["profile"], card["leakage"], (part,))


def _part(folder: Path) -> Part:
    card, saved = _card(folder, ClientCard), read_json(folder / "selection.json", Selection)
    selection = ClientSelection(**{**saved, "selected": tuple(saved["selected"])})
    return Part(
        card["party"],
        selection.n_features,
        len(selection.selected),
        card.get("embedding_dimensions"),
        selection,
        _gate_path(folder, selection),
    )


def _card(folder: Path, form: type[Form]) -> Json:
    """Read a party's model.json; whether this version wrote it is asked first."""
    read_json(folder / "model.json", Anything)
    read_card(folder)
    return read_json(folder / "model.json", form)


def _gate_path(folder: Path, selection: ClientSelection) -> GatePath | None:
    """Read how a client's gates moved, if it was recorded and is about the gates of this selection."""
    if not (folder / GATE_PATH).exists():
        return None
    path = read_gate_path(folder)
    if path is None:
        raise StateFileError(f"Cannot read {folder / GATE_PATH}: it is no file.")
    if path.means.shape[1] != len(selection.gates):
        raise StateFileError(f"{folder / GATE_PATH} is damaged: its gate path does not fit its selection.")
    if not np.isfinite(path.means).all() or (np.diff(path.steps, prepend=-1) <= 0).any():
        raise StateFileError(
            f"{folder / GATE_PATH} is damaged: steps do not follow each other, or a gate is no number."
        )
    return path


def _name_of(folder: Path) -> str:
    """Return the name of the run that a party's folder belongs to."""
    if folder.name == "server":
        return folder.parent.name
    return folder.parent.parent.name if folder.parent.name == "clients" else folder.name


def _steps(folder: Path) -> tuple[Json, ...]:
    path = folder / StepRecord.NAME
    return tuple(read_lines(path, Step, what="a training step")) if path.exists() else ()


def _json(path: Path, form: type[Form]) -> Json:
    """Read a file that an older or a smaller folder may lack."""
    return read_json(path, form) if path.exists() else {}

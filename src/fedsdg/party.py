"""One organisation on its own machine: its file, its rows, its rules, its folder. Never part of a job.

::

    [party]            name, folder                 who this is, and where its checkpoints and models lie
    [rows]             table | database + query, id, columns, schema, encoding     a client's rows to train on
    [labels]           the same, and target, label_key                            the label owner's
    [rows_to_score]    the same as [rows]           rows of a prediction (the label owner's: its id column is enough)
    [policy]           kinds, minimum_key_bits, minimum_sigma, maximum_queries_per_row, jobs

An engine starts a party with the environment variable FEDSDG_PARTY naming this file. A job that arrives is checked
against [policy] before anything is read or any key is made.
"""

from __future__ import annotations

import logging
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedsdg.client.agreement import read_job
from fedsdg.client.policy import Policy
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import Settings
from fedsdg.data.sources import read_party
from fedsdg.errors import ConfigError, FedSDGError, ProtocolError
from fedsdg.job import checked_section
from fedsdg.learning.client_files import read_client_files, write_text
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.messages import codec
from fedsdg.messages.agreement import JobAnswer, ProposeJob, job_hash
from fedsdg.messages.base import Message
from fedsdg.messages.refusal import Refusal
from fedsdg.party_source import ClientSource, LabelSource, check_client_names, check_party_name
from fedsdg.results import to_json
from fedsdg.scoring import saved_pins
from fedsdg.state_files import OWNER_FOLDER, Checkpoints

logger = logging.getLogger("fedsdg.party")

#: The environment variable that names a party's file.
PARTY_FILE = "FEDSDG_PARTY"
SECTIONS = ("party", "rows", "labels", "rows_to_score", "policy")


class Identity(Settings):
    """Who this is."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Party:
    """What one organisation brings, from its own file."""

    name: str
    folder: Path
    rows: ClientSource | None
    labels: LabelSource | None
    rows_to_score: ClientSource | None
    policy: Policy

    def run_folder(self, run: str) -> Path:
        """Return this party's folder of one run."""
        check_party_name(run, "run")
        return self.folder / "runs" / run


def load_party(path: Path | None = None) -> Party:
    """Read a party's file; relative paths start at its folder."""
    if path is None:
        named = os.environ.get(PARTY_FILE)
        if not named:
            raise ConfigError(f"Which party is this? Set {PARTY_FILE} to the path of its file.")
        path = Path(named)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"{path}: not valid TOML: {problem}") from None
    unknown = [name for name in content if name not in SECTIONS]
    if unknown:
        raise ConfigError(f"{path}: unknown section [{unknown[0]}]; there are {', '.join(f'[{s}]' for s in SECTIONS)}")
    try:
        return _party(content, path.resolve().parent)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from None


def _party(content: dict[str, Any], folder: Path) -> Party:
    if "party" not in content:
        raise ConfigError("the section [party] is missing: who is this?")
    if ("rows" in content) == ("labels" in content) and "labels" not in content:
        raise ConfigError("neither [rows] nor [labels]: what does this party bring?")
    identity = checked_section(Identity, content["party"], "party", folder)
    check_party_name(identity.name, "party.name")

    def section(kind: Any, name: str) -> Any:
        return checked_section(kind, content[name], name, folder) if name in content else None

    labels: LabelSource | None = section(LabelSource, "labels")
    if labels is None:
        check_client_names([identity.name], "party.name")
    elif "rows" in content:
        raise ConfigError("[rows] and [labels]: a label owner brings its columns with labels.columns")
    return Party(
        identity.name,
        identity.folder,
        section(ClientSource, "rows"),
        labels,
        section(ClientSource, "rows_to_score"),
        section(Policy, "policy") or Policy(),
    )


class PartyRole:
    """A client as an engine sees it: a role for each job that is agreed on."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self._role: ClientRole | None = None

    def answer(self, blob: bytes) -> bytes:
        """Answer one request; a proposed job is checked against the policy before anything of this party is read."""
        if b"ProposeJob" not in blob[:64]:
            if self._role is None:
                return self._refuse(ProtocolError("No job was agreed on."))
            return self._role.answer(blob)
        try:
            request = codec.decode(blob, ProposeJob)
            assert isinstance(request, ProposeJob)
            job = read_job(request.job)
            objection = self.party.policy.objection(job, job_hash(request.job))
            if objection is None:
                self._role = ClientRole(client_state(self.party, job))
            return codec.encode(self._objection(request, objection)) if objection else self._role_answer(blob)
        except Exception as error:
            return self._refuse(error)

    def _role_answer(self, blob: bytes) -> bytes:
        assert self._role is not None
        return self._role.answer(blob)

    @staticmethod
    def _objection(request: ProposeJob, reason: str) -> Message:
        logger.error("refused a job: %s", reason)
        return JobAnswer(False, reason, "", job_hash(request.job))

    @staticmethod
    def _refuse(error: Exception) -> bytes:
        kind = type(error).__name__ if isinstance(error, FedSDGError) else "InternalError"
        logger.error("refused a request: %s: %s", kind, error if isinstance(error, FedSDGError) else "")
        return codec.encode(Refusal(kind))


def client_state(party: Party, job: dict[str, Any]) -> ClientState:
    """Read this party's rows and open its folder for one job."""
    folder, kind = party.run_folder(job["run"]), job["kind"]
    if kind == "predict":
        saved = read_client_files(folder)
        columns = saved.part.encoder.needed_columns if saved.part is not None else ()
        source = party.rows_to_score or party.rows
        rows = read_party(_as_before(_needed(source, "rows_to_score"), folder, columns), party.name)
        local = LocalClient(party.name, rows.table, fresh_private_seed())
        return ClientState(local, party.policy.minimum_key_bits, ids=rows.ids, saved=saved, policy=party.policy)
    source = _needed(party.rows, "rows")
    rows = read_party(source, party.name)
    local = LocalClient(party.name, rows.table, open_run(folder, kind), encoding=source.encoding)
    pins = {column: pin.model_dump(mode="json") for column, pin in rows.pins.items()}
    write_text(folder / "source.json", to_json({"id": source.id, "schema": pins}, indent=1) + "\n")
    return ClientState(
        local,
        party.policy.minimum_key_bits,
        ids=rows.ids,
        policy=party.policy,
        folder=folder,
        checkpoints=Checkpoints(folder / "checkpoints"),
    )


def open_run(folder: Path, kind: str) -> bytes:
    """Make or find this party's folder of a run, and return its private seed."""
    seed = folder / "private_seed"
    if (folder / "model.json").exists():
        raise ConfigError(f"{folder} holds a finished run; choose another name for this one.")
    if kind == "resume":
        try:
            return bytes.fromhex(seed.read_text().strip())
        except (OSError, ValueError):
            raise ConfigError(f"{folder} holds no interrupted run to go on with.") from None
    if seed.exists():
        raise ConfigError(f"{folder} holds an interrupted run: resume it, or choose another name for this one.")
    try:
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"Cannot write to {folder}: {problem.strerror}.") from None
    fresh = fresh_private_seed()
    write_text(seed, fresh.hex() + "\n")
    return fresh


def _needed(source: ClientSource | None, section: str) -> ClientSource:
    if source is None:
        raise ConfigError(f"the section [{section}] is missing: which rows does this party bring?")
    return source


def _as_before(source: ClientSource, folder: Path, columns: tuple[str, ...]) -> ClientSource:
    """Read new rows as the training rows were read, and only the columns that the model needs."""
    pins = {name: pin for name, pin in saved_pins(folder).items() if name in columns}
    fields = {name: getattr(source, name) for name in ("table", "database", "query", "id", "encoding")}
    return ClientSource(**fields, columns=columns, schema=pins)


def client_factory(site: str) -> Any:
    """What an engine calls to make this machine's client."""
    party = load_party()
    torch.set_num_threads(1)  # the models are small, and results must not depend on the number of cores
    if site != party.name:
        raise ConfigError(f"The engine calls this site {site!r}; its own file says {party.name!r}.")
    return PartyRole(party).answer

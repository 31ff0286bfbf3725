"""One organisation on its own machine: its file, its rows, its rules, its folder. Never part of a job.

::

    [party]            name, folder                 who this is, and where its checkpoints and models lie
    [rows]             table | database + query, id, columns, schema, encoding     a client's rows to train on
    [labels]           the same, and target, label_key                            the label owner's
    [rows_to_score]    the same as [rows]           rows of a prediction (the label owner's: its id column is enough)
    [policy]           kinds, minimum_key_bits, minimum_sigma, maximum_queries_per_row, columns, jobs

An engine starts a party with the environment variable FEDSDG_PARTY naming this file. A job that arrives is checked
against [policy] before anything is read or any key is made.
"""

from __future__ import annotations

import logging
import os
import time
import tomllib
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedsdg.client.agreement import read_job
from fedsdg.client.policy import Policy
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import Settings
from fedsdg.data.identified import IdentifiedTable
from fedsdg.data.sources import read_party
from fedsdg.errors import ConfigError, FedSDGError, ProtocolError, StateFileError
from fedsdg.job import checked_section
from fedsdg.learning.client_files import read_client_files, write_text
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.randomness import fresh_private_seed
from fedsdg.messages import codec
from fedsdg.messages.agreement import EndRun, JobAnswer, ProposeJob, job_hash
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.session import Done
from fedsdg.party_source import ClientSource, LabelSource, check_client_names, check_party_name
from fedsdg.results import to_json
from fedsdg.scoring import saved_pins
from fedsdg.state_files import OWNER_FOLDER, Checkpoints, FolderLock

logger = logging.getLogger("fedsdg.party")

#: The environment variable that names a party's file.
PARTY_FILE = "FEDSDG_PARTY"
#: Seconds that a job waits for one that ends, and still holds the run's folder.
LOCK_WAIT = 30.0
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
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
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
    """A client as an engine sees it: a role for each job that is agreed on.

    While a role lives, its run's folder is locked. It is let go when the run ends, with `close`, or with this object.
    """

    def __init__(self, party: Party) -> None:
        self.party = party
        self._role: ClientRole | None = None
        self._held = ExitStack()
        weakref.finalize(self, self._held.close)

    def __call__(self, blob: bytes) -> bytes:
        """Answer one request; a proposed job is checked against the policy before anything of this party is read."""
        try:
            if b"ProposeJob" in blob[:64]:
                return self._consider(blob)
            if self._role is None:
                return self._hear_why(blob)
        except Exception as error:
            self._held.close()
            return self._refuse(error)
        return self._role_answer(self._role, blob)

    def close(self) -> None:
        """Drop the role and let go of its folder."""
        self._role = None
        self._held.close()

    def _consider(self, blob: bytes) -> bytes:
        request = codec.decode(blob, ProposeJob)
        assert isinstance(request, ProposeJob)
        self.close()
        job, policy = read_job(request.job), self.party.policy
        objection = policy.objection(job, job_hash(request.job))
        if objection is None:
            rows = rows_of(self.party, job)
            forbidden = policy.forbidden_columns(rows.table.columns)
            if forbidden:
                logger.error("policy.columns does not list %s", ", ".join(forbidden))
                objection = "policy.columns does not list every column that this party's rows bring"
        if objection is not None:
            logger.error("refused a job: %s", objection)
            return codec.encode(JobAnswer(False, objection, "", job_hash(request.job)))
        self._role = ClientRole(client_state(self.party, job, rows, self._held))
        return self._role_answer(self._role, blob)

    @staticmethod
    def _hear_why(blob: bytes) -> bytes:
        """Without a job there is one thing to hear: why it did not come to one, as all parties do."""
        request = codec.decode(blob)
        if not isinstance(request, EndRun):
            raise ProtocolError("No job was agreed on.")
        logger.error("the server ended the run: %s", request.reason[:500])
        return codec.encode(Done())

    def _role_answer(self, role: ClientRole, blob: bytes) -> bytes:
        role.last_error = None
        reply = role.answer(blob)
        if isinstance(role.last_error, FedSDGError):  # its text is for this party's own log; the type has crossed
            logger.error("the reason: %s", role.last_error)
        if role.state.order == "ended":
            self._held.close()
        return reply

    @staticmethod
    def _refuse(error: Exception) -> bytes:
        kind = type(error).__name__ if isinstance(error, FedSDGError) else "InternalError"
        logger.error("refused a request: %s: %s", kind, error if isinstance(error, FedSDGError) else "")
        return codec.encode(Refusal(kind))


def rows_of(party: Party, job: Mapping[str, Any]) -> IdentifiedTable:
    """Read the rows that this party brings to a job."""
    if job["kind"] != "predict":
        return read_party(_needed(party.rows, "rows"), party.name)
    folder = party.run_folder(job["run"])
    saved = read_client_files(folder)
    columns = saved.part.encoder.needed_columns if saved.part is not None else ()
    source = _needed(party.rows_to_score or party.rows, "rows_to_score")
    # None: the model uses no column of this party's, which agrees to the job and is asked for nothing.
    return read_party(_as_before(source, folder, columns) if columns else source, party.name)


def client_state(party: Party, job: Mapping[str, Any], rows: IdentifiedTable, held: ExitStack) -> ClientState:
    """Open this party's folder for one job; it is locked until `held` is closed."""
    folder, kind = party.run_folder(job["run"]), job["kind"]
    held.callback(lock_run(folder, kind).release)
    if kind == "predict":
        local = LocalClient(party.name, rows.table, fresh_private_seed())
        saved = read_client_files(folder)
        return ClientState(local, party.policy.minimum_key_bits, ids=rows.ids, saved=saved, policy=party.policy)
    source = _needed(party.rows, "rows")
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


def lock_run(folder: Path, kind: str) -> FolderLock:
    """Take a run's folder for this process: two that write one run's files would spoil it."""
    if kind == "train":
        make_folder(folder)
    elif not folder.is_dir():
        raise ConfigError(f"{folder} holds no {'finished' if kind == 'predict' else 'interrupted'} run to go on with.")
    deadline = time.monotonic() + LOCK_WAIT
    while True:
        try:
            return FolderLock(folder)
        except StateFileError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def make_folder(folder: Path) -> Path:
    """Make a folder that only its owner can read, if it is not there yet."""
    try:
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"Cannot write to {folder}: {problem.strerror}.") from None
    return folder


def open_run(folder: Path, kind: str) -> bytes:
    """Begin a run in its folder, or find the one that was interrupted there; return this party's private seed."""
    seed, begun = folder / "private_seed", (folder / "checkpoints").exists()
    # A model beside checkpoints: this party was done, and another was lost before it was, too.
    if (folder / "model.json").exists() and not (begun and kind == "resume"):
        raise ConfigError(f"{folder} holds a finished run; choose another name for this one.")
    if kind == "resume":
        try:
            return bytes.fromhex(seed.read_text().strip())
        except (OSError, ValueError):
            raise ConfigError(f"{folder} holds no interrupted run to go on with.") from None
    # A seed alone is left by a job that another party refused: nothing was begun with it.
    if seed.exists() and begun:
        raise ConfigError(f"{folder} holds an interrupted run: resume it, or choose another name for this one.")
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


def client_factory(site: str) -> PartyRole:
    """What an engine calls to make this machine's client."""
    party = load_party()
    torch.set_num_threads(1)  # the models are small, and results must not depend on the number of cores
    if site != party.name:
        raise ConfigError(f"The engine calls this site {site!r}; its own file says {party.name!r}.")
    return PartyRole(party)

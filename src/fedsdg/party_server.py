"""The label owner on its own machine: proposes a job to all clients, drives it, keeps its part of the model.

An engine calls `server_driver` with a channel to the clients and what the job brought along::

    {"kind": "train" | "resume" | "predict", "run": NAME, "settings": {...}}

Labels, ids and scores stay in the label owner's own folder (`party.folder/runs/RUN`). What is returned to the engine
are numbers that the label owner may show: metrics, counts, bytes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedsdg.client.agreement import own_version, read_job
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.data.identified import IdentifiedTable
from fedsdg.data.sources import read_labels
from fedsdg.errors import ConfigError, FedSDGError, PeerError
from fedsdg.job import RunSettings
from fedsdg.learning.client_files import write_text
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages.agreement import FINISHED, EndRun, JobAnswer, ProposeJob, job_hash
from fedsdg.messages.base import Channel, Message, Request
from fedsdg.messages.traffic import Traffic
from fedsdg.party import Party, load_party, lock_run, make_folder, open_run
from fedsdg.prediction import Model
from fedsdg.results import to_json
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.runtime.site import JobContext
from fedsdg.scoring import ids_to_score, write_scores
from fedsdg.server.federation import Checkpoint, MaskedFederation
from fedsdg.server.keeper import newest_common, numbers_of_clients, run_id_of
from fedsdg.server.label_privacy import load_label_key
from fedsdg.server.model_files import ServerFacts, read_server_files, write_server_files
from fedsdg.server.prediction import PredictionSession
from fedsdg.server.run import LabelledRows, run_job
from fedsdg.server.step_record import StepRecord
from fedsdg.server.summary import deciding_versions, metrics_of, path_of
from fedsdg.simulation import one_torch_thread
from fedsdg.state_files import Checkpoints, under_prefix

logger = logging.getLogger("fedsdg.party")

R = TypeVar("R", bound=Message)


def server_driver(channel: Channel, context: JobContext) -> bytes:
    """What an engine calls at the label owner's machine."""
    party = load_party()
    if party.labels is None:
        raise ConfigError("This machine's party file has no [labels]: it cannot drive a job.")
    with one_torch_thread():
        return to_json(drive(party, channel, context.clients, context.settings), indent=1).encode()


def drive(party: Party, channel: Channel, clients: tuple[str, ...], job: Mapping[str, Any]) -> dict[str, Any]:
    """Agree on a job with all clients, then carry it out."""
    own = party.name if party.labels is not None and party.labels.columns != "none" else None
    everybody = [*clients, *([own] if own is not None and job["kind"] != "predict" else [])]
    text = canonical_job({**job, "clients": everybody})
    proposed = read_job(text)
    try:
        # Whoever may start jobs is not whoever holds the labels: the label owner has rules of its own.
        agree(channel, clients, text, party.policy.objection(proposed, job_hash(text)))
        work = {"train": _train, "resume": _train, "predict": _predict}[job["kind"]]
        with ExitStack() as held:
            held.callback(lock_run(party.run_folder(job["run"]), job["kind"]).release)
            return {"job_hash": job_hash(text), **work(party, channel, list(clients), dict(job))}
    except FedSDGError as error:
        # What a peer did, all may know; an error of our own may name a place on this machine.
        tell_all(
            channel,
            clients,
            str(error) if isinstance(error, PeerError) else f"{type(error).__name__} at the label owner",
        )
        raise


def canonical_job(job: Mapping[str, Any]) -> str:
    """Return a job as the text that all parties hash: the same settings give the same bytes everywhere."""
    settings = RunSettings(**job["settings"]).model_dump(mode="json")
    full = {"kind": job["kind"], "run": job["run"], "settings": settings, "clients": sorted(job["clients"])}
    return json.dumps(full, sort_keys=True, separators=(",", ":"))


def agree(channel: Channel, clients: tuple[str, ...], text: str, objection: str | None = None) -> None:
    """Propose the job; refuse it, with all reasons, if anybody does. `objection`: the label owner's own."""
    proposal = ProposeJob(text, own_version())
    answers: Mapping[str, JobAnswer] = channel.exchange(dict.fromkeys(clients, proposal))
    reasons = [f"client {name!r} refused the job: {a.reason}" for name, a in answers.items() if not a.accepted]
    reasons += [
        f"client {name!r} hashed another job than the one proposed"
        for name, a in answers.items()
        if a.accepted and a.job_hash != job_hash(text)
    ]
    if objection is not None:
        reasons.append(f"the label owner refused the job: {objection}")
    if reasons:
        raise PeerError("; ".join(reasons))
    logger.info("all clients agreed to the job %s", job_hash(text)[:16])


def tell_all(channel: Channel, clients: tuple[str, ...], reason: str) -> None:
    """Tell every client that still listens why a run ends."""
    for name in clients:
        try:
            channel.exchange({name: EndRun(reason)})
        except FedSDGError:
            logger.warning("client %r could not be told that the run ends", name)


class WithOwnColumns:
    """A channel to the clients, and to the label owner's own columns in this process."""

    def __init__(self, channel: Channel, own: Mapping[str, ClientRole]) -> None:
        self._channel, self._own, self._local = channel, dict(own), InProcessChannel(own)
        self.traffic = getattr(channel, "traffic", None) or Traffic()
        """What crossed the network: the label owner's own columns do not."""

    def exchange(self, requests: Mapping[str, Request[R]]) -> Mapping[str, R]:
        """See `Channel.exchange`."""
        here = {name: request for name, request in requests.items() if name in self._own}
        there = {name: request for name, request in requests.items() if name not in self._own}
        replies = {**(self._channel.exchange(there) if there else {}), **(self._local.exchange(here) if here else {})}
        return {name: replies[name] for name in requests}


def _train(party: Party, channel: Channel, clients: list[str], job: dict[str, Any]) -> dict[str, Any]:
    assert party.labels is not None
    settings, folder = RunSettings(**job["settings"]), party.run_folder(job["run"])
    labels, columns = read_labels(party.labels, party.name)
    key = None
    if settings.label_epsilon is not None:
        place = party.labels.label_key or party.folder / "labels.label-key"
        key = load_label_key(place)
    seed = open_run(folder, job["kind"])
    write_text(folder / "source.json", to_json({"name": party.name, "id": party.labels.id}, indent=1) + "\n")
    if columns is not None:
        channel = WithOwnColumns(channel, {party.name: ClientRole(_own_state(party, columns, folder))})
        clients = [*clients, party.name]
    checkpoints = Checkpoints(folder / "checkpoints")
    checkpoint, resumed = None, None
    if job["kind"] == "resume":
        run_id = run_id_of(checkpoints)
        number = None if run_id is None else newest_common(checkpoints, numbers_of_clients(channel, clients, run_id))
        if number is not None and run_id is not None:
            arrays, facts = resumed = checkpoints.load(number)
            checkpoint = Checkpoint(number, run_id, under_prefix("federation/", arrays), facts["federation"])
            logger.info("going on from checkpoint %d", number)
    aligned = settings.ids == "aligned"
    federation = MaskedFederation(
        channel,
        clients,
        settings.training,
        key_bits=settings.key_bits,
        sigma=settings.sigma,
        n_rows=len(labels.labels) if aligned and checkpoint is None else None,
        ids=labels.ids if aligned else None,
        checkpoint=checkpoint,
    )
    traffic = getattr(channel, "traffic", None) or Traffic()
    steps = StepRecord(folder)
    try:
        outcome = run_job(
            federation,
            LabelledRows(labels.labels, labels.ids, key),
            settings,
            seed,
            align=not aligned,
            watch=steps.add,
            traffic=traffic,
            checkpoints=checkpoints,
            resumed=resumed,
        )
    finally:
        steps.close()
    of_clients = federation.columns()
    metrics = metrics_of(outcome, sum(of_clients.values()))
    summary = ServerFacts(of_clients, outcome.result.n_selected, metrics, deciding_versions())
    weights = {name: layer.noisy for name, layer in federation.weights.items()}
    write_server_files(folder, federation.run_id, settings, outcome.result.server, weights, summary)
    for place in (folder, folder / "own_columns"):
        Checkpoints(place / "checkpoints").forget()
    tell_all(channel, tuple(clients), FINISHED)
    result = {
        "run": job["run"],
        "run_id": federation.run_id.hex(),
        "metrics": metrics,
        "columns": dict(of_clients),
        "selected": dict(outcome.result.n_selected),
        "losses": {phase: list(losses) for phase, losses in outcome.result.losses.items()},
        "path": path_of(outcome.result),
        "bytes": traffic.total,
        "messages": dict(traffic.messages),
        "seconds": outcome.seconds,
        "notes": outcome.notes,
        "versions": deciding_versions(),
    }
    write_text(folder / "result.json", to_json(result, indent=1) + "\n")
    return result


def _own_state(party: Party, columns: IdentifiedTable, folder: Path) -> ClientState:
    """The label owner's own columns take part as a client of this machine; its files lie beside the server's."""
    assert party.labels is not None
    own = make_folder(folder / "own_columns")
    seed = open_run(own, "resume" if (own / "private_seed").exists() else "train")
    local = LocalClient(party.name, columns.table, seed, encoding=party.labels.encoding)
    return ClientState(local, ids=columns.ids, folder=own, checkpoints=Checkpoints(own / "checkpoints"))


def _predict(party: Party, channel: Channel, clients: list[str], job: dict[str, Any]) -> dict[str, Any]:
    folder = party.run_folder(job["run"])
    part = read_server_files(folder)
    source = party.rows_to_score
    if source is None or source.table is None:
        raise ConfigError("the label owner's [rows_to_score] is missing: whose scores are wanted?")
    missing = [name for name in part.clients if name not in clients]
    if party.name in missing:
        raise ConfigError(
            "the model uses the label owner's own columns; across organisations only clients' columns can be scored: "
            "give them a site and a party file of their own, and train again"
        )
    if missing:
        raise ConfigError(f"a prediction needs every client with selected columns; missing: {', '.join(missing)}")
    ids = ids_to_score(source.table, None, party.name, source.id or "id")
    session = PredictionSession(channel, part, ids=None, n_rows=None)
    alignment = session.align(ids, np.random.default_rng())
    slots = session.forward(alignment.common) if alignment.common else None
    outputs = None if slots is None else part.learner.precise_outputs(slots)
    model = Model(part, {})
    model.traffic = getattr(channel, "traffic", None) or Traffic()
    scores = model.scores(ids, alignment, outputs)
    place = folder / f"scores-{len(list(folder.glob('scores-*.csv'))) + 1:03d}.csv"
    write_scores(scores, place, source.id or "id")
    return {
        "run": job["run"],
        "asked": len(ids),
        "scored": int(scores.scored.sum()),
        "file": place.name,
        "bytes_per_row": scores.bytes_per_row,
        "bytes_per_row_without_selection": scores.bytes_per_row_without_selection,
    }

"""Before any key is made: a client reads the job and answers by its own policy."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from fedsdg.client.policy import JobKind, Policy
from fedsdg.client.state import ClientState
from fedsdg.errors import ConfigError, ProtocolError, QueryLimitReached
from fedsdg.job import RunSettings
from fedsdg.messages.agreement import FINISHED, EndRun, JobAnswer, ProposeJob, job_hash
from fedsdg.messages.session import Done

logger = logging.getLogger("fedsdg.client")


def own_version() -> str:
    """Return the version of this package."""
    return metadata.version("fedsdg")


def read_job(text: str) -> dict[str, Any]:
    """Read a proposed job: strictly, since it came from another party."""
    try:
        job = json.loads(text)
        if not isinstance(job, dict) or set(job) != {"kind", "run", "settings", "clients"}:
            raise ValueError
        RunSettings(**job["settings"])
        if job["kind"] not in ("train", "resume", "predict") or not isinstance(job["run"], str):
            raise ValueError
        if not isinstance(job["clients"], list) or not all(isinstance(name, str) for name in job["clients"]):
            raise ValueError
    except (ValueError, TypeError, RecursionError, ConfigError):
        raise ProtocolError("The proposed job cannot be read.") from None
    return job


def propose_job(state: ClientState, request: ProposeJob) -> JobAnswer:
    """Check the job against this party's policy; what is agreed on here is what may be joined."""
    job, hashed, version = read_job(request.job), job_hash(request.job), own_version()
    policy = state.policy or Policy()
    reason = policy.objection(job, hashed)
    if request.package.split(".")[:2] != version.split(".")[:2]:
        reason = f"the server runs fedsdg {request.package}, this party {version}; upgrade one of the two"
    elif state.local.client_id not in job["clients"]:
        reason = "this party is not among the clients of the job"
    if reason is not None:
        logger.error("refused the job %s: %s", hashed[:16], reason)
        return JobAnswer(False, reason, version, hashed)
    logger.info("agreed to the job %s (%s): %s", hashed[:16], job["kind"], _asked(job))
    state.job = job
    state.maximum_queries = policy.maximum_queries_per_row
    return JobAnswer(True, "", version, hashed)


def _asked(job: Mapping[str, Any]) -> str:
    """Return what a job asks, for the log of whoever agrees to it."""
    settings = RunSettings(**job["settings"])
    asked = (
        f"{len(job['clients'])} clients, keys of {settings.key_bits} bits, sigma {settings.sigma}, ids {settings.ids}"
    )
    return f"{asked}, label_epsilon {settings.label_epsilon}"


def end_run(state: ClientState, request: EndRun) -> Done:
    """Write down why the run ends; checkpoints of a finished one are forgotten."""
    if request.reason == FINISHED and state.kept_part:
        logger.info("the run is finished")
        if state.checkpoints is not None:
            state.checkpoints.forget()
    else:
        logger.error("the server ended the run: %s", request.reason[:500])
    return Done()


def check_agreed(state: ClientState, kind: JobKind, training: str, key_bits: int, sigma: int) -> None:
    """Refuse to join anything but the job that was agreed on (where this party has a policy)."""
    if state.policy is None:
        return
    if state.job is None:
        raise ProtocolError("No job was agreed on.")
    settings = RunSettings(**state.job["settings"])
    same = state.job["kind"] == kind and settings.key_bits == key_bits and settings.sigma == sigma
    if training:
        same = same and _is(training, settings.training.model_dump(mode="json"))
    if not same:
        raise ProtocolError("This is not the job that was agreed on.")


def _is(text: str, agreed: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(text) == agreed)
    except (ValueError, RecursionError):  # from another party: anything may come
        return False


def count_queries(state: ClientState, rows: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Refuse a batch that would ask for a row more often than this party allows."""
    if state.maximum_queries is None:
        return
    if len(state.queries) != state.local.table.n_rows:
        state.queries = np.zeros(state.local.table.n_rows, np.int64)
    counted = state.queries + np.bincount(rows, minlength=len(state.queries))
    if counted.max() > state.maximum_queries:
        raise QueryLimitReached(
            f"A row was asked for more than {state.maximum_queries} times: policy.maximum_queries_per_row."
        )
    state.queries = counted

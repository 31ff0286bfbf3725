"""A job file becomes a deployment: kits or keys for an engine, a job without data, and a file for every party.

The job that travels holds settings and names. Where each party's rows lie, and what it allows, stands in that party's
own file (`fedsdg.party`), which `write_party_files` only begins: its owner checks and completes it.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsdg.errors import ConfigError
from fedsdg.job import Job
from fedsdg.party_source import SERVER, PartySource, check_party_name

CLIENT = """\
# The file of {name}. It stays on this machine; nothing of it travels with a job. Paths are relative to this file.

[party]
name = "{name}"
folder = "state_{name}"          # checkpoints and models of this party; keep it, and back it up

[rows]                           # what to train on
{rows}
# columns = ["a", "b"]           # default: all columns besides the id

# [rows_to_score]                # new rows for a prediction; default: the rows above
# table = "next_month.csv"

[policy]                         # what a job may ask of this party; anything else is refused, with a reason to all
kinds = ["train", "resume", "predict"]
minimum_key_bits = {key_bits}
minimum_sigma = {sigma}
maximum_queries_per_row = 100000
# columns = ["a", "b"]           # rows that bring any other column are not used
# jobs = ["..."]                 # only jobs with these hashes (fedsdg deploy prints them)
"""

OWNER = """\
# The file of {name}, the label owner. It stays on this machine; nothing of it travels with a job. Paths are relative
# to this file.

[party]
name = "{name}"
folder = "state_{name}"          # checkpoints, the model and scores; keep it, and back it up

[labels]
{rows}
target = "{target}"

[policy]                         # what a submitted job may ask of this party
minimum_key_bits = 2048
minimum_sigma = 64
# jobs = ["..."]                 # hashes of jobs that were looked at; without it the rules above decide

# [rows_to_score]                # whose scores are wanted in a prediction: the id column is enough
# table = "next_month.csv"
# id = "{id}"
"""


def engine_module(name: str, extra: str) -> Any:
    """Import an engine's adapter, or say which extra is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        raise ConfigError(
            f'{extra} is not installed here ({problem.name}): install it with pip install "fedsdg[{extra}]"'
        ) from None
    except ImportError as problem:
        raise ConfigError(
            f"{extra} is installed here and cannot be used ({problem.name}): install it again with "
            f'pip install --force-reinstall "fedsdg[{extra}]"'
        ) from None


def check_engine(engine: str) -> None:
    """Import what a site of this engine (`flare` or `flower`) runs, or say what is missing."""
    engine_module(f"fedsdg.runtime.{engine}", engine)


def job_settings(job: Job, run: str, kind: str = "train") -> dict[str, Any]:
    """Return what travels: settings and a name, no path and no data."""
    check_party_name(run, "run")
    if job.profile != "masked":
        raise ConfigError('job.profile: between organisations only "masked" is possible')
    if not job.clients:
        raise ConfigError("a deployment needs at least one client")
    return {"kind": kind, "run": run, "settings": job.settings.model_dump(mode="json")}


def write_party_files(job: Job, folder: Path, job_file: Path | None = None) -> dict[str, Path]:
    """Begin a file for every party; nothing is overwritten.

    A table that the job file names relative to itself is named relative to the party's file: the two can be moved
    together. Without `job_file`, and if the job names it by its whole path, it is named so here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written, near = {}, _relative_tables(job_file) if job_file is not None else set()
    for name, source in {job.server.name: job.server, **job.clients}.items():
        path = folder / f"{name}.toml"
        if path.exists():
            raise ConfigError(f"{path} exists; nothing is overwritten")
        owner = source is job.server
        rows = _rows(source, name, folder if (SERVER if owner else name) in near else None)
        values = {"name": name, "rows": rows, "key_bits": job.key_bits, "sigma": job.sigma}
        if owner:
            text = OWNER.format(**values, target=job.server.target, id=source.id or "id")
            if job.server.columns != "none":
                text = text.replace("\ntarget =", f"\ncolumns = {json.dumps(job.server.columns)}\ntarget =")
        else:
            text = CLIENT.format(**values)
        path.write_text(text, encoding="utf-8")
        written[name] = path
    return written


def _relative_tables(job_file: Path) -> set[str]:
    """Return the clients, and `server`, whose table a job file names by a path that starts at the file's folder."""
    content = tomllib.loads(job_file.read_text(encoding="utf-8-sig"))
    sources = {SERVER: content["server"], **content.get("clients", {})}
    return {name for name, source in sources.items() if "table" in source and not Path(source["table"]).is_absolute()}


def _rows(source: PartySource, name: str, relative_to: Path | None = None) -> str:
    """Return the lines that say where rows come from: as the job knows it, or to be filled in."""
    if source.query is not None:
        lines = ['database = "..."               # SQLAlchemy URL; ${NAME} is filled in from the environment']
        lines.append(f"query = {json.dumps(source.query)}")
    else:
        table = str(source.table.resolve()) if source.table is not None else f"{name}.csv"
        if source.table is not None and relative_to is not None:
            table = os.path.relpath(table, relative_to.resolve())
        lines = [f"table = {json.dumps(table, ensure_ascii=False)}"]
    if source.id is not None:
        lines.append(f"id = {json.dumps(source.id)}")
    return "\n".join(lines)


def rewritten_job(folder: Path, copy: Path, changes: Mapping[str, Any]) -> Path:
    """Copy a FLARE job's folder with another kind or run: the same parties and settings, to resume or to predict."""
    shutil.copytree(folder, copy)
    path = copy / "server" / "config" / "fedsdg.json"
    try:
        brought = json.loads(path.read_text())
        brought["settings"] = {**brought["settings"], **changes}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{folder} is no job folder of fedsdg") from None
    path.write_text(json.dumps(brought, indent=2))
    return copy

"""`fedsdg deploy` and `fedsdg site`: the same job across organisations, on NVIDIA FLARE or on Flower."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from fedsdg.deployment import engine_module, job_settings, rewritten_job, write_party_files
from fedsdg.errors import ConfigError
from fedsdg.job import Job, load_job
from fedsdg.messages.agreement import job_hash
from fedsdg.party import PARTY_FILE, load_party
from fedsdg.party_server import canonical_job

deploy = typer.Typer(no_args_is_help=True, help="Turn a job file into a deployment across organisations.")
site = typer.Typer(no_args_is_help=True, help="Run a party's site; submit, watch and stop jobs (NVIDIA FLARE).")

JobFile = Annotated[Path, typer.Argument(help="The job file: settings, and who takes part.")]
Out = Annotated[Path, typer.Option(help="Where the deployment is written; it must not exist yet.")]
Host = Annotated[str, typer.Option(help="The name or address by which clients reach the label owner's machine.")]
Run = Annotated[str, typer.Option(help="The name of the run, and of its folder at every party.")]


@deploy.command()
def flare(
    job: JobFile,
    out: Out,
    host: Host = "localhost",
    port: Annotated[int, typer.Option(help="The one port that the label owner opens.")] = 8002,
    run: Run = "first",
    project: Annotated[str, typer.Option(help="The project's name in its certificates.")] = "fedsdg",
) -> None:
    """Make NVIDIA FLARE kits (mutual TLS), a job without data, and a file for every party."""
    loaded = load_job(job)
    settings = job_settings(loaded, run)
    _fresh(out)
    kits_of, jobs = (
        engine_module("fedsdg.runtime.flare_kits", "flare"),
        engine_module("fedsdg.runtime.flare_jobs", "flare"),
    )
    clients = tuple(loaded.clients)
    kits = kits_of.provision(out / "kits", project, host, clients, port=port)
    jobs.write_job(out / "job", clients, settings)
    parties = write_party_files(loaded, out / "parties")
    console = Console()
    _say(console, f"job hash {_hash(loaded, settings)}: what clients can list under policy.jobs")
    _say(console, "\nto each party, its kit and its file, and to nobody else:")
    for name, kit in {loaded.server.name: kits.server, **kits.clients}.items():
        _say(console, f"  {name}: {kit} and {parties[name]}")
        _say(console, f"    there: fedsdg site start {shlex.quote(str(kit))} --party {parties[name]}")
    _say(console, "\nwho submits (the label owner), when all sites run:")
    _say(console, f"    fedsdg site submit {shlex.quote(str(kits.admin))} {shlex.quote(str(out / 'job'))}")
    _say(console, "    ... --kind resume   after an interruption;   ... --kind predict   to score [rows_to_score]")


@deploy.command()
def flower(
    job: JobFile,
    out: Out,
    host: Host = "localhost",
    port: Annotated[int, typer.Option(help="The SuperLink's port.")] = 8000,
    stream_port: Annotated[int, typer.Option(help="The port of the messages' own stream.")] = 9100,
    run: Run = "first",
    kind: Annotated[Literal["train", "resume", "predict"], typer.Option(help="What the app does.")] = "train",
) -> None:
    """Make certificates for a Flower SuperLink, an app without code or data, and a file for every party."""
    loaded = load_job(job)
    settings = job_settings(loaded, run, kind)
    _fresh(out)
    kits = engine_module("fedsdg.runtime.flower_kits", "flower")
    deployment = kits.make_deployment(out / "superlink", host, port)
    clients = tuple(loaded.clients)
    app = kits.write_app(out / "app", clients, settings, listen=f"0.0.0.0:{stream_port}", dial=f"{host}:{stream_port}")
    parties = write_party_files(loaded, out / "parties")
    console = Console()
    environment = " ".join(f"{key}={shlex.quote(value)}" for key, value in deployment.environment.items())
    _say(console, f"job hash {_hash(loaded, settings)}: what clients can list under policy.jobs")
    _say(console, f"\n{loaded.server.name} (label owner):")
    party = parties[loaded.server.name]
    _say(console, f"    {PARTY_FILE}={party} {environment} {shlex.join(kits.superlink_command(deployment))}")
    for number, name in enumerate(clients):
        key = kits.make_node(out / "nodes" / name, name)
        command = kits.supernode_command(name, key, deployment.address, deployment.authority, 9094 + number)
        _say(console, f"\n{name}: gets {key}, {deployment.authority} and {parties[name]}")
        _say(console, f"    {PARTY_FILE}={parties[name]} FLWR_TELEMETRY_ENABLED=0 {shlex.join(command)}")
        public = shlex.quote(str(key.with_suffix(".pub")))
        register = f"{environment} flwr supernode register {public} fedsdg --name {name}"
        _say(console, f"    registered by {loaded.server.name}: {register}")
    _say(console, f"\nstart: {environment} flwr run {shlex.quote(str(app))} fedsdg --stream")


@site.command()
def start(
    kit: Annotated[Path, typer.Argument(help="This party's kit.")],
    party: Annotated[Path, typer.Option(help="This party's file.")],
) -> None:
    """Run this party's site in the foreground; Ctrl-C stops it."""
    loaded = load_party(party)  # a wrong file is told before anything starts
    kits = engine_module("fedsdg.runtime.flare_kits", "flare")
    command = kits.site_command(kit)
    _say(Console(stderr=True), f"{loaded.name}: site of {kit} starts")
    os.environ.update({**kits.SITE_ENVIRONMENT, PARTY_FILE: str(party.resolve())})
    os.chdir(kit)
    os.execv(command[0], command)  # noqa: S606 - our own command, without a shell


@site.command()
def submit(
    kit: Annotated[Path, typer.Argument(help="The admin's kit.")],
    job: Annotated[Path, typer.Argument(help="The job's folder.")],
    kind: Annotated[Literal["train", "resume", "predict"], typer.Option(help="What to do.")] = "train",
    run: Annotated[str | None, typer.Option(help="Another run than the one of the job.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end and print the result.")] = True,
) -> None:
    """Submit a job when all sites are connected; watch it, and print what the label owner may show."""
    jobs = engine_module("fedsdg.runtime.flare_jobs", "flare")
    clients = (
        json.loads((job / "meta.json").read_text())["mandatory_clients"] if (job / "meta.json").is_file() else None
    )
    if clients is None:
        raise ConfigError(f"{job} is no job folder")
    changes = {"kind": kind, **({} if run is None else {"run": run})}
    with tempfile.TemporaryDirectory() as place, jobs.admin_session(kit.resolve()) as session:
        jobs.wait_for_clients(session, clients, 60.0)
        number = jobs.submit(session, rewritten_job(job, Path(place) / "job", changes))
        _say(Console(stderr=True), f"submitted: {number}")
        if not wait:
            print(number)
            return
        seen: list[str] = []

        def tell(status: str) -> None:
            if seen[-1:] != [status]:
                seen.append(status)
                _say(Console(stderr=True), f"status: {status}")

        status = jobs.watch(session, number, seen=tell)
        print(jobs.fetch_result(session, number, Path(place) / "results").decode())
        if status != jobs.COMPLETED:
            raise typer.Exit(1)


@site.command()
def stop(
    kit: Annotated[Path, typer.Argument(help="The admin's kit.")],
    number: Annotated[str, typer.Argument(help="The job, as `submit` named it.")],
) -> None:
    """Stop a job that runs; `submit --kind resume` goes on with it."""
    jobs = engine_module("fedsdg.runtime.flare_jobs", "flare")
    with jobs.admin_session(kit.resolve()) as session:
        jobs.stop(session, number)


def _fresh(out: Path) -> None:
    if out.exists():
        raise ConfigError(f"{out} exists; certificates are not made over. Choose another folder.")


def _hash(job: Job, settings: dict[str, Any]) -> str:
    """Return the hash that all parties will compute of this job."""
    own = [] if job.server.columns == "none" or settings["kind"] == "predict" else [job.server.name]
    clients = [*job.clients, *own]
    return job_hash(canonical_job({**settings, "clients": clients}))


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)

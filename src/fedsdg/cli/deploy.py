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

from fedsdg.deployment import check_engine, engine_module, job_settings, rewritten_job, write_party_files
from fedsdg.errors import ConfigError, PeerError, PeerLost
from fedsdg.job import Job, load_job
from fedsdg.messages.agreement import job_hash
from fedsdg.party import PARTY_FILE, load_party
from fedsdg.party_server import canonical_job
from fedsdg.runtime.serving import Patience

deploy = typer.Typer(no_args_is_help=True, help="Turn a job file into a deployment across organisations.")
site = typer.Typer(no_args_is_help=True, help="Run a party's site. NVIDIA FLARE: submit and stop jobs. Flower: keys.")

JobFile = Annotated[Path, typer.Argument(help="The job file: settings, and who takes part.")]
Out = Annotated[Path, typer.Option(help="Where the deployment is written; it must not exist yet.")]
Host = Annotated[str, typer.Option(help="The name or address by which clients reach the label owner's machine.")]
Run = Annotated[str, typer.Option(help="The name of the run, and of its folder at every party.")]
WaitStart = Annotated[float, typer.Option(help="Seconds until every client must be ready.")]
WaitSilence = Annotated[float, typer.Option(help="Seconds that a run waits for a client that cannot be reached.")]
WaitAnswer = Annotated[float, typer.Option(help="Seconds for one answer of a client that can be reached.")]
#: How often `submit --wait-for-return` goes on by itself: a client that dies every time needs somebody who looks at it.
RETURNS = 10


@deploy.command()
def flare(
    job: JobFile,
    out: Out,
    host: Host = "localhost",
    port: Annotated[int, typer.Option(help="The one port that the label owner opens.")] = 8002,
    run: Run = "first",
    project: Annotated[str, typer.Option(help="The project's name in its certificates.")] = "fedsdg",
    wait_start: WaitStart = Patience.start,
    wait_silence: WaitSilence = Patience.silence,
    wait_answer: WaitAnswer = Patience.answer,
) -> None:
    """Make NVIDIA FLARE kits (mutual TLS), a job without data, and a file for every party."""
    loaded = load_job(job)
    settings, patience = job_settings(loaded, run), Patience(wait_start, wait_silence, wait_answer)
    _fresh(out)
    kits_of, jobs = (
        engine_module("fedsdg.runtime.flare_kits", "flare"),
        engine_module("fedsdg.runtime.flare_jobs", "flare"),
    )
    clients = tuple(loaded.clients)
    kits = kits_of.provision(out / "kits", project, host, clients, port=port)
    jobs.write_job(out / "job", clients, settings, patience)
    parties = write_party_files(loaded, out / "parties", job)
    console = Console()
    _say(console, "job hashes, which clients can list under policy.jobs:")
    for kind in ("train", "resume", "predict"):
        _say(console, f"  {kind}: {_hash(loaded, {**settings, 'kind': kind})}")
    _say(console, "\nto each party, its kit and its file, and to nobody else:")
    for name, kit in {loaded.server.name: kits.server, **kits.clients}.items():
        _say(console, f"  {name}: {quoted(kit)} and {quoted(parties[name])}")
        _say(console, f"    there: fedsdg site start {quoted(kit)} --party {quoted(parties[name])}")
    _say(console, "\nwho submits (the label owner), when all sites run:")
    _say(console, f"    fedsdg site submit {quoted(kits.admin)} {quoted(out / 'job')}")
    _say(console, "    ... --kind resume   after an interruption;   ... --kind predict   to score [rows_to_score]")


@site.command()
def start(
    kit: Annotated[Path, typer.Argument(help="This party's kit.")],
    party: Annotated[Path, typer.Option(help="This party's file.")],
) -> None:
    """Run this party's site in the foreground; Ctrl-C stops it."""
    loaded = load_party(party)  # a wrong file is told before anything starts
    engine = "flower" if (kit / "flower.json").is_file() else "flare"
    kits = engine_module(f"fedsdg.runtime.{engine}_kits", engine)
    check_engine(engine)
    command = kits.site_command(kit)
    _say(Console(stderr=True), f"{loaded.name}: site of {kit} starts")
    environment = kits.site_environment(kit) if engine == "flower" else kits.SITE_ENVIRONMENT
    os.environ.update({**environment, PARTY_FILE: str(party.resolve())})
    os.chdir(kit)
    os.execv(command[0], command)  # noqa: S606 - our own command, without a shell


@site.command()
def submit(
    kit: Annotated[Path, typer.Argument(help="The admin's kit.")],
    job: Annotated[Path, typer.Argument(help="The job's folder.")],
    kind: Annotated[Literal["train", "resume", "predict"], typer.Option(help="What to do.")] = "train",
    run: Annotated[str | None, typer.Option(help="Another run than the one of the job.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end and print the result.")] = True,
    wait_for_return: Annotated[
        float, typer.Option(help="If a client is lost: seconds to wait for its site, then go on with the run.")
    ] = 0.0,
) -> None:
    """Submit a job when all sites are connected; watch it, and print what the label owner may show."""
    jobs = engine_module("fedsdg.runtime.flare_jobs", "flare")
    try:
        clients = json.loads((job / "meta.json").read_text())["mandatory_clients"]
        if not isinstance(clients, list) or not all(isinstance(client, str) for client in clients):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{job} is no job folder") from None
    changes = {"kind": kind, **({} if run is None else {"run": run})}
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as place, jobs.admin_session(kit.resolve()) as session:
        for attempt in range(RETURNS + 1):
            jobs.wait_for_clients(session, clients, wait_for_return if attempt else 60.0, anew=attempt > 0)
            folder = Path(place) / str(attempt)
            number = jobs.submit(session, rewritten_job(job, folder / "job", changes))
            _say(console, f"submitted: {number}")
            if not wait:
                print(number)
                return
            try:
                print(_outcome(jobs, session, number, folder / "results", console))
                return
            except PeerLost as lost:
                if kind == "predict" or not wait_for_return or attempt == RETURNS:
                    raise
                _say(console, f"{lost}\nwaiting for all sites, for up to {wait_for_return:g} seconds")
                changes["kind"] = "resume"


def _outcome(jobs: Any, session: Any, number: str, place: Path, console: Console) -> str:
    """Wait for the end of a job, tell how it goes, and return its result."""
    seen: list[str] = []

    def tell(status: str) -> None:
        if seen[-1:] != [status]:
            seen.append(status)
            _say(console, f"status: {status}")

    status = jobs.watch(session, number, seen=tell)
    try:
        result: str = jobs.fetch_result(session, number, place).decode()
    except PeerLost as lost:
        if status == jobs.ABORTED:  # somebody stopped it: nobody was lost, and nothing goes on by itself
            raise PeerError(str(lost)) from None
        raise
    if status != jobs.COMPLETED:
        print(result)
        raise typer.Exit(1)
    return result


@site.command()
def watch(
    kit: Annotated[Path, typer.Argument(help="The admin's kit.")],
    number: Annotated[str, typer.Argument(help="The job, as `submit` named it.")],
) -> None:
    """Watch a job that was submitted before, and print what the label owner may show."""
    jobs = engine_module("fedsdg.runtime.flare_jobs", "flare")
    with tempfile.TemporaryDirectory() as place, jobs.admin_session(kit.resolve()) as session:
        print(_outcome(jobs, session, number, Path(place) / "results", Console(stderr=True)))


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


def quoted(path: Path) -> str:
    """Return a path as it can be typed into a shell."""
    return shlex.quote(str(path))


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)

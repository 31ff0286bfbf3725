"""The Flower part of `fedsdg deploy` and `fedsdg site`: kits, a client's own key, and letting it in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsdg.cli.deploy import (
    Host,
    JobFile,
    Out,
    Run,
    WaitAnswer,
    WaitSilence,
    WaitStart,
    _fresh,
    _hash,
    _say,
    deploy,
    quoted,
    site,
)
from fedsdg.deployment import engine_module, job_settings, write_party_files
from fedsdg.job import load_job
from fedsdg.runtime.serving import Patience

KINDS = ("train", "resume", "predict")


def _kits() -> Any:
    return engine_module("fedsdg.runtime.flower_kits", "flower")


@deploy.command()
def flower(
    job: JobFile,
    out: Out,
    host: Host = "localhost",
    port: Annotated[int, typer.Option(help="The SuperLink's port.")] = 8000,
    stream_port: Annotated[int, typer.Option(help="The port of the messages' own stream.")] = 9100,
    run: Run = "first",
    wait_start: WaitStart = Patience.start,
    wait_silence: WaitSilence = Patience.silence,
    wait_answer: WaitAnswer = Patience.answer,
) -> None:
    """Make Flower kits (TLS, registered keys), an app without code or data, and a file for every party."""
    loaded = load_job(job)
    settings, patience = job_settings(loaded, run), Patience(wait_start, wait_silence, wait_answer)
    _fresh(out)
    kits = _kits()
    clients, owner = tuple(loaded.clients), loaded.server.name
    link, trial = out / "superlink", out / "simulation"
    stream = f"{host}:{stream_port}"
    deployment = kits.make_deployment(link, host, port, stream=stream)
    kits.make_simulation(trial, port, stream=stream)
    nodes = {
        name: kits.make_node_kit(out / "nodes" / name, name, deployment, kits.NODE_PORT + number, stream=stream)
        for number, name in enumerate(clients)
    }
    app = kits.write_app(
        out / "app",
        clients,
        settings,
        listen=f"0.0.0.0:{stream_port}",
        dial=stream,
        patience=patience,
    )
    parties = write_party_files(loaded, out / "parties", job)

    def start(kit: Path, name: str) -> None:
        _say(console, f"    fedsdg site start {quoted(kit)} --party {quoted(parties[name])}")

    def submit(kit: Path, simulated: int = 0) -> None:
        _say(console, f"    {variables(kit)} {shlex.join(kits.run_command(app, simulated))}")

    def variables(kit: Path) -> str:
        settings = {**kits.QUIET, "FLWR_HOME": str(kit / "flower")}
        return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())

    console = Console()
    _say(console, "job hashes, which clients can list under policy.jobs:")
    for kind in KINDS:
        _say(console, f"  {kind}: {_hash(loaded, {**settings, 'kind': kind})}")
    _say(console, f"\n{owner}, the label owner, in a terminal of its own:")
    start(link, owner)
    for name, kit in nodes.items():
        _say(console, f"\n{name} gets {quoted(kit)} and {quoted(parties[name])}, and makes its key where it works:")
        _say(console, f"    fedsdg site key {quoted(kit)}")
        _say(console, f"{owner} gets {name}.pub from it, nothing else, and lets it in:")
        _say(console, f"    fedsdg site register {quoted(link)} {quoted(kit / f'{name}.pub')}")
        _say(console, f"{name}, in a terminal of its own:")
        start(kit, name)
    _say(console, f"\n{owner} starts a run, on its own machine:")
    submit(link)
    _say(console, """    ... --run-config 'kind="resume"'   after an interruption;   'kind="predict"'   to score""")
    _say(console, f"\nall runs with their numbers, and the end of one ({owner}, on its own machine):")
    _say(console, f"    {variables(link)} flwr list {kits.CONNECTION}")
    _say(console, f"    {variables(link)} flwr stop NUMBER {kits.CONNECTION}")
    _say(console, '\nto try it first with all parties on this machine (needs "fedsdg[flower-simulation]"):')
    start(trial, owner)
    submit(trial, len(clients))


@site.command()
def key(kit: Annotated[Path, typer.Argument(help="This client's kit, made by `fedsdg deploy flower`.")]) -> None:
    """Make a client's own key (Flower); the private half never leaves this machine."""
    public = _kits().make_key(kit)
    print(f"{public}: send this file to the label owner, over a channel on which it knows you; keep {public.stem}")


@site.command()
def register(
    kit: Annotated[Path, typer.Argument(help="The label owner's kit; its SuperLink must be running.")],
    public_keys: Annotated[list[Path], typer.Argument(help="Files that clients sent, each called NAME.pub.")],
) -> None:
    """Let clients' keys in, each under its client's name (Flower)."""
    kits = _kits()
    deployment = kits.open_deployment(kit)
    kits.wait_for_superlink(deployment, 60.0)
    for public in public_keys:
        kits.register_node(deployment, public.stem, public)
        print(f"{public.stem} may connect now")

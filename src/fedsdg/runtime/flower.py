"""Our messages with Flower: it starts both ends and tells them about each other, then a stream carries the bytes.

Flower starts a new process for every message and looks for messages once in a few seconds. So a job is one message per
client, with an address, a certificate and a secret; the process that it starts makes the party and serves the whole job
over `runtime.stream`. Its reply to Flower says how it ended.

In Flower's simulation all clients live on the label owner's machine and have numbers instead of names: number k is the
k-th client of the job, and its party file lies beside the label owner's, as `NAME.toml`.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsdg.errors import ConfigError, PeerError, told
from fedsdg.run_log import FORMAT
from fedsdg.runtime.certificates import job_certificate
from fedsdg.runtime.flower_kits import REST
from fedsdg.runtime.serving import Patience, error_name
from fedsdg.runtime.site import RESULT_FILE, JobContext, client_factory, failure_kept, server_driver
from fedsdg.runtime.stream import Invitation, StreamChannel
from fedsdg.runtime.stream_client import Server, serve
from fedsdg.state_files import write_atomically

logger = logging.getLogger("fedsdg.runtime")

RECORD = "fedsdg"
#: Where the server leaves the results of jobs, one folder per run.
RUNS = "FEDSDG_RUNS"
#: The variable that names a party's own file (see `fedsdg.party`).
PARTY_FILE = "FEDSDG_PARTY"
#: What a simulated node is told of itself: its number.
NUMBER = "partition-id"
#: What some of Flower's errors mean here.
MEANINGS = {5: "its SuperNode has gone", 7: "its SuperNode refused the app", 8: "its process has died"}
#: Days that a job may take: the message that started it and its certificate live as long.
DAYS = 30

server_app = ServerApp()
client_app = ClientApp()


@dataclass(frozen=True)
class Plan:
    """A run's configuration."""

    clients: tuple[str, ...]
    listen: str
    """Address and port that the server opens for the stream."""
    dial: str
    """The same, as clients reach it; port 0 stands for the one that was opened."""
    settings: Mapping[str, Any]
    patience: Patience

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Plan:
        """Read the configuration that `flower_kits.write_app` wrote."""
        plan = ("clients", "listen", "dial", *(field.name for field in fields(Patience)), REST)
        try:
            return cls(
                tuple(sorted(str(config["clients"]).split(","))),
                str(config["listen"]),
                str(config["dial"]),
                {**{k: v for k, v in config.items() if k not in plan}, **json.loads(str(config[REST]))},
                Patience(float(config["start"]), float(config["silence"]), float(config["answer"])),
            )
        except (KeyError, ValueError, TypeError, RecursionError):
            raise ConfigError("the run's configuration cannot be used; write the app with fedsdg") from None


@server_app.main()
def drive(grid: Grid, context: Context) -> None:
    """Invite the clients, run this machine's driver, keep its result."""
    _log_to_screen()
    folder = Path(os.environ.get(RUNS, "fedsdg-runs")) / str(context.run_id)
    with failure_kept(folder):
        plan = Plan.of(context.run_config)
        driver = server_driver()
        invitations = {node: Invitation(secrets.token_urlsafe(32), name) for node, name in _nodes(grid, plan).items()}
        channel = StreamChannel(list(invitations.values()), plan.patience)
        watcher = _Watcher(grid, channel, {node: invited.name for node, invited in invitations.items()})
        early = True
        try:
            watcher.invite(_open(channel, plan, invitations))
            names = channel.wait_for_clients()
            if names != plan.clients:
                raise PeerError(f"these clients came: {', '.join(names)}; this job is for {', '.join(plan.clients)}")
            folder.mkdir(parents=True)
            result = driver(channel, JobContext(str(context.run_id), names, plan.settings, folder))
            early = False
        finally:
            watcher.stop()
            channel.close(early=early)
        write_atomically(folder / RESULT_FILE, result)
        logger.info("the result: %s", (folder / RESULT_FILE).resolve())


def _open(channel: StreamChannel, plan: Plan, invitations: Mapping[int, Invitation]) -> dict[int, ConfigRecord]:
    """Listen, with a certificate for this job; return what each node is told."""
    private_key, certificate = job_certificate(DAYS)
    port = channel.open(plan.listen, private_key, certificate)
    host, _, dialled = plan.dial.rpartition(":")
    return {
        node: ConfigRecord(
            {
                "address": f"{host}:{port if dialled == '0' else dialled}",
                "certificate": certificate,
                "token": invitation.token,
                "name": invitation.name or "",
                "silence": plan.patience.silence,
            }
        )
        for node, invitation in invitations.items()
    }


def _nodes(grid: Grid, plan: Plan) -> dict[int, str | None]:
    """Wait for the nodes of the clients. A node is known by the name under which its key was registered, if any."""
    deadline = time.monotonic() + plan.patience.start
    while True:
        nodes = {int(node.node_id): str(node.name) or None for node in grid.get_nodes()}
        named = {node: name for node, name in nodes.items() if name in plan.clients}
        if set(named.values()) == set(plan.clients) and len(named) == len(plan.clients):
            return dict(named)
        if not any(nodes.values()) and len(nodes) == len(plan.clients):  # nobody has a name yet: they will say it
            return nodes
        if time.monotonic() > deadline:
            missing = sorted(set(plan.clients) - set(named.values()))
            raise PeerError(
                f"after {plan.patience.start:g} seconds {len(nodes)} nodes are connected, and not as "
                f"{', '.join(missing)}: register each key under its client's name, and start its SuperNode"
            )
        time.sleep(0.5)


class _Watcher:
    """Sends each node its one message, and tells the channel when a node has ended before the job has."""

    def __init__(self, grid: Grid, channel: StreamChannel, names: Mapping[int, str | None]) -> None:
        self._grid, self._channel, self._names = grid, channel, names
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def invite(self, records: Mapping[int, ConfigRecord]) -> None:
        """Send the messages; replies are looked for in a thread."""
        messages = [
            Message(RecordDict({RECORD: record}), dst_node_id=node, message_type=f"query.{RECORD}", ttl=DAYS * 86400.0)
            for node, record in records.items()
        ]
        sent = dict(zip(self._grid.push_messages(messages), records, strict=True))
        self._thread = threading.Thread(target=self._watch, args=(sent,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no further."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, sent: Mapping[str, int]) -> None:
        while not self._over.wait(2.0):
            for reply in self._grid.pull_messages(list(sent)):
                name, ending = self._ending(reply, sent[reply.metadata.reply_to_message_id])
                self._channel.fail(name, PeerError(f"client {name!r} ended before the job did: {ending}"))

    def _ending(self, reply: Message, node: int) -> tuple[str, str]:
        if reply.has_error():
            meaning = f" ({MEANINGS[reply.error.code]})" if reply.error.code in MEANINGS else ""
            return self._names[node] or f"node {node}", f"Flower's error {reply.error.code}{meaning}"
        name, ending = (str(reply.content.config_records[RECORD].get(key))[:100] for key in ("name", "ending"))
        return name, f"{ending}; its own log says why"


@client_app.query(RECORD)
def answer(message: Message, context: Context) -> Message:
    """Serve the job; Flower learns how it ended, and of an error only the type."""
    _log_to_screen()
    ending, name = "served", ""
    try:
        record = message.content.config_records[RECORD]
        name = _own_name(str(record["name"]), context)
        factory = client_factory()
        server = Server(str(record["address"]), _bytes(record["certificate"]), str(record["token"]))
        serve(server, name, lambda: factory(name), float(str(record["silence"])))
    except Exception as error:
        logger.error("this party could not go on: %s", told(error))
        ending = error_name(error)
    return Message(RecordDict({RECORD: ConfigRecord({"ending": ending, "name": name})}), reply_to=message)


def _own_name(invited: str, context: Context) -> str:
    """Return this party's name, which its own SuperNode says; who was invited must be the same."""
    name = str(context.node_config.get("name", ""))
    if not name and NUMBER in context.node_config:
        return _simulated(Plan.of(context.run_config).clients, int(str(context.node_config[NUMBER])))
    if not name:
        raise ConfigError("""this node has no name; start its SuperNode with --node-config 'name="..."'""")
    if invited and invited != name:
        raise ConfigError(f"the server knows this node as {invited!r}, and it is {name!r}")
    return name


def _simulated(clients: tuple[str, ...], number: int) -> str:
    """Return a simulated client's name. It shares the label owner's environment, but not its party file."""
    if not 0 <= number < len(clients):
        raise ConfigError(f"the simulation has more nodes than the job has clients: {len(clients)}")
    if PARTY_FILE in os.environ:  # a simulated client has a process of its own
        os.environ[PARTY_FILE] = str(Path(os.environ[PARTY_FILE]).with_name(f"{clients[number]}.toml"))
    return clients[number]


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise PeerError("the server sent no certificate")
    return value


def _log_to_screen() -> None:
    """Say what happens: names, kinds, counts, reasons. The SuperNode shows it, and `flwr run --stream` the server's."""
    ours = logging.getLogger("fedsdg")
    if not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)

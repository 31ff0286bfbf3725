"""What an organisation says about itself, on its own machine: which client it is, or how it drives a job.

An engine carries a job from one organisation to all others. A job must not choose what runs there, so neither the
maker of a client nor the driver of the server is ever taken from a job: both are named by this machine's environment.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsdg.errors import ConfigError, FedSDGError, PeerLost
from fedsdg.messages.base import Channel
from fedsdg.runtime.serving import Answer
from fedsdg.state_files import write_atomically

logger = logging.getLogger("fedsdg.runtime")

#: What a job leaves in its folder at the server: what its driver returned, or why it failed.
RESULT_FILE, FAILURE_FILE = "fedsdg-result", "fedsdg-failure.txt"
#: Lies beside the reason of a failure when a party was lost: the run can go on when it is back.
LOST_FILE = "fedsdg-party-lost"

#: Environment variables, and what stands for them: `module:function`.
CLIENT_FACTORY = "FEDSDG_CLIENT_FACTORY"
SERVER_DRIVER = "FEDSDG_SERVER_DRIVER"
DEFAULTS = {CLIENT_FACTORY: "fedsdg.party:client_factory", SERVER_DRIVER: "fedsdg.party_server:server_driver"}


@dataclass(frozen=True)
class JobContext:
    """What the server knows of a job that an engine started."""

    job_id: str
    clients: tuple[str, ...]
    """The clients that are there, by name."""
    settings: Mapping[str, Any]
    """What the job brought along. All parties may read it."""
    folder: Path
    """Where this job may leave files at the server."""


ClientFactory = Callable[[str], Answer]
ServerDriver = Callable[[Channel, JobContext], bytes]


def client_factory() -> ClientFactory:
    """Return this machine's maker of clients: from the party's name to what answers for it."""
    factory: ClientFactory = _named(CLIENT_FACTORY)
    return factory


def server_driver() -> ServerDriver:
    """Return this machine's driver: it asks the clients over a channel and returns the result of the job."""
    driver: ServerDriver = _named(SERVER_DRIVER)
    return driver


@contextmanager
def failure_kept(folder: Path) -> Iterator[None]:
    """Leave the reason of a failure in the job's folder, where whoever started the job looks for its result."""
    try:
        yield
    except FedSDGError as error:
        logger.error("the job failed: %s", error)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(error, PeerLost):
            (folder / LOST_FILE).touch()  # before the reason: whoever sees that sees its kind, too
        write_atomically(folder / FAILURE_FILE, f"{error}\n".encode())
        raise


def _named(variable: str) -> Any:
    name = os.environ.get(variable, DEFAULTS[variable])
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ConfigError(f"{variable} is {name!r}; write module:function")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        raise ConfigError(f"{variable} is {name!r}, and there is no such function on this machine") from None
    if not callable(found):
        raise ConfigError(f"{variable} is {name!r}, which is no function")
    return found

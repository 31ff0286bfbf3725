"""Our messages over NVIDIA FLARE: two components for a job of its Collab API.

`FlareServer` runs this machine's driver, `FlareClient` answers for this machine's party; nothing else of a job runs.
A client's work is asked for and then waited for in short calls, so a client that died is told from one that computes.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from fedsdg.errors import ConfigError, PeerError, PeerLost, ProtocolError, told
from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.runtime.codec_channel import CodecChannel
from fedsdg.runtime.serving import Patience, RoleThread, error_name
from fedsdg.runtime.site import RESULT_FILE, JobContext, client_factory, failure_kept, server_driver
from fedsdg.state_files import write_atomically

logger = logging.getLogger("fedsdg.runtime")

SERVER = "server"
SETTINGS_FILE = "fedsdg.json"
#: Seconds that one call waits at a client before it comes back with "still working".
POLL = 10.0
#: Seconds for the way to the client and back, on top; FLARE extends them while bytes flow.
TRANSFER = 20.0

# What a call brings back.
DONE, WORKING, REFUSED = "done", "working", "refused"
Reply = dict[str, Any]
#: A call to a client through its proxy: of a request, or, once that has arrived, of its answer.
Call = Callable[[Any, bool], Any]


class FlareClient:
    """The party of this machine. A job cannot configure it: it is made by this machine's own factory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: RoleThread | None = None

    @collab.publish
    def greet(self, protocol: int, wait: float) -> Reply:
        """Make the role, once; refuse a server that speaks another protocol."""
        return self._reply(lambda: self._start(protocol).ready, wait)

    @collab.publish
    def answer(self, number: int, blob: bytes, wait: float) -> Reply:
        """Answer a request, or say that it is being worked on."""
        return self._reply(lambda: self._started().ask(number, blob), wait)

    @collab.publish
    def collect(self, number: int, wait: float) -> Reply:
        """Bring the answer to a request that was asked before, or say that it is still being worked on."""
        return self._reply(lambda: self._started().outcome(number), wait)

    @collab.final
    def finish(self) -> None:
        """Forget the role when the job ends."""
        with self._lock:
            if self._thread is not None:
                self._thread.close()
                self._thread = None

    def _start(self, protocol: int) -> RoleThread:
        if protocol != PROTOCOL_VERSION:
            raise ProtocolError(f"The server speaks protocol {protocol}; this party speaks {PROTOCOL_VERSION}.")
        with self._lock:
            if self._thread is None:
                factory, name = client_factory(), collab.site_name
                self._thread = RoleThread(lambda: factory(name))
            return self._thread

    def _started(self) -> RoleThread:
        with self._lock:
            if self._thread is None:
                raise ProtocolError("A request came before the greeting.")
            return self._thread

    @staticmethod
    def _reply(ask: Callable[[], Future[bytes]], wait: float) -> Reply:
        """Wait for an answer; of an error only the type leaves this machine."""
        reply: Reply = {"state": REFUSED, "protocol": PROTOCOL_VERSION, "body": b"", "error": ""}
        try:
            if collab.caller != SERVER:
                raise ProtocolError("Another client called; only the server may.")
            asked = ask()
            if wait_for([asked], timeout=min(float(wait), 2 * POLL)).done:
                reply["body"] = asked.result()
                reply["state"] = DONE
            else:
                reply["state"] = WORKING
        except Exception as error:
            logger.error("the server's call was refused: %s", told(error))
            reply["error"] = error_name(error)
        return reply


class FlareChannel(CodecChannel):
    """Asks the clients of a FLARE job, all at once. After a failure, those who are still there can be asked on."""

    def __init__(self, proxies: Mapping[str, Any], patience: Patience) -> None:
        super().__init__()
        self._proxies = dict(proxies)
        self._patience = patience
        # Within `silence` there is time for a second call: a single lost one must not end a job.
        self._poll = min(POLL, patience.silence / 4)
        self._timeout = self._poll + min(TRANSFER, patience.silence / 4)
        self._numbers = dict.fromkeys(self._proxies, 0)
        self._gone: dict[str, PeerLost] = {}
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(max(1, len(self._proxies)), thread_name_prefix="fedsdg-ask")

    def greet(self) -> None:
        """Wait until every client is ready; refuse one that speaks another protocol."""
        self._all({client: self._greeting for client in self._proxies}, self._patience.start)

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Let all clients answer at the same time."""
        for client in requests:
            if client not in self._proxies:
                raise ConfigError(f"there is no client {client!r}; this job has {', '.join(self._proxies)}")
        return self._all(
            {client: self._question(client, blob) for client, blob in requests.items()}, self._patience.answer
        )

    def close(self) -> None:
        """Let go of calls that are under way."""
        self._over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _all(self, asks: Mapping[str, Call], limit: float) -> dict[str, bytes]:
        given_up = threading.Event()
        futures = {
            client: self._pool.submit(self._until_done, client, ask, limit, given_up) for client, ask in asks.items()
        }
        done, _ = wait_for(futures.values(), return_when=FIRST_EXCEPTION)
        errors = {client: future.exception() for client, future in futures.items() if future in done}
        error = next((error for error in errors.values() if error is not None), None)
        if error is None:
            return {client: future.result() for client, future in futures.items()}
        given_up.set()  # the others need not be waited for
        if isinstance(error, RunAborted):
            late = ", ".join(client for client in futures if errors.get(client, error) is not None)
            raise PeerLost(
                f"FLARE stopped the job: somebody asked for it, or one of {late} has ended; go on with --kind resume"
            ) from None
        raise error

    def _greeting(self, proxy: Any, asked: bool) -> Any:
        return proxy.greet(protocol=PROTOCOL_VERSION, wait=self._poll)

    def _question(self, client: str, blob: bytes) -> Call:
        self._numbers[client] += 1
        number = self._numbers[client]

        def call(proxy: Any, asked: bool) -> Any:
            if asked:
                return proxy.collect(number=number, wait=self._poll)
            return proxy.answer(number=number, blob=blob, wait=self._poll)

        return call

    def _until_done(self, client: str, call: Call, limit: float, given_up: threading.Event) -> bytes:
        """Call until the answer is there. After a failed call the whole request is sent again: it may be lost."""
        started = heard = time.monotonic()
        asked = missing = False
        while client not in self._gone and not given_up.is_set() and not self._over.is_set():
            try:
                reply = call(self._proxies[client](timeout=self._timeout), asked)
            except CollabCallError:
                self._missed(client, heard, first=not missing)
                missing = True
                given_up.wait(min(1.0, self._poll))
                asked = False
                continue
            heard = time.monotonic()
            if missing:
                missing = False
                logger.warning("client %r is back: the run goes on", client)
            state = self._state(client, reply)
            if state == DONE:
                return bytes(reply["body"])
            if state == REFUSED:
                raise PeerError(f"client {client!r} refused: {reply['error']}; its own log says why")
            if heard - started > limit:
                raise PeerError(f"client {client!r} has worked for more than {limit:g} seconds on one answer")
            asked = True
        raise self._gone.get(client) or PeerError("another client failed")

    def _missed(self, client: str, heard: float, first: bool) -> None:
        """Say that a client cannot be reached, and give it up when that has lasted too long."""
        silence = self._patience.silence
        if first:
            logger.warning("client %r cannot be reached: the run waits for it, for up to %g seconds", client, silence)
        if time.monotonic() - heard > silence:
            self._gone[client] = PeerLost(
                f"client {client!r} has given no sign of life for {silence:g} seconds; look at its log, start its site "
                "again, and go on with --kind resume"
            )

    @staticmethod
    def _state(client: str, reply: Any) -> str:
        """Check what came back: it was made by another party."""
        if not (
            isinstance(reply, dict)
            and reply.get("state") in (DONE, WORKING, REFUSED)
            and isinstance(reply.get("body"), bytes)
            and isinstance(reply.get("error"), str)
            and len(reply["error"]) < 100
            and isinstance(reply.get("protocol"), int)
        ):
            raise PeerError(f"client {client!r} sent something that is no reply of this protocol")
        if reply["protocol"] != PROTOCOL_VERSION:
            raise PeerError(
                f"client {client!r} speaks protocol {reply['protocol']}; this server speaks {PROTOCOL_VERSION}. "
                "Upgrade one of the two."
            )
        return str(reply["state"])


class FlareServer:
    """Runs this machine's driver with the clients of the job; its result becomes a file of the job."""

    @collab.main
    def main(self) -> None:
        """Greet the clients, drive the job, keep its result."""
        logging.getLogger("nvflare.collab").setLevel(logging.WARNING)  # it has two lines to say about every call
        job_id = collab.fl_ctx.get_job_id()
        folder = Path(collab.workspace.get_run_dir(job_id))
        with failure_kept(folder):
            settings, patience = _brought_along(Path(collab.workspace.get_app_config_dir(job_id)))
            driver = server_driver()
            proxies = {proxy.name: proxy for proxy in sorted(collab.clients, key=lambda proxy: str(proxy.name))}
            channel = FlareChannel(proxies, patience)
            try:
                channel.greet()
                result = driver(channel, JobContext(job_id, tuple(proxies), settings, folder))
            finally:
                channel.close()
            write_atomically(folder / RESULT_FILE, result)


def _brought_along(folder: Path) -> tuple[dict[str, Any], Patience]:
    try:
        brought = json.loads((folder / SETTINGS_FILE).read_text())
        return dict(brought["settings"]), Patience(**brought["patience"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise ConfigError(f"the job has no usable {SETTINGS_FILE}; write its folder with fedsdg") from None

"""Flower's SuperLink and SuperNode, with two doors closed that Flower 1.41 leaves open.

A SuperLink lets whoever reaches its port start runs: nodes and users share it, and only nodes are known by keys. Here
other machines reach the part for nodes; runs are started on the label owner's own machine. A SuperNode runs whatever
code an app brings. Here an app must bring none and name the two objects of this installed package. And a client that
died without a goodbye is let in again at once, by its key; Flower would keep it out for a minute.

::

    python -m fedsdg.runtime.flower_guard superlink | supernode ARGUMENTS     (those of Flower's own commands)
"""

from __future__ import annotations

import io
import ipaddress
import logging
import sys
import tomllib
import zipfile
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any

from fedsdg.errors import ConfigError

logger = logging.getLogger("fedsdg.runtime")

#: What an app names: the server's and the client's end of `fedsdg.runtime.flower`.
COMPONENTS = {
    "serverapp": "fedsdg.runtime.flower:server_app",
    "clientapp": "fedsdg.runtime.flower:client_app",
}
#: Paths that other machines may ask for: nodes prove their keys there.
OPEN = ("/v1/fleet/", "/health")
_FILES = [".info/CONTENT", "pyproject.toml"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class OnlyNodesFromOutside:
    """A layer around a SuperLink: another machine's request for anything but a node's business is refused."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] == "lifespan" or str(scope["path"]).startswith(OPEN) or _from_here(scope):
            await self._app(scope, receive, send)
            return
        logger.error("a request from another machine was refused: runs are started on this machine only")
        if scope["type"] == "http":
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": b"runs are started on the label owner's machine only"})
        else:
            await send({"type": "websocket.close", "code": 1008})


def _from_here(scope: Scope) -> bool:
    """Whether a request comes from this machine: over loopback, or from the address that it asks."""
    asking, asked = ((scope.get(end) or ("",))[0] for end in ("client", "server"))
    try:
        address = ipaddress.ip_address(asking)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or asking == asked


def brought(app: bytes) -> str | None:
    """Return what an app brings that it must not, or None if it brings nothing and names our two objects."""
    try:
        with zipfile.ZipFile(io.BytesIO(app)) as files:
            if sorted(files.namelist()) != _FILES:
                return "it brings files besides its settings"
            content = tomllib.loads(files.read("pyproject.toml").decode())
        if content["project"].get("dependencies"):
            return "it asks for packages"
        named = content["tool"]["flwr"]["app"]["components"]
    except (zipfile.BadZipFile, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        return "it cannot be read"
    return None if named == COMPONENTS else "it names other objects than those of this package"


def _guard_superlink() -> Callable[[], None]:
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.middleware import Middleware

    before, activate = extensions.get_middleware, fleet_handlers.activate_node

    def newest_process_counts(request: Any, state: Any) -> Any:
        node = state.get_node_id_by_public_key(request.public_key)
        if node is not None:
            state.deactivate_node(node)  # the request is signed with the node's key
        return activate(request=request, state=state)

    extensions.get_middleware = lambda: (Middleware(OnlyNodesFromOutside), *before())
    fleet_handlers.activate_node = newest_process_counts
    started: Callable[[], None] = flower_superlink
    return started


def _guard_supernode() -> Callable[[], None]:
    """Let Flower's own check of signed apps ask us instead: it knows how to refuse, and tells the server."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    node: Any = start_client_internal
    pull, _ = node._pull_and_store_message, node._verify_fab  # another version of Flower may have neither

    def asking_us(**given: Any) -> Any:
        def fetch(*which: Any) -> Any:
            app = get_app(*which)
            return replace(app, verifications={"valid_license": "not needed"})

        get_app = given["get_fab"]
        return pull(**{**given, "get_fab": fetch, "trusted_entities": {"fedsdg": "no signature is asked for"}})

    def harmless(app: Any, _: Any) -> bool:
        found = brought(app.content)
        if found is not None:
            logger.error("refused an app: %s; nothing of it was run", found)
        return found is None

    node._pull_and_store_message, node._verify_fab = asking_us, harmless
    started: Callable[[], None] = flower_supernode
    return started


def main() -> None:
    """Start one of Flower's two commands, guarded."""
    guards = {"superlink": _guard_superlink, "supernode": _guard_supernode}
    if len(sys.argv) < 2 or sys.argv[1] not in guards:
        raise SystemExit("superlink or supernode, and the arguments of Flower's own command")
    try:
        start = guards[sys.argv[1]]()
    except (ImportError, AttributeError):
        raise SystemExit(str(ConfigError("this version of Flower cannot be guarded; install fedsdg[flower]"))) from None
    sys.argv = [f"flower-{sys.argv[1]}", *sys.argv[2:]]
    start()


if __name__ == "__main__":
    main()

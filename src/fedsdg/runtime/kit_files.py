"""The files of a kit, as the organisation reads them that was given the kit: checked before anything is done with them.

A kit comes from the label owner by whatever way files travel. What stands in it becomes a path, an address and part of
a command here, so a file that was cut off, edited or swapped is refused in words.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsdg.errors import ConfigError
from fedsdg.job import check_client_names

AGAIN = "ask the label owner for the kit again"
LONGEST_HOST = 253


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file of a kit holds."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror or problem}; {AGAIN}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is damaged: it is no JSON; {AGAIN}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is damaged: it holds no object; {AGAIN}")
    return found


def checked_kit(path: Path, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Return the file of a Flower kit; it must be of one of these kinds and say what that kind needs."""
    if not path.exists():
        raise ConfigError(f"{path.parent} is no kit for Flower; `fedsdg deploy flower` makes them")
    found = read_object(path)
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise ConfigError(f"{path}: kind: one of {', '.join(FIELDS)} is wanted; {AGAIN}")
    if kind not in kinds:
        raise ConfigError(f"{path.parent} is the kit of a {kind}; this is for a {' or '.join(kinds)}")
    for name, complaint in FIELDS[kind].items():
        reason = complaint(found[name]) if name in found else "it is missing"
        if reason:
            raise ConfigError(f"{path}: {name}: {reason}; {AGAIN}")
    return found


def _no_client(value: Any) -> str:
    if not isinstance(value, str):
        return "a client's name is a text"
    try:
        check_client_names([value], "it")
    except ConfigError:
        return "it cannot be a client's name"
    return ""


def _no_port(value: Any) -> str:
    return "" if type(value) is int and 0 < value < 65536 else "a whole number from 1 to 65535 is wanted"


def _no_host(value: Any) -> str:
    if isinstance(value, str) and (_is_name(value) or _is_address(value.removeprefix("[").removesuffix("]"))):
        return ""
    return "the name or address of a host is wanted"


def _is_name(value: str) -> bool:
    word = "[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?"
    return len(value) <= LONGEST_HOST and re.fullmatch(rf"{word}(\.{word})*\.?", value) is not None


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _no_address(value: Any) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    fits = port.isascii() and port.isdigit() and len(port) <= 5 and not _no_port(int(port)) and not _no_host(host)
    return "" if fits else "host:port is wanted"


Complaint = Callable[[Any], str]
#: What each kind of kit must say, and what is wrong with a value (nothing: it fits).
FIELDS: Mapping[str, Mapping[str, Complaint]] = {
    "superlink": {"host": _no_host, "port": _no_port},
    "simulation": {"host": _no_host, "port": _no_port},
    "supernode": {"name": _no_client, "superlink": _no_address, "port": _no_port},
}

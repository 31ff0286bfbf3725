"""What `fedsdg doctor --party FILE --kit KIT` finds before a site takes part in anything."""

from __future__ import annotations

import os
import shlex
import socket
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

from fedsdg.data.sources import read_labels, read_party
from fedsdg.deployment import check_engine
from fedsdg.diagnosis import Finding
from fedsdg.errors import FedSDGError
from fedsdg.messages.base import PROTOCOL_VERSION
from fedsdg.party import Party, load_party
from fedsdg.runtime.kit_files import FIELDS, checked_kit, read_object

#: The package of each engine.
ENGINES = {"flare": "nvflare", "flower": "flwr"}
#: A certificate that ends sooner is worth a remark.
SOON = timedelta(days=30)


def examine_site(party_file: Path | None, kit: Path | None) -> list[Finding]:
    """Look at a party's file and at its kit; nothing is sent and nothing is changed."""
    findings = [_engines()]
    if party_file is not None:
        findings += _party(party_file)
    if kit is not None:
        findings += _kit(kit)
    return findings


def _engines() -> Finding:
    found = [f"protocol {PROTOCOL_VERSION}"]
    for package in ENGINES.values():
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return Finding("engines", "ok", ", ".join(found))


def _party(path: Path) -> list[Finding]:
    try:
        party = load_party(path)
    except FedSDGError as problem:
        return [Finding("party", "broken", str(problem))]
    findings = [
        Finding("party", "ok", f"{party.name}; its folder is {party.folder}"),
        _folder(party.folder),
        _rows(party),
    ]
    policy = party.policy
    jobs = "any job" if policy.jobs == "any" else f"{len(policy.jobs)} approved jobs"
    text = (
        f"{', '.join(policy.kinds)}; {jobs}; keys of {policy.minimum_key_bits} bits, sigma {policy.minimum_sigma}, at "
        f"most {policy.maximum_queries_per_row:,} queries per row"
    )
    return [*findings, Finding("policy", "ok", text)]


def _folder(folder: Path) -> Finding:
    try:
        above = next(place for place in (folder, *folder.parents) if place.exists())
    except OSError as problem:  # a name that no system takes
        return Finding("folder", "broken", f"cannot be made: {problem.strerror}")
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return Finding("folder", "broken", f"{above} cannot be written")
    return Finding("folder", "ok", "can be written")


def _rows(party: Party) -> Finding:
    try:
        if party.labels is not None:
            labels, own = read_labels(party.labels, party.name)
            columns = f", {own.table.n_columns} columns of its own" if own is not None else ""
            return Finding("rows", "ok", f"{len(labels.labels):,} labels{columns}")
        assert party.rows is not None
        found = read_party(party.rows, party.name)
    except FedSDGError as problem:
        return Finding("rows", "broken", str(problem))
    return Finding("rows", "ok", f"{found.table.n_rows:,} rows, {found.table.n_columns} columns")


def _kit(kit: Path) -> list[Finding]:
    if (kit / "flower.json").is_file():
        return [_engine("flower"), *_flower_kit(kit)]
    startup = kit / "startup"
    for name, role in (("fed_server.json", "server"), ("fed_client.json", "client")):
        if (startup / name).is_file():
            return [_engine("flare"), _certificate(startup / f"{role}.crt"), _port(startup / name, role)]
    return [Finding("kit", "broken", f"{kit} is no kit of a site")]


def _engine(engine: str) -> Finding:
    """Whether the engine that a kit is for can be used here: without it the kit's site cannot start."""
    try:
        check_engine(engine)
    except FedSDGError as problem:
        return Finding("engine", "broken", f"this kit's site cannot start: {problem}")
    return Finding("engine", "ok", f"{ENGINES[engine]}, which this kit is for, can be used")


def _flower_kit(kit: Path) -> list[Finding]:
    try:
        found = checked_kit(kit / "flower.json", tuple(FIELDS))
    except FedSDGError as problem:
        return [Finding("kit", "broken", str(problem))]
    kind = found["kind"]
    address = found["superlink"] if kind == "supernode" else f"{found['host']}:{found['port']}"
    role = "client" if kind == "supernode" else "server"
    ports = [_reached(address, role), _stream(str(found.get("stream") or ""), role)]
    if kind == "simulation":
        return ports
    if kind == "superlink":
        return [_certificate(kit / "certificates" / "server.pem"), *ports]
    made = (kit / found["name"]).is_file()
    advice = f"make it: fedsdg site key {shlex.quote(str(kit))}"
    key = Finding("key", "ok" if made else "broken", "made here" if made else advice)
    return [key, _certificate(kit / "ca.pem"), *ports]


def _stream(address: str, role: str) -> Finding:
    """The port of the messages' own stream, which Flower knows nothing of: it is open while a job runs."""
    if not address:
        return Finding("stream port", "note", "this kit does not name it (it is of an earlier version); the app does")
    return _reached(address, role, "stream port", "cannot be reached: it is open only while a job runs")


def _certificate(path: Path) -> Finding:
    try:
        from cryptography import x509

        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError, ImportError) as problem:
        return Finding("certificate", "broken", f"{path.name} cannot be read: {type(problem).__name__}")
    now, start, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        return Finding("clock", "broken", f"the certificate is valid from {start:%Y-%m-%d %H:%M} UTC on: set the clock")
    if now > end:
        return Finding("certificate", "broken", f"it ended on {end:%Y-%m-%d}; ask for a new kit")
    return Finding(
        "certificate", "ok" if end - now > SOON else "note", f"valid until {end:%Y-%m-%d}; the clock fits it"
    )


def _port(config: Path, role: str) -> Finding:
    try:
        address = str(read_object(config)["servers"][0]["service"]["target"])
    except FedSDGError as problem:
        return Finding("kit", "broken", str(problem))
    except (KeyError, IndexError, TypeError):
        return Finding("port", "note", f"{config.name} names no address")
    return _reached(address, role)


def _reached(address: str, role: str, subject: str = "port", unreachable: str = "cannot be reached (yet)") -> Finding:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        return Finding(subject, "note", f"{address[:80]} names no port")
    number = int(port)
    try:
        if role == "server":
            with socket.socket() as listener:
                listener.bind(("", number))
            return Finding(subject, "ok", f"{number} is free here")
        with socket.create_connection((host, number), timeout=5):
            return Finding(subject, "ok", f"{host}:{number} can be reached")
    except (OSError, OverflowError, UnicodeError) as problem:  # the last two: no such port or host can be
        what = "is taken or not allowed" if role == "server" else unreachable
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        return Finding(subject, "note", f"{address} {what}: {reason}")

"""Fetch a public file: with a time limit, a checksum, and a cache that is only ever written whole.

A file is written under another name first and renamed when it is complete and its digest fits, so a broken download or
two processes at once never leave a half file behind.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from fedsdg.errors import DataError

TIMEOUT_SECONDS = 60.0
LARGEST_DOWNLOAD = 512 * 1024 * 1024
LARGEST_DESCRIPTION = 1024 * 1024
CHUNK = 1 << 20
CACHE_VARIABLE = "FEDSDG_CACHE"
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")

Algorithm = Literal["sha256", "md5"]
"""How a home states the digest of a file; md5 finds damage, it does not say who made the file."""


def cache_folder() -> Path:
    """Return where downloads are kept: FEDSDG_CACHE, or fedsdg in the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsdg" / "datasets"


def fetch(
    url: str, name: str, digest: str | None = None, algorithm: Algorithm = "sha256", *, timeout: float = TIMEOUT_SECONDS
) -> Path:
    """Return the cached file ``name``, downloaded if it is not there yet; a wrong digest is refused.

    Plain http is refused: without a digest of the file nothing else would say who answered.
    """
    target = cache_folder() / name
    if target.is_file():
        if digest is None or _file_digest(target, algorithm) == digest:
            return target
        target.unlink()  # damaged, or of an older version: fetch it again
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as problem:
        raise DataError(
            f"downloads cannot be kept in {target.parent} ({problem.strerror}); set {CACHE_VARIABLE} to a folder that "
            "can be written"
        ) from None
    try:
        with os.fdopen(handle, "wb") as out:
            _copy(url, out, LARGEST_DOWNLOAD, timeout)
        if digest is not None:
            found = _file_digest(Path(partial), algorithm)
            if found != digest:
                raise DataError(
                    f"{url}: its {algorithm} is {found}, and {digest} was expected; the file was changed or damaged on "
                    "the way"
                )
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def fetch_description(url: str, *, timeout: float = TIMEOUT_SECONDS) -> bytes:
    """Return a short answer without keeping it: what describes a file may change, and must be asked for again."""
    out = io.BytesIO()
    _copy(url, out, LARGEST_DESCRIPTION, timeout)
    return out.getvalue()


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    return _file_digest(path, "sha256")


def _file_digest(path: Path, algorithm: Algorithm) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _require_safe(url: str) -> None:
    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in THIS_MACHINE)
    except ValueError:
        raise DataError(f"{url!r} is no address") from None
    if not safe:
        raise DataError(f"{url}: only https is used for downloads")


class _SafeRedirects(HTTPRedirectHandler):
    """Follows a redirect only where a download may begin: a server must not send us on to plain http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        _require_safe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _copy(url: str, out: IO[bytes], largest: int, timeout: float) -> None:
    """Copy the answer to a file."""
    _require_safe(url)
    size = 0
    request = Request(url, headers={"User-Agent": "fedsdg"})  # noqa: S310 - the scheme was checked above
    try:
        with build_opener(_SafeRedirects).open(request, timeout=timeout) as answer:
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > largest:
                    raise DataError(f"{url}: more than {largest >> 20} MB were sent; this is not the data set")
                out.write(chunk)
    except HTTPError as problem:
        problem.close()
        raise DataError(f"{url} cannot be fetched: {problem.code} {problem.reason}") from None
    except (OSError, HTTPException) as problem:  # URLError and time-outs are OSErrors
        raise DataError(f"{url} cannot be fetched: {getattr(problem, 'reason', problem)}") from None

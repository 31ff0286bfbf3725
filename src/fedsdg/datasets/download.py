"""Fetch a public file: with a time limit, a checksum, and a cache that is only ever written whole.

A file is written under another name first and renamed when it is complete and its digest fits, so a broken download or
two processes at once never leave a half file behind.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from fedsdg.errors import DataError

TIMEOUT_SECONDS = 60.0
LARGEST_DOWNLOAD = 512 * 1024 * 1024
CHUNK = 1 << 20
CACHE_VARIABLE = "FEDSDG_CACHE"


def cache_folder() -> Path:
    """Return where downloads are kept: FEDSDG_CACHE, or fedsdg in the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsdg" / "datasets"


_fetched: dict[str, Path] = {}
"""Where the answers of this process's addresses lie."""


def forget(url: str) -> None:
    """Remove what an address gave: it was something else than its name says, and must not stay in the cache."""
    if url in _fetched:
        _fetched.pop(url).unlink(missing_ok=True)


def fetch(url: str, name: str, sha256: str | None = None, *, timeout: float = TIMEOUT_SECONDS) -> Path:
    """Return the cached file ``name``, downloaded if it is not there yet; a wrong digest is refused.

    Plain http is refused: without a digest of the file nothing else would say who answered.
    """
    target = _fetched[url] = cache_folder() / name
    if target.is_file():
        if sha256 is None or file_sha256(target) == sha256:
            return target
        target.unlink()  # damaged, or of an older version: fetch it again
    scheme = urlsplit(url).scheme
    if scheme not in ("https", "file") and not _on_this_machine(url):
        raise DataError(f"{url}: only https is used for downloads")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            found = _copy(url, out.fileno(), timeout)
        if sha256 is not None and found != sha256:
            raise DataError(
                f"{url}: its sha256 is {found}, and {sha256} was expected; the file was changed or damaged on the way"
            )
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def file_sha256(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _on_this_machine(url: str) -> bool:
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _copy(url: str, descriptor: int, timeout: float) -> str:
    """Copy the answer to a file and return its digest."""
    digest, size = hashlib.sha256(), 0
    request = Request(url, headers={"User-Agent": "fedsdg"})  # noqa: S310 - the scheme was checked by the caller
    try:
        with urlopen(request, timeout=timeout) as answer:  # noqa: S310
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > LARGEST_DOWNLOAD:
                    raise DataError(f"{url}: more than {LARGEST_DOWNLOAD >> 20} MB were sent; this is not the data set")
                digest.update(chunk)
                os.write(descriptor, chunk)
    except HTTPError as problem:
        problem.close()
        raise DataError(f"{url} cannot be fetched: {problem.code} {problem.reason}") from None
    except OSError as problem:  # URLError and time-outs are such
        raise DataError(f"{url} cannot be fetched: {getattr(problem, 'reason', problem)}") from None
    return digest.hexdigest()

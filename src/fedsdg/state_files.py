"""A party's state on disk: arrays and plain facts in one file that is either there, whole, or not there.

::

    file      "FSST" version(1) sha256(32) safetensors      facts (JSON) travel in the safetensors header

A file is written beside its place, flushed to the disk and renamed, so a power cut leaves the old file or the new one.
The digest tells a damaged file from a whole one. Data only: nothing in it can be executed. Private keys never get here:
what holds one refuses to be serialised (`crypto.never_serialised`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedsdg.errors import StateFileError

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]

MAGIC = b"FSST\x01"
DIGEST = 32
OWNER_ONLY = 0o600
OWNER_FOLDER = 0o700
#: Enough for every share and noisy weight: sigma (at most 128) bits above a weight, and a sign.
WIDE_BYTES = 32


@contextmanager
def damaged_if_unreadable(path: Path) -> Iterator[None]:
    """Say that a file is damaged when what it holds is not what was written: fields missing, or of another type."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise StateFileError(f"{path} is damaged: a part is missing or wrong ({type(problem).__name__}).") from None


def write_atomically(path: Path, blob: bytes) -> None:
    """Write a file that only its owner can read; under its name there is never half a file."""
    beside = path.with_name(f".{path.name}.writing")
    try:
        with suppress(FileNotFoundError):
            beside.unlink()
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name is on the disk, too
        finally:
            os.close(folder)
    except OSError as problem:
        with suppress(OSError):
            beside.unlink()
        raise StateFileError(
            f"Cannot write {path}: {problem.strerror or problem}. Nothing that was written before is lost."
        ) from None


def save_state(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays and facts (whatever JSON can say)."""
    tensors = {name: np.array(value, order="C") for name, value in arrays.items()}
    tensors.setdefault("", np.zeros(0, np.uint8))  # safetensors wants at least one
    body = save(tensors, {"facts": json.dumps(facts, allow_nan=False)})
    write_atomically(path, MAGIC + hashlib.sha256(body).digest() + body)


def load_state(path: Path) -> tuple[Arrays, Facts]:
    """Read what `save_state` wrote, or say that it is missing or damaged."""
    try:
        blob = path.read_bytes()
    except OSError as problem:
        raise StateFileError(f"Cannot read {path}: {problem.strerror or problem}.") from None
    start = len(MAGIC) + DIGEST
    body = blob[start:]
    if blob[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != blob[len(MAGIC) : start]:
        raise StateFileError(f"{path} is damaged: its contents do not match its checksum.")
    try:
        length = int.from_bytes(body[:8], "little")
        facts = json.loads(json.loads(body[8 : 8 + length])["__metadata__"]["facts"])
        arrays = load(body)
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise StateFileError(f"{path} is no state file of this version.") from None
    arrays.pop("", None)
    return arrays, facts


class FolderLock:
    """Lets one process at a time work in a folder. The system opens it when the process ends, however it ends."""

    NAME = ".lock"

    def __init__(self, folder: Path) -> None:
        """Take the lock at once, or say who has it."""
        try:
            self._file = os.fdopen(os.open(folder / self.NAME, os.O_RDWR | os.O_CREAT, OWNER_ONLY), "r+b", buffering=0)
        except OSError as problem:
            raise StateFileError(f"Cannot write to {folder}: {problem.strerror or problem}.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = self._file.read(20).decode("ascii", "replace").strip()
            self._file.close()
            raise StateFileError(
                f"Process {owner} is working in {folder}: wait until it ends, or stop it first."
            ) from None
        self._file.truncate(0)
        self._file.write(b"%d\n" % os.getpid())

    def release(self) -> None:
        """Let others in; releasing twice does no harm."""
        self._file.close()


class Checkpoints:
    """The numbered checkpoints of one party, in one folder; the last two are kept.

    Two, because a crash may come when some parties have written the newest one and others have not.
    """

    KEPT = 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, number: int, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Write checkpoint `number` and forget those that nobody can need any more."""
        self._make_folder()
        save_state(self._path(number), arrays, facts)
        for older in [n for n in self._written() if n <= number][: -self.KEPT]:
            with suppress(OSError):
                self._path(older).unlink()

    def forget_after(self, number: int) -> None:
        """Remove all later checkpoints, before a run goes on from this one (-1: before it starts again).

        It will write others under the same numbers, with other shares: an old one at one party must never meet a new
        one at another.
        """
        for later in self._written():
            if later > number:
                try:
                    self._path(later).unlink(missing_ok=True)
                except OSError as problem:
                    raise StateFileError(f"Cannot remove {self._path(later)}: {problem.strerror or problem}.") from None

    def numbers(self) -> tuple[int, ...]:
        """Return the checkpoints that are whole, oldest first."""
        whole = []
        for number in self._written():
            with suppress(StateFileError):
                self.load(number)
                whole.append(number)
        return tuple(whole)

    def note_session(self) -> int:
        """Count a session of this run and return its number: going back to a checkpoint does not set it back."""
        self._make_folder()
        path = self.folder / "sessions"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY), "ab") as file:
                file.write(b".")  # a byte each: nothing that could be half written
                file.flush()
                os.fsync(file.fileno())
                return file.tell()
        except OSError as problem:
            raise StateFileError(f"Cannot write {path}: {problem.strerror or problem}.") from None

    def numbers_of_run(self, run_id: bytes) -> tuple[int, ...]:
        """Return a client's whole checkpoints of one run; a folder that holds another run's only is a mistake."""
        whole = self.numbers()
        found = tuple(number for number in whole if self.load(number)[1].get("run_id") == run_id.hex())
        if whole and not found:
            raise StateFileError(
                f"{self.folder} holds checkpoints of another run. Put those of this run back, or remove the folder: "
                "the run then starts again."
            )
        return found

    def damaged(self) -> tuple[int, ...]:
        """Return the checkpoints that are there and cannot be read."""
        return tuple(sorted(set(self._written()) - set(self.numbers())))

    def forget(self) -> None:
        """Remove all checkpoints: the run is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, number: int) -> tuple[Arrays, Facts]:
        """Read one checkpoint."""
        return load_state(self._path(number))

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        except OSError as problem:
            raise StateFileError(f"Cannot write to {self.folder}: {problem.strerror or problem}.") from None

    def _path(self, number: int) -> Path:
        return self.folder / f"checkpoint-{number:06d}.state"

    def _written(self) -> list[int]:
        found = (re.fullmatch(r"checkpoint-(\d{6,})\.state", path.name) for path in self.folder.glob("checkpoint-*"))
        return sorted(int(match[1]) for match in found if match)


def with_prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return arrays under longer names."""
    return {f"{prefix}{name}": value for name, value in arrays.items()}


def under_prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays whose names begin with this, without it."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def wide_to_array(values: NDArray[np.object_]) -> NDArray[np.uint8]:
    """Return big integers as bytes, one row of `WIDE_BYTES` each."""
    raw = b"".join(int(v).to_bytes(WIDE_BYTES, "little", signed=True) for v in values.ravel())
    return np.frombuffer(raw, np.uint8).reshape(*values.shape, WIDE_BYTES).copy()


def wide_from_array(array: NDArray[Any]) -> NDArray[np.object_]:
    """Return what `wide_to_array` was given."""
    flat = np.ascontiguousarray(array, np.uint8).reshape(-1, WIDE_BYTES)
    values = [int.from_bytes(row.tobytes(), "little", signed=True) for row in flat]
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(array.shape[:-1])

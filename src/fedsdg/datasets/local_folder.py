"""Data sets in a folder of the user's own: ``FEDSDG_DATA`` names it, ``NAME.npz`` files lie in it.

A file holds ``X`` and ``y``; other arrays (``relevant``, ``is_real``) are read by whoever knows the data set. If the
folder has a ``SHA256SUMS``, a file must agree with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.datasets.download import file_sha256
from fedsdg.errors import ConfigError, DataError

FOLDER_VARIABLE = "FEDSDG_DATA"
Arrays = Mapping[str, NDArray[np.generic]]
REAL_NUMBERS = "biuf"
"""NumPy's kinds of types: truth values, integers, floating point."""
LARGEST = float(np.finfo(np.float32).max)


def data_folder() -> Path | None:
    """Return the folder that FEDSDG_DATA names, or None; a folder that does not exist is an error."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        raise ConfigError(f"{FOLDER_VARIABLE} names {named}, and there is no such folder")
    return folder


def find(name: str) -> Path | None:
    """Return the file of a data set in the user's folder, or None."""
    folder = data_folder()
    path = folder / f"{name}.npz" if folder is not None else None
    return path if path is not None and path.is_file() else None


def read(path: Path) -> Arrays:
    """Read the arrays of one file, after checking it against SHA256SUMS."""
    _require_listed_sha256(path)
    arrays = _unpacked(path)
    if "X" not in arrays or "y" not in arrays:
        raise DataError(f"{path}: a data set needs the arrays X and y; there are {', '.join(arrays) or 'none'}")
    for name in ("X", "y"):
        _require_numbers(arrays[name], f"{path}: {name}")
    rows, labels = arrays["X"].shape, arrays["y"].shape
    if len(rows) != 2 or labels != rows[:1]:
        raise DataError(f"{path}: features of shape {rows} and labels of shape {labels} do not fit together")
    return arrays


def _unpacked(path: Path) -> Arrays:
    """Return what lies in an archive; in a damaged one, NumPy, zip and zlib stumble in a dozen ways."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:  # NumPy would leave it open
            return {name: archive[name] for name in archive.files}
    except MemoryError:
        raise DataError(f"{path}: its arrays claim more memory than there is; copy the file again") from None
    except Exception:
        raise DataError(f"{path}: not an intact NumPy archive of plain arrays; copy the file again") from None


def _require_numbers(array: NDArray[np.generic], what: str) -> None:
    """Refuse what is no table of real numbers: digests and training are over 32-bit floating point."""
    if array.dtype.kind not in REAL_NUMBERS:
        raise DataError(f"{what} holds {array.dtype.name}, not real numbers; copy the file again, or make it again")
    largest = float(np.abs(array).max(initial=0)) if array.dtype.kind == "f" else 0.0
    if not largest <= LARGEST:  # NaN is not, either
        raise DataError(f"{what} holds numbers that are missing, infinite or above {LARGEST:.1e}; repair the file")


def _require_listed_sha256(path: Path) -> None:
    try:
        expected = _listed_sha256(path)
        if expected is not None and file_sha256(path) != expected:
            raise DataError(f"{path}: its sha256 does not agree with SHA256SUMS beside it; copy the file again")
    except OSError as problem:
        raise DataError(f"{problem.filename or path} cannot be read: {problem.strerror or problem}") from None


def _listed_sha256(path: Path) -> str | None:
    sums = path.with_name("SHA256SUMS")
    if not sums.is_file():
        return None
    try:
        text = sums.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{sums}: not text in UTF-8; copy the file again, or remove it") from None
    for line in text.splitlines():
        digest, _, name = line.strip().partition(" ")
        if name.strip().lstrip("*") == path.name:
            return digest.lower()
    return None

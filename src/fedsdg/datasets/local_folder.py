"""Data sets in a folder of the user's own: ``FEDSDG_DATA`` names it, ``NAME.npz`` files lie in it.

A file holds ``X`` and ``y``; other arrays (``relevant``, ``is_real``) are read by whoever knows the data set. If the
folder has a ``SHA256SUMS``, a file must agree with it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.datasets.download import file_sha256
from fedsdg.errors import ConfigError, DataError

FOLDER_VARIABLE = "FEDSDG_DATA"
Arrays = Mapping[str, NDArray[np.generic]]


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
    expected = _listed_sha256(path)
    if expected is not None and file_sha256(path) != expected:
        raise DataError(f"{path}: its sha256 does not agree with SHA256SUMS beside it; copy the file again")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise DataError(f"{path}: not an intact NumPy archive of plain arrays") from None
    if "X" not in arrays or "y" not in arrays:
        raise DataError(f"{path}: a data set needs the arrays X and y; there are {', '.join(arrays) or 'none'}")
    return arrays


def _listed_sha256(path: Path) -> str | None:
    sums = path.with_name("SHA256SUMS")
    if not sums.is_file():
        return None
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.strip().partition(" ")
        if name.strip().lstrip("*") == path.name:
            return digest.lower()
    return None

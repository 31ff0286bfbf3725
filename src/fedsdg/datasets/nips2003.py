"""The NIPS 2003 feature-selection challenge at UCI: zip archives of text files, one line of integers per row.

Labels are public for the training and the validation rows only, so these two together are the data set.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.datasets.download import fetch
from fedsdg.datasets.fetched import Fetched
from fedsdg.errors import DataError

HOME = "https://archive.ics.uci.edu/static/public"
NUMBERS = {"ARCENE": 167, "GISETTE": 170, "MADELON": 171}
PARTS = ("train.data", "valid.data", "train.labels", "valid.labels")

GISETTE_FILES = {
    "gisette_train.data": "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
    "gisette_train.labels": "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
    "gisette_valid.data": "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254",
    "gisette_valid.labels": "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5",
}
"""Digests of the genuine files, as two independent public projects record them (we could not fetch the files)."""

MADELON_RELEVANT = np.array(
    [28, 48, 64, 105, 128, 153, 241, 281, 318, 336, 338, 378, 433, 442, 451, 453, 455, 472, 475, 493]
)
"""The 20 columns of MADELON that are no probes, counted from 0: 5 informative ones and 15 mixtures of them.

Found without labels: each of them is explained by the other columns with R^2 of at least .98, every other column with
at most .22, and together they have exactly 5 principal directions.
"""


def address(name: str) -> str:
    """Return where the archive of a data set lies."""
    return f"{HOME}/{NUMBERS[name]}/{name.lower()}.zip"


def read(name: str) -> Fetched:
    """Fetch an archive: the training rows, then the validation rows."""
    url = address(name)
    path = fetch(url, f"uci-{NUMBERS[name]}-{name.lower()}.zip")
    try:
        parts = _members(path, name)
        features = np.vstack([parts["train.data"], parts["valid.data"]])
    except DataError as problem:
        path.unlink(missing_ok=True)
        raise DataError(f"{url}: {problem}") from None
    except ValueError:
        path.unlink(missing_ok=True)
        raise DataError(f"{url}: the training and the validation rows have different columns") from None
    labels = np.concatenate([parts["train.labels"].reshape(-1), parts["valid.labels"].reshape(-1)])
    return Fetched(features, labels, url, path)


def _members(path: Path, name: str) -> dict[str, NDArray[np.int16]]:
    digests = GISETTE_FILES if name == "GISETTE" else {}
    parts = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.rsplit("/", 1)[-1]: member for member in archive.namelist()}
            for part in PARTS:
                member = f"{name.lower()}_{part}"
                parts[part] = _numbers(archive.read(members[member]), member, digests.get(member))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, KeyError):  # damaged, encrypted, or without a part
        raise DataError(f"not an archive with the training and validation rows of {name}") from None
    return parts


def _numbers(content: bytes, member: str, sha256: str | None) -> NDArray[np.int16]:
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{member} does not have the expected sha256; the archive was changed or damaged")
    try:
        if not content.strip():
            raise ValueError
        return np.loadtxt(io.BytesIO(content), dtype=np.int16, ndmin=2)
    except (ValueError, OverflowError):
        raise DataError(f"{member} does not hold rows of whole numbers") from None

"""Every data set by name: ``load("MADELON")``.

==================  =====================================================================================
genuine             MADELON, ARCENE, BASEHOCK, RELATHE, PCMAC, GISETTE, COIL20, ISOLET: read from the folder
                    that ``FEDSDG_DATA`` names, else fetched from their public homes (Arizona State
                    University, UCI, OpenML); the content must have the digest recorded here
GISETTE_SURROGATE   a stand-in for GISETTE, read from ``FEDSDG_DATA`` only, and called a surrogate everywhere
generated           FRIEDMAN, MADELON_LIKE, FRIEDMAN_LIKE: the truth is known
built in            BREAST_CANCER, WINE, DIGITS, DIABETES: with scikit-learn, for a quick look
==================  =====================================================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.datasets import asu, builtin, generated, local_folder, nips2003, openml
from fedsdg.datasets.dataset import DataSet, content_sha256, make
from fedsdg.datasets.fetched import Fetched
from fedsdg.datasets.local_folder import FOLDER_VARIABLE
from fedsdg.errors import ConfigError, DataError

Source = Callable[[], Fetched]

CONTENT = {
    "MADELON": "eeee6d0a11dad52af8ad0116314646432a665bb4a04271b0546447e910104e0e",
    "ARCENE": "61dc91d4f1c036b07311c49f9dc62595c21831fafc5c88e3751f72e76ec6c249",
    "BASEHOCK": "b36830255770477098bb99f34570d8185914a61a6e699876f9defb586adbca5f",
    "RELATHE": "fda74b3f351d885439322a72fc4679a2c9939820e2202a8923c30989960b1d35",
    "PCMAC": "8cb4f0b3800e6bf5a040b6f66937db57449b3aff445d4930ed82f2a2f51a1851",
    "COIL20": "1ad32e757d3ac7acdd06bc7750aa75bc05af423688f8ad464458fc8e53ec31d9",
    "ISOLET": "3db0dc95a04fae482375a0a846958b0462b2fc2d4be1c2a164ba7b98d5888d55",
    "GISETTE_SURROGATE": "ed435ceeb49ba96582ce04b7bf956139436afa3747d71ae7f198417a29683b42",
}
"""Digests of features and labels (`dataset.content_sha256`), whatever file they come in. GISETTE's is not known."""

SURROGATE = "GISETTE_SURROGATE"
GISETTE_SHAPE = (7000, 5000)
"""Of GISETTE only the digests of its text files are known (`nips2003`), so a file of the user's own is checked less."""

SURROGATE_NOTE = (
    "Not GISETTE: built from MNIST's fours and nines after the published description of GISETTE. Its numbers must not "
    "be compared with numbers on GISETTE."
)


@dataclass(frozen=True)
class Entry:
    """One data set of the registry."""

    name: str
    kind: str
    """tabular, text, image, audio or generated."""
    description: str
    load: Callable[[], DataSet]
    genuine: bool = False
    """A real data set of the paper: counted in the headline table."""


def load(name: str) -> DataSet:
    """Load a data set by its name, whatever the case of its letters."""
    return entry(name).load()


def entry(name: str) -> Entry:
    """Return what the registry knows about a name."""
    found = ENTRIES.get(name.upper())
    if found is None:
        close = difflib.get_close_matches(name.upper(), list(ENTRIES), n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ConfigError(f"there is no data set {name!r}{meant}; there are {', '.join(ENTRIES)}")
    return found


def not_at_hand(name: str) -> bool:
    """Return whether this is a stand-in that lies in no folder of the user's; it has no public home."""
    return name == SURROGATE and local_folder.find(name) is None


def _genuine(
    name: str,
    sources: tuple[Source, ...],
    truth: NDArray[np.generic] | None = None,
    image_shape: tuple[int, int] | None = None,
) -> DataSet:
    """Read a genuine data set from the user's folder or from its first home that has the right content."""
    path = local_folder.find(name)
    if path is not None:
        arrays = local_folder.read(path)
        _require_content(name, arrays["X"], arrays["y"], str(path))
        return make(name, arrays["X"], arrays["y"], path.name, truth=truth, image_shape=image_shape)
    problems = []
    for source in sources:
        try:
            found = source()
        except DataError as problem:
            problems.append(str(problem))
            continue
        try:
            _require_content(name, found.features, found.labels, found.url)
        except DataError as problem:
            problems.append(str(problem))
            found.path.unlink(missing_ok=True)
            continue
        return make(name, found.features, found.labels, found.url, truth=truth, image_shape=image_shape)
    raise DataError(
        f"{name} cannot be had: {'; '.join(problems)}. Offline, set {FOLDER_VARIABLE} to a folder with {name}.npz"
    )


def _require_content(name: str, features: NDArray[np.generic], labels: NDArray[np.generic], where: str) -> None:
    found = content_sha256(features, labels)
    if found != CONTENT.get(name, found):
        raise DataError(f"{where}: this is not {name}: its features and labels have another sha256")
    if name == "GISETTE" and (features.shape != GISETTE_SHAPE or found == CONTENT["GISETTE_SURROGATE"]):
        raise DataError(f"{where}: this is not the genuine GISETTE; a surrogate must be called GISETTE_SURROGATE")


def _gisette_surrogate() -> DataSet:
    name = SURROGATE
    path = local_folder.find(name)
    if path is None:
        raise DataError(
            f"{name} is read from a folder only: set {FOLDER_VARIABLE} to one that holds {name}.npz. For the genuine "
            "data set load GISETTE"
        )
    arrays = local_folder.read(path)
    _require_content(name, arrays["X"], arrays["y"], str(path))
    real = np.flatnonzero(_real_columns(arrays, path)) if "is_real" in arrays else None
    return make(name, arrays["X"], arrays["y"], path.name, truth=real, surrogate=True, note=SURROGATE_NOTE)


def _real_columns(arrays: local_folder.Arrays, path: Path) -> NDArray[np.generic]:
    """Return which columns were measured; the digest of features and labels does not cover it."""
    real = arrays["is_real"]
    if real.dtype.kind not in "biu" or real.shape != arrays["X"].shape[1:]:
        raise DataError(f"{path}: is_real should hold a truth value for each column; copy the file again")
    return real


def _challenge(name: str) -> tuple[Source, ...]:
    return (partial(asu.read, name), partial(nips2003.read, name), partial(openml.read, name))


def _collection(name: str) -> tuple[Source, ...]:
    return (partial(asu.read, name),)


ENTRIES: dict[str, Entry] = {
    each.name: each
    for each in (
        Entry(
            "MADELON",
            "tabular",
            "NIPS 2003: 2,600 x 500, 20 columns matter",
            partial(_genuine, "MADELON", _challenge("MADELON"), nips2003.MADELON_RELEVANT),
            genuine=True,
        ),
        Entry(
            "ARCENE",
            "tabular",
            "NIPS 2003: mass spectra, 200 x 10,000",
            partial(_genuine, "ARCENE", _challenge("ARCENE")),
            genuine=True,
        ),
        Entry(
            "BASEHOCK",
            "text",
            "20 Newsgroups: 1,993 x 4,862",
            partial(_genuine, "BASEHOCK", _collection("BASEHOCK")),
            genuine=True,
        ),
        Entry(
            "RELATHE",
            "text",
            "20 Newsgroups: 1,427 x 4,322",
            partial(_genuine, "RELATHE", _collection("RELATHE")),
            genuine=True,
        ),
        Entry(
            "PCMAC",
            "text",
            "20 Newsgroups: 1,943 x 3,289",
            partial(_genuine, "PCMAC", _collection("PCMAC")),
            genuine=True,
        ),
        Entry(
            "GISETTE",
            "image",
            "NIPS 2003: fours and nines, 7,000 x 5,000",
            partial(_genuine, "GISETTE", (partial(nips2003.read, "GISETTE"),)),
            genuine=True,
        ),
        Entry(
            "COIL20",
            "image",
            "20 objects, 1,440 images of 32 x 32",
            partial(_genuine, "COIL20", _collection("COIL20"), image_shape=(32, 32)),
            genuine=True,
        ),
        Entry(
            "ISOLET",
            "audio",
            "spoken letters, 1,560 x 617, 26 classes",
            partial(_genuine, "ISOLET", _collection("ISOLET")),
            genuine=True,
        ),
        Entry("GISETTE_SURROGATE", "image", "a stand-in for GISETTE, 7,000 x 5,000", _gisette_surrogate),
        Entry("FRIEDMAN", "generated", "regression, 1,000 x 1,000, 5 columns matter", generated.friedman),
        Entry("MADELON_LIKE", "generated", "2,600 x 500, 20 columns matter", generated.madelon_like_set),
        Entry("FRIEDMAN_LIKE", "generated", "regression, 1,000 x 1,000", generated.friedman_like_set),
        Entry("BREAST_CANCER", "tabular", "569 x 30", builtin.breast_cancer),
        Entry("WINE", "tabular", "178 x 13, 3 classes", builtin.wine),
        Entry("DIGITS", "image", "1,797 images of 8 x 8, 10 classes", builtin.digits),
        Entry("DIABETES", "tabular", "442 x 10, a regression", builtin.diabetes),
    )
}

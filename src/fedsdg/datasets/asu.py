"""The feature-selection collection of Arizona State University (scikit-feature): MATLAB files with ``X`` and ``Y``.

The files are fetched at one commit of the collection's repository, so they cannot change.
"""

from __future__ import annotations

import numpy as np
from scipy import io as scipy_io  # type: ignore[import-untyped]
from scipy import sparse

from fedsdg.datasets.download import fetch
from fedsdg.datasets.fetched import Fetched
from fedsdg.errors import DataError

COMMIT = "48cffad4e88ff4b9d2f1c7baffb314d1b3303792"
HOME = "https://raw.githubusercontent.com/jundongl/scikit-feature"

FILES = {
    "MADELON": "madelon.mat",
    "ARCENE": "arcene.mat",
    "BASEHOCK": "BASEHOCK.mat",
    "RELATHE": "RELATHE.mat",
    "PCMAC": "PCMAC.mat",
    "COIL20": "COIL20.mat",
    "ISOLET": "Isolet.mat",
}


def address(name: str) -> str:
    """Return where a data set of the collection lies."""
    return f"{HOME}/{COMMIT}/skfeature/data/{FILES[name]}"


def read(name: str) -> Fetched:
    """Fetch a data set of the collection."""
    url = address(name)
    path = fetch(url, f"scikit-feature-{FILES[name]}")
    try:
        content = scipy_io.loadmat(str(path), variable_names=["X", "Y"])
        features, labels = content["X"], content["Y"]
        dense = np.asarray(features.toarray() if sparse.issparse(features) else features, dtype=np.float64)
        flat = np.asarray(labels, dtype=np.float64).reshape(-1)
        if dense.ndim != 2 or len(dense) != len(flat):
            raise ValueError
    except Exception:  # whatever the reader stumbles over: a page that says "moved" must not stay in the cache
        path.unlink(missing_ok=True)
        raise DataError(f"{url}: not a MATLAB file with a table X and a label per row in Y") from None
    return Fetched(dense, flat, url, path)

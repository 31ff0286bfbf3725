"""Generated tables whose truth is known: which columns carry the label.

`madelon_like` follows the published recipe of the NIPS 2003 MADELON set, `friedman_like` Friedman's
regression function. Both are built so that no column is useful alone (MADELON) or a linear model cannot
succeed (Friedman).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.arrays import BoolArray
from fedsdg.errors import ConfigError


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """Features, labels and the columns that matter."""

    features: NDArray[np.float64]
    labels: NDArray[np.float64] | NDArray[np.int64]
    relevant: BoolArray
    """True for informative and redundant columns, False for noise."""


def madelon_like(
    n_rows: int = 2000,
    n_columns: int = 500,
    *,
    n_informative: int = 5,
    n_redundant: int = 15,
    separation: float = 2.0,
    flip: float = 0.01,
    seed: int = 0,
) -> SyntheticData:
    """Two classes on the corners of a hypercube, hidden among noise.

    Every corner of an ``n_informative``-dimensional cube of side ``2 * separation`` carries a stretched
    Gaussian cluster; corners get their class at random, so single columns say little. Redundant columns are
    linear mixtures of the informative ones.
    """
    n_noise = n_columns - n_informative - n_redundant
    if n_rows < 2 or n_informative < 1 or n_redundant < 0 or n_noise < 0:
        raise ConfigError("madelon_like: needs at least 2 rows, 1 informative column, and room for all columns")
    stream = np.random.default_rng(seed)
    n_corners = 2**n_informative
    corners = np.array([[(corner >> bit) & 1 for bit in range(n_informative)] for corner in range(n_corners)])
    classes = stream.permutation(np.arange(n_corners) % 2)
    stretch = stream.uniform(-1, 1, size=(n_corners, n_informative, n_informative))
    which = stream.permutation(np.arange(n_rows) % n_corners)
    cloud = stream.standard_normal((n_rows, 1, n_informative)) @ stretch[which]
    informative = cloud[:, 0, :] + separation * (2 * corners[which] - 1)
    redundant = informative @ stream.uniform(-1, 1, size=(n_informative, n_redundant))
    noise = stream.standard_normal((n_rows, n_noise))
    labels = np.where(stream.random(n_rows) < flip, stream.integers(0, 2, n_rows), classes[which])
    order = stream.permutation(n_columns)
    relevant = (np.arange(n_columns) < n_informative + n_redundant)[order]
    return SyntheticData(np.hstack([informative, redundant, noise])[:, order], labels.astype(np.int64), relevant)


def friedman_like(n_rows: int = 1000, n_columns: int = 1000, *, noise: float = 1.0, seed: int = 0) -> SyntheticData:
    """Friedman's regression: five of many uniform columns make a curved target.

    y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise
    """
    if n_rows < 2 or n_columns < 5:
        raise ConfigError("friedman_like: needs at least 2 rows and 5 columns")
    stream = np.random.default_rng(seed)
    x = stream.random((n_rows, n_columns))
    target = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    target = target + noise * stream.standard_normal(n_rows)
    order = stream.permutation(n_columns)
    return SyntheticData(x[:, order], target, (np.arange(n_columns) < 5)[order])

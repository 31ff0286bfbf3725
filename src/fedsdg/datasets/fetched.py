"""What a public home of a data set gave, before anybody has said that it is the right thing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Fetched:
    """Features and labels as a home has them, and the file of the cache that they were read from."""

    features: NDArray[np.generic]
    labels: NDArray[np.generic]
    url: str
    """The address to name in messages and in the provenance."""
    path: Path
    """The file in the cache. Whoever finds its content wrong removes it, or it would be read for ever."""

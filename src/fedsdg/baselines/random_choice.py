"""Random columns: what a selection must beat."""

from __future__ import annotations

import numpy as np

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray


def random_scores(data: VerticalData, client: str) -> FloatArray:
    """Return a random score per column."""
    stream = data.streams(f"random/{client}").numpy("scores")
    return np.asarray(stream.random(data.tables[client].n_columns))

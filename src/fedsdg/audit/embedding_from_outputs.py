"""The server guesses a client's embeddings, and through them its columns, from Z.

Z = G W + tau is known to the server sample by sample, W is not. Whoever knows the embeddings (or columns) of a few rows
from elsewhere learns the linear map back and reads all other rows. How much it reads is measured as R^2: 1 is
everything, 0 nothing.
"""

from __future__ import annotations

import numpy as np

from fedsdg.data.arrays import FloatArray, IntArray


def explained_share(outputs: IntArray | FloatArray, secrets: IntArray | FloatArray, known_rows: int) -> float:
    """Fit a linear map from Z to the secrets on the first rows and return R^2 over the others (never below 0)."""
    Z = np.asarray(outputs, np.float64)
    target = np.asarray(secrets, np.float64)
    Z = np.column_stack([Z / max(float(np.abs(Z).max()), 1e-300), np.ones(len(Z))])
    fitted = np.linalg.lstsq(Z[:known_rows], target[:known_rows], rcond=None)[0]
    rest, truth = Z[known_rows:] @ fitted, target[known_rows:]
    spread = float(((truth - truth.mean(axis=0)) ** 2).sum())
    if spread == 0.0:
        return 0.0
    return max(0.0, 1.0 - float(((truth - rest) ** 2).sum()) / spread)


def explained_by_scale(outputs: IntArray, secrets: IntArray, known_rows: int = 2) -> float:
    """Return R^2 when every coordinate has its own scale only: the element-wise layer, where two rows are enough."""
    Z, target = np.asarray(outputs, np.float64), np.asarray(secrets, np.float64)
    norm = (Z[:known_rows] ** 2).sum(axis=0)
    scale = np.where(norm > 0, (Z[:known_rows] * target[:known_rows]).sum(axis=0) / np.where(norm > 0, norm, 1.0), 0.0)
    rest, truth = Z[known_rows:] * scale, target[known_rows:]
    spread = float(((truth - truth.mean(axis=0)) ** 2).sum())
    return max(0.0, 1.0 - float(((truth - rest) ** 2).sum()) / spread) if spread else 0.0

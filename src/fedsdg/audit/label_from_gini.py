"""A client computes labels from the Gini scores of its own columns.

For two classes, with y = +-1 and U_1 ... U_b the bins of a column, which the client knows::

    2 N (1 - G) - N  =  sum_i ( sum of y over U_i )^2 / |U_i|

Each column is one quadratic equation in y. A few columns per row determine y up to its sign (phase retrieval): a
spectral start, then descent on the squared error. Randomised labels help, because then these are what is found. The
label impurity alone gives the class balance, which tells the sign unless it is even.
"""

from __future__ import annotations

import math

import numpy as np

from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.learning.gini import GiniScores

STEPS = 400
RATE = 0.1


def minority_share(label_impurity: float) -> float:
    """Return the share of the rarer of two classes: G0 = 2 p (1 - p)."""
    return (1.0 - math.sqrt(max(0.0, 1.0 - 2.0 * label_impurity))) / 2.0


def label_scores(codes: IntArray, scores: GiniScores, starts: int = 3, seed: int = 0) -> FloatArray:
    """Return one number per training row whose sign guesses its class (the sign of all is unknown)."""
    n_rows, n_columns = codes.shape
    sums = _bin_sums(codes, int(scores.n_bins.max()))
    wanted = 2.0 * n_rows * (1.0 - scores.scores) - n_rows
    bins = len(sums) // n_columns
    excess = np.repeat(wanted - wanted.mean(), bins)
    spectral = np.linalg.eigh((sums * excess[:, None]).T @ sums)[1][:, -1] * math.sqrt(n_rows)
    stream = np.random.default_rng(seed)
    others = stream.standard_normal((starts - 1, n_rows))
    best: FloatArray = spectral
    best_error = math.inf
    for start in [spectral, *others]:
        guess, error = _descend(start, sums, wanted)
        if error < best_error:
            best, best_error = guess, error
        if best_error < 1e-3:
            break
    return best


def _bin_sums(codes: IntArray, bins: int) -> FloatArray:
    """Return the linear maps y -> (sum of y over a bin) / sqrt(size), row after row: (columns x bins, rows)."""
    members = codes.T[:, None, :] == np.arange(bins)[None, :, None]
    sizes = np.maximum(members.sum(axis=2, keepdims=True), 1)
    return np.asarray((members / np.sqrt(sizes)).reshape(-1, codes.shape[0]))


def _descend(start: FloatArray, sums: FloatArray, wanted: FloatArray) -> tuple[FloatArray, float]:
    bins = len(sums) // len(wanted)
    guess, drift, scale = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(STEPS):
        parts = sums @ guess
        error = (parts.reshape(-1, bins) ** 2).sum(axis=1) - wanted
        slope = sums.T @ (parts * np.repeat(error, bins)) / len(wanted)
        drift, scale = 0.9 * drift + 0.1 * slope, 0.99 * scale + 0.01 * slope * slope
        guess -= RATE * (1 - step / STEPS) * drift / (np.sqrt(scale) + 1e-12)
    final = ((sums @ guess).reshape(-1, bins) ** 2).sum(axis=1) - wanted
    return guess, float(np.mean(final**2))

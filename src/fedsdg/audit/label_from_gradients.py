"""A client guesses labels from dL/dG, without knowing a single one.

The loss's gradient by a sample's output points one way for one class and the other way for the other, and W^T carries
that direction into dL/dG. So the first principal direction of the gradients separates the classes. A client that sees a
row again in every epoch averages: noise on single gradients would not stop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsdg.audit.observation import GradientBatch
from fedsdg.data.arrays import FloatArray, IntArray


def label_scores(batches: Sequence[GradientBatch], n_rows: int) -> FloatArray:
    """Return one number per row whose sign guesses its class; NaN for rows that never came.

    Only batches as wide as the first are used: dropped dimensions would have to be aligned.
    """
    width = batches[0].gradient.shape[1]
    total, count = np.zeros((n_rows, width)), np.zeros(n_rows)
    for batch in batches:
        if batch.gradient.shape[1] == width:
            np.add.at(total, batch.rows, _directions(batch.gradient))
            np.add.at(count, batch.rows, 1.0)
    seen = count > 0
    mean = total[seen] / count[seen, None]
    scores = np.full(n_rows, np.nan)
    scores[seen] = mean @ np.linalg.svd(mean, full_matrices=False)[2][0]
    return scores


def ranking_quality(scores: FloatArray, labels: IntArray) -> float:
    """Return the AUC of the scores for labels 0 and 1, whichever way round: 0.5 is guessing, 1 is all labels."""
    known = np.isfinite(scores)
    values, positive = scores[known], labels[known] == 1
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ordered = values[order]
    edges = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
    for start, stop in pairwise(edges.tolist()):  # ties share their mean rank
        ranks[order[start:stop]] = (start + stop + 1) / 2
    n_positive = int(positive.sum())
    n_negative = len(values) - n_positive
    if n_positive == 0 or n_negative == 0:
        return 0.5
    area = (float(ranks[positive].sum()) - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)
    return max(area, 1.0 - area)


def guessed_share(scores: FloatArray, labels: IntArray) -> float:
    """Return the share of labels 0 and 1 that the signs of the scores guess, whichever way round."""
    known = np.isfinite(scores)
    right = float(np.mean((scores[known] > 0) == (labels[known] == 1)))
    return max(right, 1.0 - right)


def _directions(gradient: IntArray) -> FloatArray:
    """Scale every sample's gradient to length one: its size says how sure the model is, its direction which class."""
    values = gradient.astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.maximum(lengths, 1.0))

"""Where the input gates start: from Gini scores to gate means.

The paper sets mu proportional to 1/G. On real tables that is close to a constant (G spans .463-.500 on
MADELON), so the default calibrates each score against chance first and then ranks::

    mu = 0.2 + 0.6 * clip(z / 6, 0, 1) * rank          rank in [0, 1] over the client's own columns

A column that looks like noise starts almost shut but not shut: only together with others may it prove useful.
"""

from __future__ import annotations

import numpy as np

from fedsdg.config import GateSettings
from fedsdg.data.arrays import FloatArray
from fedsdg.learning.gini import GiniScores

HALF_OPEN = 0.5
"""Where an embedding gate starts that has no reason to stand wider open: sigma, so that one draw in six shuts it."""


def initial_gates(scores: GiniScores | None, n_columns: int, settings: GateSettings) -> FloatArray:
    """Return the starting means of a client's input gates; a constant start needs no scores."""
    if scores is None or settings.initialization == "constant":
        return np.full(n_columns, settings.constant_start)
    if settings.initialization == "inverse_gini":
        return inverse_gini_gates(scores, settings.constant_start)
    return calibrated_gates(scores, settings)


def calibrated_gates(scores: GiniScores, settings: GateSettings) -> FloatArray:
    """Return gates that open with the evidence against chance."""
    ranks = unit_ranks(scores.deviations_from_chance())
    return np.asarray(settings.gini_floor + settings.gini_span * evidence(scores, settings) * ranks)


def embedding_start(scores: GiniScores | None, settings: GateSettings) -> float:
    """Return the starting mean of a client's embedding gates, which only the client itself needs to know.

    The noise of half-open gates on the embedding keeps a model from trusting columns that are useless: needed where
    most of them are. Where nearly every column tells something, that noise only hides what they tell.
    """
    if settings.embedding_start != "gini":
        return settings.embedding_start
    if scores is None:
        return HALF_OPEN
    return HALF_OPEN + (1.0 - HALF_OPEN) * float(evidence(scores, settings).mean())


def evidence(scores: GiniScores, settings: GateSettings) -> FloatArray:
    """Return how certain it is, from 0 to 1, that each column tells something about the labels."""
    return np.asarray(np.clip(scores.deviations_from_chance() / settings.gini_full_z, 0.0, 1.0))


def inverse_gini_gates(scores: GiniScores, average: float) -> FloatArray:
    """Return the paper's mu proportional to 1/G, scaled to an average, guarded against G = 0."""
    inverse = 1.0 / np.maximum(scores.scores, 1e-6)
    return np.asarray(average * inverse / inverse.mean())


def unit_ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 0 (smallest) to 1 (largest); equal values in column order, a single value 1."""
    if len(values) == 1:
        return np.ones(1)
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks / (len(values) - 1)

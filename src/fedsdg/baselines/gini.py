"""FedSDG-FS-gini: the first k columns by our own Gini impurity, without gates.

Raw impurities of columns with different numbers of bins cannot be compared (more bins lower them by chance), so the
ranking is by the deviation from chance, which is also what starts the gates.
"""

from __future__ import annotations

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray
from fedsdg.data.binning import bin_columns
from fedsdg.learning.gini import GiniScores, gini_scores


def scores_of(data: VerticalData, client: str) -> GiniScores:
    """Return what Algorithm 1 finds for a client's columns."""
    binning = bin_columns(data.training_values(client), data.config.binning)
    return gini_scores(binning, *data.classes())


def gini_deviations(data: VerticalData, client: str) -> FloatArray:
    """Return how far each column's Gini impurity lies below chance."""
    return scores_of(data, client).deviations_from_chance()

"""FedSDG-FS-gini: the first k columns by our own Gini impurity, without gates.

Raw impurities of columns with different numbers of bins cannot be compared (more bins lower them by chance), so the
ranking is by the deviation from chance, which is also what starts the gates.
"""

from __future__ import annotations

from fedsdg.baselines.selector import VerticalData
from fedsdg.data.arrays import FloatArray
from fedsdg.data.binning import bin_columns
from fedsdg.learning.gini import gini_scores


def gini_deviations(data: VerticalData, client: str) -> FloatArray:
    """Return how far each column's Gini impurity lies below chance."""
    binning = bin_columns(data.training_values(client), data.config.binning)
    return gini_scores(binning, *data.classes()).deviations_from_chance()

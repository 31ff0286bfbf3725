"""No selection: every column of every client."""

from __future__ import annotations

import numpy as np

from fedsdg.baselines.selector import Selection, VerticalData


class AllFeatures:
    """Keep everything."""

    name = "all"

    def select(self, data: VerticalData) -> Selection:
        """Return all columns."""
        return Selection({client: np.arange(table.n_columns) for client, table in data.tables.items()})

"""What is lost when randomised labels are drawn anew: a client that sees several draws takes the majority.

`label_epsilon` bounds inference from ONE draw per label. A label owner that starts every run with another private seed,
or numbers the same people differently, answers anew each time, and the bounds add up.
"""

from __future__ import annotations

import numpy as np

from fedsdg.data.arrays import IntArray
from fedsdg.server.label_privacy import randomised_response


def majority_share(labels: IntArray, epsilon: float, draws: int, *, same_seed: bool) -> float:
    """Return the share of labels 0 and 1 that the majority of several draws gets right (an odd number of draws)."""
    votes = np.zeros(len(labels))
    for draw in range(draws):
        secret = f"audit draw {0 if same_seed else draw}".encode().ljust(32, b".")
        votes += np.where(np.asarray(randomised_response(labels, epsilon, secret)) == 1, 1, -1)
    return float(np.mean((votes > 0) == (labels == 1)))

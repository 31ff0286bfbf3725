"""Filters by the parties themselves: each client learns the scores of its own columns, and the server learns nothing.

The real roles exchange encoded, counted, encrypted messages in one process. Scores equal those of the plain baselines
bit for bit, because both are the same function of the same integers (`messages.filter_statistics`). Who learns what:
`messages.filter_scores` and docs/threat_model.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import get_args

from fedsdg.baselines.chi2 import chi2_scores
from fedsdg.baselines.gini import gini_deviations
from fedsdg.baselines.ms_gini import ms_gini_scores
from fedsdg.baselines.ranking import Score
from fedsdg.baselines.selector import VerticalData
from fedsdg.baselines.sffs import f_scores, training_target
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.crypto import DEFAULT_SIGMA
from fedsdg.data.arrays import FloatArray
from fedsdg.errors import ConfigError
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages.filter_statistics import Statistic, label_columns, target_column
from fedsdg.messages.traffic import Traffic
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.federation import MaskedFederation

PLAIN: dict[Statistic, Score] = {
    "gini": gini_deviations,
    "ms_gini": ms_gini_scores,
    "sffs": f_scores,
    "chi2": chi2_scores,
}
"""The same statistics in the clear."""

DEFAULT_KEY_BITS = 2048


@dataclass(frozen=True, eq=False)
class FilterRun:
    """What a filter found, and what it cost."""

    scores: dict[str, FloatArray]
    """Per client, one score per column; higher is better, unusable columns come last."""
    seconds: float
    """From the first encrypted label to the last unmasked score: keys and the preparation of columns are left out."""
    traffic: Traffic


def plain_scores(data: VerticalData, statistic: Statistic) -> dict[str, FloatArray]:
    """Return the scores of all clients' columns, computed in the clear."""
    return {client: PLAIN[_known(statistic)](data, client) for client in data.tables}


def masked_scores(
    data: VerticalData, statistic: Statistic, *, key_bits: int = DEFAULT_KEY_BITS, allow_test_keys: bool = False
) -> dict[str, FloatArray]:
    """Return the scores that every client learns of its own columns, computed under encryption."""
    return run_filter(data, statistic, key_bits=key_bits, allow_test_keys=allow_test_keys).scores


def run_filter(
    data: VerticalData,
    statistic: Statistic,
    *,
    key_bits: int = DEFAULT_KEY_BITS,
    sigma: int = DEFAULT_SIGMA,
    allow_test_keys: bool = False,
    channel_type: type[InProcessChannel] = InProcessChannel,
) -> FilterRun:
    """Run a filter under encryption, on the training rows."""
    if _known(statistic) == "sffs" and data.objective.task == "regression":
        labels, n_classes = target_column(training_target(data)), 1
    else:
        codes, n_classes = data.classes()
        labels = label_columns(statistic, codes, n_classes)
    roles = {
        name: ClientRole(
            ClientState(
                LocalClient(name, table, data.seeds[name]),
                minimum_key_bits=min(key_bits, DEFAULT_KEY_BITS),
                allow_test_keys=allow_test_keys,
            )
        )
        for name, table in data.tables.items()
    }
    channel = channel_type(roles)
    federation = MaskedFederation(
        channel,
        list(roles),
        data.config,
        key_bits=key_bits,
        sigma=sigma,
        n_rows=len(data.labels),
        allow_test_keys=allow_test_keys,
    )
    federation.begin(data.config, data.train_rows)
    start = time.perf_counter()
    federation.score_by_filter(statistic, labels, n_classes)
    seconds = time.perf_counter() - start
    scores = {}
    for name, role in roles.items():
        found = role.state.filter_scores
        assert found is not None
        scores[name] = found
    return FilterRun(scores, seconds, channel.traffic)


def _known(statistic: Statistic) -> Statistic:
    if statistic not in get_args(Statistic):
        raise ConfigError(f"there is no secure filter {statistic!r}; there are {', '.join(get_args(Statistic))}")
    return statistic

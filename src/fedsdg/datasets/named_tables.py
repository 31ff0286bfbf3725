"""A bank, a phone company and a web shop: a small story with named columns and a known truth.

The bank knows which of its customers defaulted on a loan (the labels). The phone company and the shop hold
columns about the same customers, in the same order. A few columns carry the default, some repeat them in
other words, most are noise. Everything is generated; no such customers exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsdg.data.arrays import IntArray
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError


@dataclass(frozen=True, eq=False)
class NamedTables:
    """Labels of one party, tables of others, and the columns that matter."""

    label_owner: str
    labels: IntArray
    """1: defaulted, 0: paid back."""
    tables: dict[str, FeatureTable]
    informative: dict[str, frozenset[str]]
    """Columns that enter the default directly."""
    redundant: dict[str, frozenset[str]]
    """Columns that only repeat informative ones, with error."""

    @property
    def relevant(self) -> dict[str, frozenset[str]]:
        """Informative and redundant columns per client."""
        return {client: self.informative[client] | self.redundant[client] for client in self.tables}


def bank_loans(n_rows: int = 2000, *, n_noise: int = 40, seed: int = 0) -> NamedTables:
    """Generate the story; ``n_noise`` noise columns go to each client."""
    if n_rows < 2 or n_noise < 0:
        raise ConfigError("bank_loans: needs at least 2 rows and no negative number of noise columns")
    stream = np.random.default_rng(seed)
    strain, habits = stream.standard_normal(n_rows), stream.standard_normal(n_rows)

    def noisy(signal: NDArray[np.float64], share: float) -> NDArray[np.float64]:
        return np.asarray(np.sqrt(1 - share) * signal + np.sqrt(share) * stream.standard_normal(n_rows))

    delay = np.maximum(0.0, 6 + 5 * noisy(strain, 0.3))
    tenure = stream.gamma(2.0, 2.5, n_rows)
    reminders = stream.poisson(np.exp(0.5 * (delay - 6) / 5))
    returned = 1 / (1 + np.exp(-noisy(habits, 0.3)))
    basket = np.exp(3.5 + 0.5 * stream.standard_normal(n_rows))
    instalments = stream.poisson(np.exp(0.4 * noisy(strain, 0.6) + 0.2))
    dear = np.where(basket > np.exp(3.5), 2.0, 0.5)  # returning dear things is the worse sign
    risk = (
        1.4 * (delay - 6) / 5
        - 0.9 * np.log1p(tenure)
        + 1.6 * (returned - 0.5) * dear
        + 0.5 * instalments
        + 0.4 * stream.logistic(size=n_rows)
    )
    labels = (risk > np.quantile(risk, 0.7)).astype(np.int64)

    phone = {
        "invoice_delay_days": delay,
        "contract_years": tenure,
        "reminders_sent": reminders.astype(np.float64),
        "late_fee_total": np.maximum(0.0, 2.5 * delay + 4 * stream.standard_normal(n_rows)),
    }
    shop = {
        "share_of_returns": returned,
        "average_basket": basket,
        "open_instalments": instalments.astype(np.float64),
        "refund_total": returned * basket * np.exp(0.2 * stream.standard_normal(n_rows)),
    }
    tables = {
        "phone_company": _with_noise(phone, "usage", n_noise, n_rows, stream),
        "web_shop": _with_noise(shop, "clicks", n_noise, n_rows, stream),
    }
    return NamedTables(
        label_owner="bank",
        labels=labels,
        tables=tables,
        informative={
            "phone_company": frozenset({"invoice_delay_days", "contract_years"}),
            "web_shop": frozenset({"share_of_returns", "average_basket", "open_instalments"}),
        },
        redundant={
            "phone_company": frozenset({"reminders_sent", "late_fee_total"}),
            "web_shop": frozenset({"refund_total"}),
        },
    )


def _with_noise(
    columns: dict[str, NDArray[np.float64]], stem: str, n_noise: int, n_rows: int, stream: np.random.Generator
) -> FeatureTable:
    """Hide the columns among noise of several shapes, in shuffled order."""
    every = dict(columns)
    for index in range(n_noise):
        kind = index % 3
        if kind == 0:
            values = stream.standard_normal(n_rows)
        elif kind == 1:
            values = stream.poisson(0.15, n_rows).astype(np.float64)  # mostly zero
        else:
            values = stream.integers(0, 4, n_rows).astype(np.float64)  # a category
        every[f"{stem}_{index:02d}"] = values
    names = [list(every)[position] for position in stream.permutation(len(every))]
    return FeatureTable.of(np.column_stack([every[name] for name in names]), names)

"""The public layouts of the secure filters: which sums are squared, and how wide they can become.

=========  =====================================================================================================
gini       Algorithm 1 itself
ms_gini    Algorithm 1 with two bins, split at the mean
chi2       bins x classes; labels carry the class weights m_k = round(2^f / sqrt(n_k)), so no class is implied
sffs       one sum per class (or one in all, for a numeric target) of the client's cells times the label numbers
=========  =====================================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedsdg.config import BinningSettings
from fedsdg.errors import ConfigError
from fedsdg.messages.filter_statistics import CELL_BITS, CLASS_FRACTION_BITS, Statistic
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.square_sum_layout import SquareSumLayout


@dataclass(frozen=True)
class ChiSquareLayout(SquareSumLayout):
    """v = w_b m_k n_bk, with the client's bin weights w_b and the server's class weights m_k."""

    fraction_bits: int = CLASS_FRACTION_BITS

    @property
    def weight_bits(self) -> int:
        """Bits of w."""
        return self.fraction_bits + 1

    @property
    def value_bits(self) -> int:
        """A count is at most the root of bin size times class size, so v hardly exceeds 2^(2f)."""
        return 2 * self.fraction_bits + 1

    @property
    def cross_bits(self) -> int:
        """Bits of e = 2 w r."""
        return 1 + self.weight_bits + self.mask_bits

    @property
    def largest_sum(self) -> int:
        """Each bin adds at most 2^(4f), and so does each class; with room for the rounding of the weights."""
        bound = min(self.n_bins, self.n_classes) << (4 * self.fraction_bits)
        return bound + (bound >> 10)

    @property
    def score_width(self) -> int:
        """Slot width of a sum of squares."""
        return self.largest_sum.bit_length() + 1


@dataclass(frozen=True)
class ClassSumLayout(SquareSumLayout):
    """v = sum of x m over the rows, with the client's cells x in fixed point and the server's label numbers m."""

    fraction_bits: int = CLASS_FRACTION_BITS

    fewest_classes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.n_bins != 1:
            raise ConfigError("Sums of cells have no bins.")
        super().__post_init__()

    @property
    def weight_bits(self) -> int:
        """Nothing is weighed: the cells are the weights."""
        return 1

    @property
    def value_bits(self) -> int:
        """|v| <= 2^f |x| <= 2^(f + cell bits) sqrt(N), because label numbers have a norm of about 2^f; and a sign."""
        return self.fraction_bits + CELL_BITS + math.ceil(math.log2(self.n_rows) / 2) + 2

    @property
    def shift(self) -> int:
        """Half of the range of v."""
        return 1 << (self.value_bits - 1)

    @property
    def cross_bits(self) -> int:
        """Bits of e = 2 r, where r includes the shift."""
        return 2 + self.mask_bits

    @property
    def largest_sum(self) -> int:
        """Projections of the cells on the label numbers: at most 2^(2f) times the sum of their squares."""
        bound = self.n_rows << (2 * (self.fraction_bits + CELL_BITS))
        return bound + (bound >> 10)

    @property
    def score_width(self) -> int:
        """Slot width of a sum of squares."""
        return self.largest_sum.bit_length() + 1


def filter_layout(
    statistic: Statistic,
    n_rows: int,
    n_columns: int,
    n_classes: int,
    binning: BinningSettings,
    key_bits: int,
    sigma: int,
) -> SquareSumLayout:
    """Return the layout of a statistic; one class stands for a numeric target, which only sums of cells can use."""
    if statistic == "sffs":
        return ClassSumLayout(n_rows, n_columns, 1, n_classes, key_bits, sigma)
    if statistic == "chi2":
        return ChiSquareLayout(n_rows, n_columns, binning.bins, n_classes, key_bits, sigma)
    return GiniLayout(n_rows, n_columns, binning.bins if statistic == "gini" else 2, n_classes, key_bits, sigma)

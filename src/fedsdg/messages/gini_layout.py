"""The public layout of Algorithm 1: which slot of which ciphertext holds which count. Both parties derive it.

Every column is padded to the same number of bins; one extra column with a single bin of all rows yields the impurity
of the labels. The last class is implied by the bin sizes. v is w c, the weighted count, with
w = round(2^f / sqrt(bin size)): v^2 summed over classes and bins is S, exactly. Slots and chunks: `SquareSumLayout`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.square_sum_layout import SquareSumLayout


@dataclass(frozen=True)
class GiniLayout(SquareSumLayout):
    """Public numbers of one client's Algorithm 1."""

    fraction_bits: int = 24

    last_class_implied: ClassVar[bool] = True

    @property
    def scored_columns(self) -> int:
        """The client's columns and the one of all rows."""
        return self.n_columns + 1

    @property
    def weight_bits(self) -> int:
        """Bits of w."""
        return self.fraction_bits + 1

    @property
    def value_bits(self) -> int:
        """Bits of a weighted count: at most 2^f sqrt(N)."""
        return self.fraction_bits + math.ceil(math.log2(self.n_rows) / 2) + 1

    @property
    def cross_bits(self) -> int:
        """Bits of the weights e = 2 w (r + R + w U)."""
        return 2 + self.fraction_bits + self.mask_bits + math.ceil(math.log2(self.n_classes + 1))

    @property
    def largest_sum(self) -> int:
        """S <= 2^(2f) N, with room for the rounding of the weights."""
        bound = self.n_rows << (2 * self.fraction_bits)
        return bound + (bound >> 10)

    @property
    def score_width(self) -> int:
        """Slot width of S."""
        return 2 * self.fraction_bits + (self.n_rows + 1).bit_length() + 2

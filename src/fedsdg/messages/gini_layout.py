"""The public layout of Algorithm 1: which slot of which ciphertext holds which count. Both parties derive it.

Every column is padded to the same number of bins; one extra column with a single bin of all rows yields the impurity
of the labels. The last class is implied by the bin sizes. Columns are worked off in chunks, so memory does not grow
with them.

========  ==========================================================================================================
v         w c, the weighted count, w = round(2^f / sqrt(bin size)): v^2 summed over classes and bins is S, exactly
u slot    v + r with r uniform and sigma bits wider; slots of `count_width` bits
Y slot    S itself: `score_width` bits; wider intermediate values overlap and cancel modulo n
========  ==========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fedsdg.crypto.packing import SlotLayout
from fedsdg.errors import ConfigError, DoesNotFit

CHUNK_ITEMS = 8192


@dataclass(frozen=True)
class Chunk:
    """Some consecutive columns, and how many ciphertexts they fill."""

    columns: range
    count_ciphertexts: int
    score_ciphertexts: int


@dataclass(frozen=True)
class GiniLayout:
    """Public numbers of one client's Algorithm 1."""

    n_rows: int
    n_columns: int
    n_bins: int
    n_classes: int
    key_bits: int
    sigma: int
    fraction_bits: int = 24

    def __post_init__(self) -> None:
        if self.n_rows < 2 or self.n_columns < 1 or self.n_classes < 2 or self.n_bins < 1:
            raise ConfigError("Algorithm 1 needs at least two rows, two classes, one column and one bin.")
        if self.count_width > self.key_bits - 1 or self.score_width > self.key_bits - 1:
            raise DoesNotFit("A masked count does not fit the key.")

    @property
    def scored_columns(self) -> int:
        """The client's columns and the one of all rows."""
        return self.n_columns + 1

    @property
    def items_per_column(self) -> int:
        """Counts of one column: bins times classes, without the implied last class."""
        return self.n_bins * (self.n_classes - 1)

    @property
    def value_bits(self) -> int:
        """Bits of a weighted count: at most 2^f sqrt(N)."""
        return self.fraction_bits + math.ceil(math.log2(self.n_rows) / 2) + 1

    @property
    def mask_bits(self) -> int:
        """Bits of the masks r."""
        return self.value_bits + self.sigma

    @property
    def cross_bits(self) -> int:
        """Bits of the weights e = 2 w (r + R + w U)."""
        return 2 + self.fraction_bits + self.mask_bits + math.ceil(math.log2(self.n_classes + 1))

    @property
    def count_width(self) -> int:
        """Slot width of u."""
        return self.mask_bits + 1

    @property
    def score_width(self) -> int:
        """Slot width of S <= 2^(2f) N, with room for the rounding of the weights."""
        return 2 * self.fraction_bits + (self.n_rows + 1).bit_length() + 2

    @property
    def counts(self) -> SlotLayout:
        """Slots of u."""
        return SlotLayout.for_key(self.key_bits, self.count_width)

    @property
    def scores(self) -> SlotLayout:
        """Slots of Y and T."""
        return SlotLayout.for_key(self.key_bits, self.score_width)

    def chunks(self) -> Iterator[Chunk]:
        """Cut the columns so that a chunk fills whole score ciphertexts and about `CHUNK_ITEMS` counts."""
        per_score = self.scores.capacity
        each = per_score * max(1, CHUNK_ITEMS // (per_score * self.items_per_column))
        for first in range(0, self.scored_columns, each):
            columns = range(first, min(first + each, self.scored_columns))
            items = len(columns) * self.items_per_column
            yield Chunk(columns, -(-items // self.counts.capacity), -(-len(columns) // per_score))

    @property
    def count_ciphertexts(self) -> int:
        """Ciphertexts of u in all."""
        return sum(chunk.count_ciphertexts for chunk in self.chunks())

    @property
    def score_ciphertexts(self) -> int:
        """Ciphertexts of Y in all."""
        return sum(chunk.score_ciphertexts for chunk in self.chunks())

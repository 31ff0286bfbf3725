"""Where masked numbers lie whose squares are summed per column: what Algorithm 1 and the secure filters share.

Each column has `items_per_column` encrypted linear sums of label numbers (bins times label columns). The client weighs
them, adds masks and packs them into `counts` slots; the server squares and sums; one number per column comes back, in
`scores` slots. Both parties derive all widths from public numbers. Columns are worked off in chunks, so memory does not
grow with them.

========  ==========================================================================================================
v         the weighted sum: at least -`shift`, below 2^`value_bits` - `shift`
u slot    v + r with r uniform above `shift` and sigma bits wider; slots of `count_width` bits
Y slot    the sum of squares itself: `score_width` bits; wider intermediate values overlap and cancel modulo n
========  ==========================================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

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
class SquareSumLayout(ABC):
    """Public numbers of one client's sums of squares."""

    n_rows: int
    n_columns: int
    n_bins: int
    n_classes: int
    key_bits: int
    sigma: int

    #: Whether the last class is not encrypted but implied by the bin sizes.
    last_class_implied: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if min(self.n_rows, 2 * self.n_columns, 2 * self.n_bins) < 2 or self.n_classes < self.fewest_classes:
            raise ConfigError("Scores under encryption need at least two rows, two classes, one column and one bin.")
        if self.count_width > self.key_bits - 1 or self.score_width > self.key_bits - 1:
            raise DoesNotFit("A masked count does not fit the key.")

    @property
    @abstractmethod
    def weight_bits(self) -> int:
        """Bits of the client's weights w."""

    @property
    @abstractmethod
    def value_bits(self) -> int:
        """Bits of v, shifted to be positive."""

    @property
    @abstractmethod
    def cross_bits(self) -> int:
        """Bits of the weights e of the cross terms."""

    @property
    @abstractmethod
    def largest_sum(self) -> int:
        """No sum of squares is larger, whatever the labels."""

    @property
    @abstractmethod
    def score_width(self) -> int:
        """Slot width of a sum of squares."""

    @property
    def label_columns(self) -> int:
        """Encrypted numbers per row."""
        return self.n_classes - 1 if self.last_class_implied else self.n_classes

    @property
    def scored_columns(self) -> int:
        """Columns whose sums come back."""
        return self.n_columns

    @property
    def items_per_column(self) -> int:
        """Encrypted sums of one column."""
        return self.n_bins * self.label_columns

    @property
    def shift(self) -> int:
        """What makes v positive, where it can be negative."""
        return 0

    @property
    def mask_bits(self) -> int:
        """Bits of the masks r."""
        return self.value_bits + self.sigma

    @property
    def count_width(self) -> int:
        """Slot width of u."""
        return self.mask_bits + 1

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

"""Many small signed integers in one plaintext.

A packed plaintext is sum_i v_i 2^(width i), taken modulo n. Adding packed plaintexts adds slot by slot, multiplying one
by an integer multiplies every slot, as long as each result stays within its slot. Negative values borrow from the slot
above; unpacking starts from the centred representative (in (-n/2, n/2)) and undoes the borrow, low slot first.

Algebra, with a worked example: docs/packing.md.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.errors import CryptoError, DoesNotFit, SlotOverflow

Integers = npt.NDArray[np.int64] | npt.NDArray[np.object_]


@dataclass(frozen=True)
class SlotLayout:
    """Slots of `width` bits, `capacity` to a plaintext."""

    width: int
    capacity: int

    @classmethod
    def for_key(cls, key_bits: int, width: int) -> SlotLayout:
        """Fill a plaintext of that key: floor((|n| - 1) / width) slots, so that every sum stays below n / 2."""
        if width < 3:
            raise DoesNotFit(f"A slot of {width} bits cannot hold a signed value and its guard bits.")
        capacity = (key_bits - 1) // width
        if capacity < 1:
            raise DoesNotFit(
                f"A slot of {width} bits does not fit a {key_bits}-bit key. Use a larger key or fewer bits."
            )
        return cls(width, capacity)

    def blocks(self, count: int) -> list[slice]:
        """Spread `count` values evenly over as few plaintexts as possible."""
        if count < 1:
            raise CryptoError("There is nothing to pack.")
        number = -(-count // self.capacity)
        each = -(-count // number)
        return [slice(i * each, min(count, (i + 1) * each)) for i in range(number)]

    def pack(self, values: Sequence[int]) -> mpz:
        """Pack at most `capacity` values with |v| < 2^(width-2). The result may be negative: reduce it modulo n."""
        half = 1 << (self.width - 1)
        limit = half >> 1
        if len(values) > self.capacity:
            raise DoesNotFit(f"{len(values)} values for {self.capacity} slots.")
        shifted = [operator.index(v) + half for v in values]
        if shifted and (min(shifted) <= half - limit or max(shifted) >= half + limit):
            raise DoesNotFit(f"A value does not fit a signed slot of {self.width} bits.")
        return gmpy2.pack(shifted, self.width) - half * _ones(self.width, len(shifted))

    def pack_wide(self, values: Sequence[int]) -> mpz:
        """Pack values that may be wider than their slots. They must cancel modulo n before anybody unpacks."""
        total = mpz(0)
        for v in reversed(values):
            total = (total << self.width) + operator.index(v)
        return total

    def pack_rows(self, matrix: Integers) -> list[mpz]:
        """Pack every row of a matrix."""
        return [self.pack(row) for row in matrix.tolist()]

    def unpack(self, packed: int, count: int, n: int, guard_bits: int = 2) -> list[int]:
        """Unpack the first `count` slots of a residue modulo n.

        Raises `SlotOverflow` when a slot reaches 2^(width - guard_bits) in size (one bit before it would carry into its
        neighbour, with the default of 2) or when anything is left above the last slot.
        """
        return [int(v) for v in self.unpack_rows([packed], count, n, guard_bits)[0].tolist()]

    def unpack_rows(self, packed: Sequence[int], count: int, n: int, guard_bits: int = 2) -> Integers:
        """Unpack several residues at once: shape (len(packed), count), int64 where the width allows it."""
        if not 0 < count <= self.capacity or guard_bits not in (1, 2):
            raise CryptoError(f"{count} slots with {guard_bits} guard bits cannot be read from {self.capacity} slots.")
        half = 1 << (self.width - 1)
        offset, end = half * _ones(self.width, count), mpz(1) << (self.width * count)
        shifted = [centred(v, n) + offset for v in packed]
        if not all(0 <= v < end for v in shifted):
            raise SlotOverflow(f"A packed value does not end with slot {count} of {self.width} bits.")
        values = self._split_narrow(shifted, count) if self.width <= 63 else self._split_wide(shifted, count)
        limit = 1 << (self.width - guard_bits)
        if values.size and (values.min() <= -limit or values.max() >= limit):
            raise SlotOverflow(f"A slot of {self.width} bits left its range: the result would be wrong.")
        return values

    def _split_wide(self, shifted: Sequence[mpz], count: int) -> npt.NDArray[np.object_]:
        half = 1 << (self.width - 1)
        out = np.empty((len(shifted), count), object)
        for i, v in enumerate(shifted):
            slots = gmpy2.unpack(v, self.width)
            out[i] = [int(s) - half for s in slots] + [-half] * (count - len(slots))
        return out

    def _split_narrow(self, shifted: Sequence[mpz], count: int) -> npt.NDArray[np.int64]:
        width = np.uint64(self.width)
        length = (self.width * count + 7) // 8 + 16
        raw = np.frombuffer(b"".join(int(v).to_bytes(length, "little") for v in shifted), np.uint8)
        first_bit = np.arange(count, dtype=np.int64) * self.width
        windows = raw.reshape(len(shifted), length)[:, (first_bit // 8)[:, None] + np.arange(16)]
        words = np.ascontiguousarray(windows).view(np.uint64)
        shift = (first_bit % 8).astype(np.uint64)
        spill = np.where(shift == 0, np.uint64(0), words[..., 1] << (np.uint64(64) - np.maximum(shift, np.uint64(1))))
        slots = ((words[..., 0] >> shift) | spill) & ((np.uint64(1) << width) - np.uint64(1))
        return slots.astype(np.int64) - np.int64(1 << (self.width - 1))


def centred(value: int, n: int) -> mpz:
    """Return the representative of value modulo n in (-n/2, n/2]."""
    residue = mpz(value) % n
    return residue - n if residue > n // 2 else residue


@lru_cache(maxsize=256)
def _ones(width: int, count: int) -> mpz:
    total = mpz(0)
    for i in range(count):
        total |= mpz(1) << (width * i)
    return total

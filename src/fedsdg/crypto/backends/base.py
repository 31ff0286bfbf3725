"""What every arithmetic back end offers: batched operations on residues modulo n^2.

A `Ring` works on *rows*, an opaque batch of residues in whatever form suits the back end (a list of `mpz`, or an array
of Montgomery digits). Schedules that count multiplications live here, so that back ends share them and the planner can
predict their cost.

Nothing here knows keys, plaintext encodings or protocols, and nothing here draws randomness.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto.never_serialised import NeverSerialised

Rows = TypeVar("Rows")
Indices = npt.NDArray[np.int64]

WINDOW_BITS = 4  # digits of a weight in `shifted_sums`: 16-row tables fit the cache, 5 bits gain nothing
FIXED_BASE_BITS = 8  # one byte of the exponent per table row in fixed-base powers


class Ring(ABC, Generic[Rows]):
    """Batched arithmetic modulo n^2. Additive names are used for what the operations do to plaintexts."""

    #: Name shown to users ("native", "gmpy2", "transparent").
    name: str

    def __init__(self, n: int) -> None:
        self.n = mpz(n)
        self.n_squared = self.n * self.n
        self.plain_bytes = (self.n.bit_length() + 7) // 8
        self.value_bytes = 2 * self.plain_bytes

    # -- the border ------------------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, raw: bytes) -> Rows:
        """Read fixed-width little-endian residues that the caller has validated."""

    @abstractmethod
    def dump(self, rows: Rows) -> bytes:
        """Write canonical residues in [0, n^2), little-endian, `value_bytes` each."""

    @abstractmethod
    def count(self, rows: Rows) -> int:
        """Return how many residues there are."""

    @abstractmethod
    def take(self, rows: Rows, indices: Sequence[int] | Indices) -> Rows:
        """Select residues by position."""

    @abstractmethod
    def join(self, parts: Sequence[Rows]) -> Rows:
        """Concatenate batches."""

    # -- arithmetic ------------------------------------------------------------------------------------------------

    @abstractmethod
    def add(self, a: Rows, b: Rows) -> Rows:
        """Multiply residues pairwise, which adds their plaintexts."""

    @abstractmethod
    def add_plain(self, rows: Rows, plaintexts: Sequence[int]) -> Rows:
        """Multiply each residue by (1 + m n), which adds m in [0, n) to its plaintext."""

    @abstractmethod
    def negate(self, rows: Rows) -> Rows:
        """Invert each residue. Expensive: used on a few rows per batch."""

    @abstractmethod
    def sum_segments(self, rows: Rows, offsets: Indices, members: Indices) -> Rows:
        """Sum the rows named by members[offsets[i]:offsets[i+1]], for every i; an empty sum is an encryption of 0."""

    @abstractmethod
    def dot(self, rows: Rows, length: int, planes: npt.NDArray[np.uint8]) -> Rows:
        """Weigh blocks of `length` rows with the non-negative weights whose bits stand in `planes`.

        `planes` has shape (bits, length, outputs), highest bit first. Result i * outputs + o is
        sum_l weight[l, o] * rows[i * length + l].
        """

    @abstractmethod
    def shifted_sums(self, rows: Rows, digits: npt.NDArray[np.uint8], positions: Indices) -> Rows:
        """Weigh every row with its own weight and shift: result q is sum_i 2^positions[i] w[q, i] rows[q, i].

        `digits` has shape (outputs, items, digits per weight), 4 bits each, lowest first.
        """

    @abstractmethod
    def fixed_base(self, base: int, exponent_bytes: int) -> Any:
        """Precompute powers of one base, for `fixed_base_powers`."""

    @abstractmethod
    def fixed_base_powers(self, table: Any, exponents: npt.NDArray[np.uint8]) -> Rows:
        """Return base^e for each row of `exponents` (little-endian bytes)."""

    def total_modulo_n(self, rows: Rows) -> mpz:
        """Return the product of all residues, modulo n (for the batched test that each is a unit)."""
        count = self.count(rows)
        whole = self.sum_segments(rows, np.array([0, count], np.int64), np.arange(count, dtype=np.int64))
        return mpz(int.from_bytes(self.dump(whole), "little")) % self.n


class OwnerRing(NeverSerialised, ABC, Generic[Rows]):
    """What only the owner of n = p q can do: work modulo p^2 and q^2 apart, which is four times faster.

    The exponents of `quotients` are p - 1 and q - 1. Bases are given reduced modulo p^2 and q^2.
    """

    def __init__(self, ring: Ring[Rows], p: int, q: int) -> None:
        self.ring = ring
        self.primes = (mpz(p), mpz(q))
        self.squares = (mpz(p) ** 2, mpz(q) ** 2)
        self.prime_bytes = ring.plain_bytes // 2

    @abstractmethod
    def set_bases(self, bases: tuple[int, int]) -> None:
        """Precompute powers of one base modulo each square, for `residues`."""

    @abstractmethod
    def residues(self, exponents: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]) -> Rows:
        """Return the residues modulo n^2 that are base_p^e_p modulo p^2 and base_q^e_q modulo q^2."""

    @abstractmethod
    def quotients(self, raw: bytes, count: int) -> tuple[list[mpz], list[mpz]] | None:
        """Return (c^(p-1) mod p^2 - 1) / p, and the same for q, for each c; None if some c is no unit modulo n.

        That None is what makes decrypting a multiple of p or q impossible, whatever was validated before.
        """


# -- shared schedules ------------------------------------------------------------------------------------------------


def subset_size(length: int, bits: int, outputs: int) -> int:
    """Choose t, the number of rows per subset table, so that building and using the tables costs least."""
    return min(range(1, 11), key=lambda t: dot_multiplications(length, bits, outputs, t))


def dot_multiplications(length: int, bits: int, outputs: int, t: int | None = None) -> int:
    """Count the multiplications of `Ring.dot` for one block, squarings included."""
    t = subset_size(length, bits, outputs) if t is None else t
    groups = math.ceil(length / t)
    return groups * ((1 << t) - t - 1) + bits * groups * outputs + (bits - 1) * outputs


def subset_indices(planes: npt.NDArray[np.uint8], t: int) -> Indices:
    """Turn bit planes into positions in subset tables: shape (bits, groups, outputs), values below 2^t."""
    bits, length, outputs = planes.shape
    groups = math.ceil(length / t)
    padded = np.zeros((bits, groups * t, outputs), np.int64)
    padded[:, :length] = planes
    weights = (1 << np.arange(t, dtype=np.int64))[None, None, :, None]
    return np.asarray((padded.reshape(bits, groups, t, outputs) * weights).sum(axis=2), dtype=np.int64)


def shift_schedule(items: int, digits: int, positions: Indices) -> tuple[list[tuple[int, int]], Indices]:
    """Order the (item, digit) steps of `shifted_sums` by falling bit position, and the squarings before each.

    The last squarings bring the lowest step down to position 0, so a final entry (-1, -1) may follow.
    """
    steps = sorted(
        ((int(positions[i]) + WINDOW_BITS * d, i, d) for i in range(items) for d in range(digits)),
        reverse=True,
    )
    squarings = [0] + [high[0] - low[0] for high, low in zip(steps, steps[1:], strict=False)]
    order = [(i, d) for _, i, d in steps]
    if steps and steps[-1][0] > 0:
        order.append((-1, -1))
        squarings.append(steps[-1][0])
    return order, np.array(squarings, np.int64)

"""The back end that always works: GMP through gmpy2, one residue at a time.

Packing and the subset-table schedules make it about a hundred times faster than element-wise Paillier; the native
kernel is ten times faster again. Secret exponents go through `gmpy2.powmod_sec`, whose running time and memory accesses
depend on their size only. Python integers as such are not constant time: SECURITY.md says what that means.
"""

from __future__ import annotations

from collections.abc import Sequence

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto.backends.base import (
    FIXED_BASE_BITS,
    WINDOW_BITS,
    Indices,
    OwnerRing,
    Ring,
    shift_schedule,
    subset_indices,
    subset_size,
)

Numbers = list[mpz]
Table = list[list[mpz]]


class Gmpy2Ring(Ring[Numbers]):
    """Rows are lists of `mpz` in [0, n^2)."""

    name = "gmpy2"

    def load(self, raw: bytes) -> Numbers:
        """See `Ring.load`."""
        w = self.value_bytes
        return [mpz(int.from_bytes(raw[i : i + w], "little")) for i in range(0, len(raw), w)]

    def dump(self, rows: Numbers) -> bytes:
        """See `Ring.dump`."""
        return b"".join(int(c).to_bytes(self.value_bytes, "little") for c in rows)

    def count(self, rows: Numbers) -> int:
        """See `Ring.count`."""
        return len(rows)

    def take(self, rows: Numbers, indices: Sequence[int] | Indices) -> Numbers:
        """See `Ring.take`."""
        return [rows[i] for i in indices]

    def join(self, parts: Sequence[Numbers]) -> Numbers:
        """See `Ring.join`."""
        return [c for part in parts for c in part]

    def add(self, a: Numbers, b: Numbers) -> Numbers:
        """See `Ring.add`."""
        m = self.n_squared
        return [x * y % m for x, y in zip(a, b, strict=True)]

    def add_plain(self, rows: Numbers, plaintexts: Sequence[int]) -> Numbers:
        """See `Ring.add_plain`."""
        n, m = self.n, self.n_squared
        return [c * (1 + plain * n) % m for c, plain in zip(rows, plaintexts, strict=True)]

    def negate(self, rows: Numbers) -> Numbers:
        """See `Ring.negate`."""
        return [gmpy2.invert(c, self.n_squared) for c in rows]

    def sum_segments(self, rows: Numbers, offsets: Indices, members: Indices) -> Numbers:
        """See `Ring.sum_segments`."""
        m, out = self.n_squared, []
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            total = mpz(1)
            for i in members[start:stop].tolist():
                total = total * rows[i] % m
            out.append(total)
        return out

    def dot(self, rows: Numbers, length: int, planes: npt.NDArray[np.uint8]) -> Numbers:
        """See `Ring.dot`. Index 0 of a subset table is the empty product, which costs nothing here."""
        bits, _, outputs = planes.shape
        m = self.n_squared
        t = subset_size(length, bits, outputs)
        positions = subset_indices(planes, t).transpose(2, 0, 1).tolist()  # (outputs, bits, groups)
        out = []
        for block in range(0, len(rows), length):
            tables = []
            for g in range(0, length, t):
                products = [mpz(1)]
                for c in rows[block + g : block + min(g + t, length)]:
                    products += [c] + [p * c % m for p in products[1:]]
                tables.append(products)
            for of_output in positions:
                total = mpz(1)
                for of_plane in of_output:
                    if total != 1:
                        total = total * total % m
                    for table, i in zip(tables, of_plane, strict=True):
                        if i:
                            total = total * table[i] % m
                out.append(total)
        return out

    def shifted_sums(self, rows: Numbers, digits: npt.NDArray[np.uint8], positions: Indices) -> Numbers:
        """See `Ring.shifted_sums`."""
        outputs, items, per_weight = digits.shape
        order, squarings = shift_schedule(items, per_weight, positions)
        m, out = self.n_squared, []
        for q in range(outputs):
            powers = [_small_powers(c, m) for c in rows[q * items : (q + 1) * items]]
            wanted = digits[q].tolist()
            total, pending = mpz(1), 0
            for (i, d), doublings in zip(order, squarings.tolist(), strict=True):
                pending += doublings
                digit = wanted[i][d] if i >= 0 else 0
                if total != 1 and pending:
                    total = gmpy2.powmod(total, mpz(1) << pending, m) if pending > 1 else total * total % m
                pending = 0
                if digit:
                    total = total * powers[i][digit] % m
            out.append(total)
        return out

    def fixed_base(self, base: int, exponent_bytes: int) -> Table:
        """See `Ring.fixed_base`."""
        return _fixed_base_table(mpz(base), self.n_squared, exponent_bytes)

    def fixed_base_powers(self, table: Table, exponents: npt.NDArray[np.uint8]) -> Numbers:
        """See `Ring.fixed_base_powers`."""
        return _fixed_base_powers(table, self.n_squared, exponents)


class Gmpy2OwnerRing(OwnerRing[Numbers]):
    """Arithmetic modulo p^2 and q^2 for the key owner, with GMP's constant-time power."""

    def __init__(self, ring: Ring[Numbers], p: int, q: int) -> None:
        super().__init__(ring, p, q)
        self._p_squared_inverse = gmpy2.invert(self.squares[0], self.squares[1])
        self._tables: list[Table] = []

    def set_bases(self, bases: tuple[int, int]) -> None:
        """See `OwnerRing.set_bases`."""
        w = self.prime_bytes
        self._tables = [_fixed_base_table(mpz(b), m, w) for b, m in zip(bases, self.squares, strict=True)]

    def residues(self, exponents: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]) -> Numbers:
        """See `OwnerRing.residues`."""
        (p2, q2), inverse = self.squares, self._p_squared_inverse
        modulo_p2, modulo_q2 = (
            _fixed_base_powers(t, m, e) for t, m, e in zip(self._tables, self.squares, exponents, strict=True)
        )
        return [a + p2 * ((b - a) * inverse % q2) for a, b in zip(modulo_p2, modulo_q2, strict=True)]

    def quotients(self, raw: bytes, count: int) -> tuple[list[mpz], list[mpz]] | None:
        """See `OwnerRing.quotients`."""
        ciphertexts = self.ring.load(raw)
        out: tuple[list[mpz], list[mpz]] = ([], [])
        for prime, modulus, found in zip(self.primes, self.squares, out, strict=True):
            for c in ciphertexts:
                quotient, remainder = gmpy2.f_divmod(gmpy2.powmod_sec(c % modulus, prime - 1, modulus), prime)
                if remainder != 1:
                    return None
                found.append(quotient)
        return out


def _small_powers(c: mpz, m: mpz) -> Numbers:
    powers = [mpz(1), c]
    for _ in range(2, 1 << WINDOW_BITS):
        powers.append(powers[-1] * c % m)
    return powers


def _fixed_base_table(base: mpz, m: mpz, exponent_bytes: int) -> Table:
    table, base = [], base % m
    for _ in range(exponent_bytes):
        row = [mpz(1)]
        for _ in range((1 << FIXED_BASE_BITS) - 1):
            row.append(row[-1] * base % m)
        table.append(row)
        base = row[-1] * base % m
    return table


def _fixed_base_powers(table: Table, m: mpz, exponents: npt.NDArray[np.uint8]) -> Numbers:
    out = []
    for exponent in exponents.tolist():
        total = table[0][exponent[0]]
        for row, digit in zip(table[1:], exponent[1:], strict=True):
            if digit:
                total = total * row[digit] % m
        out.append(total)
    return out

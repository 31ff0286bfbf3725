"""The native back end: the AVX-512 IFMA kernel, eight residues per sweep, all cores, GIL released.

Rows are arrays of shape (count, 2 K) of 52-bit digits: residues in Montgomery form, written in base n (see
`native/kernel.h`). The schedules are those of `base.py`; this module turns them into index arrays for the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

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
from fedsdg.errors import ConfigError

IMPORT_PROBLEM: str | None = None
try:
    from fedsdg.crypto.backends import _native
except ImportError as missing:  # installed without a compiler
    IMPORT_PROBLEM = str(missing)

Digits = npt.NDArray[np.uint64]

DIGIT_BITS = 52
SIZES = (4, 8, 12, 20, 30, 40, 60)  # digit counts with a compiled kernel; module.c refuses any other
HEADROOM_BITS = 12  # the kernel needs 2^12 n <= R = 2^(52 K)
LANES = 8
TABLE_BYTES = 64 << 20  # subset tables are built in pieces of at most this size


def cpu_supported() -> bool:
    """Return whether this CPU can run the kernel (which must have been built)."""
    return _native.supported()


def nanoseconds_per_multiply_add() -> float:
    """Measure the instruction that everything is made of: one IFMA on eight lanes."""
    return _native.nanoseconds_per_ifma()


def digits_for(bits: int) -> int | None:
    """Return the smallest kernel size for a modulus of that many bits, or None when there is none."""
    return next((k for k in SIZES if DIGIT_BITS * k >= bits + HEADROOM_BITS), None)


_threads: int | None = None


def thread_count() -> int:
    """Return the number of threads: `set_thread_count`, else FEDSDG_THREADS, else the cores this process may use."""
    if _threads is not None:
        return _threads
    wanted = os.environ.get("FEDSDG_THREADS", "")
    if wanted:
        if not (wanted.isascii() and wanted.isdigit() and int(wanted) > 0):
            raise ConfigError(f"FEDSDG_THREADS={wanted!r}: a whole number of at least 1 is needed, or leave it unset.")
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_thread_count(threads: int | None) -> None:
    """Use that many threads from now on; None returns to the default."""
    global _threads
    _threads = threads
    _pool.cache_clear()


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(1, thread_count() - 1), thread_name_prefix="fedsdg-kernel")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def _in_parallel(count: int, work: Callable[[int, int], None]) -> None:
    """Call work(start, stop) on slices of whole lanes, the last one on this thread."""
    threads = min(thread_count(), -(-count // LANES))
    if threads <= 1:
        work(0, count)
        return
    step = -(-count // (threads * LANES)) * LANES
    cuts = [*range(0, count, step), count]
    others = [_pool().submit(work, a, b) for a, b in zip(cuts[:-2], cuts[1:-1], strict=True)]
    work(cuts[-2], cuts[-1])
    for other in others:
        other.result()


def _to_digits(value: int, k: int) -> Digits:
    value = int(value)
    mask = (1 << DIGIT_BITS) - 1
    return np.array([(value >> (DIGIT_BITS * j)) & mask for j in range(k)], np.uint64)


class _Kernel:
    """The kernel for one modulus: its constants, and the calls with threads."""

    def __init__(self, n: mpz) -> None:
        k = digits_for(n.bit_length())
        if k is None:
            raise ValueError("no kernel of that size")
        self.n, self.k, self.width = n, k, 2 * k
        self.n_squared = n * n
        self.r = mpz(1) << (DIGIT_BITS * k)
        self.words = np.concatenate(
            [
                np.array([k, int(-gmpy2.invert(n, 1 << DIGIT_BITS) % (1 << DIGIT_BITS))], np.uint64),
                _to_digits(n, k),
                _to_digits((1 - self.r) % n, k),
                _to_digits(self.r * self.r % n, k),
                self.montgomery(mpz(1)),
            ]
        )
        self.one = self.montgomery(mpz(1))[None, :]

    def montgomery(self, value: mpz) -> Digits:
        """Return one residue in Montgomery form, base n."""
        high, low = gmpy2.f_divmod(value * self.r % self.n_squared, self.n)
        return np.concatenate([_to_digits(low, self.k), _to_digits(high, self.k)])

    def factors(self, values: Sequence[mpz]) -> Digits:
        """Return constants for `load`: a plain chunk times value, in Montgomery form, needs value * R * R."""
        return np.stack([self.montgomery(v * self.r) for v in values])

    def empty(self, count: int) -> Digits:
        return np.empty((count, self.width), np.uint64)

    def load(self, raw: bytes | bytearray, count: int, chunk_bytes: int, factors: Digits) -> Digits:
        out = self.empty(count)
        _in_parallel(count, lambda a, b: _native.load(self.words, out, raw, chunk_bytes, factors, a, b))
        return out

    def dump(self, rows: Digits, width: int) -> bytes:
        raw = np.empty(len(rows) * width, np.uint8)
        _in_parallel(len(rows), lambda a, b: _native.dump(self.words, raw, width, rows, a, b))
        return raw.tobytes()

    def multiply(self, a: Digits, b: Digits, ia: Indices | None = None, ib: Indices | None = None) -> Digits:
        out = self.empty(len(a) if ia is None else len(ia))
        _in_parallel(len(out), lambda s, e: _native.multiply(self.words, out, a, ia, b, ib, s, e))
        return out

    def chain(self, table: Digits, indices: Indices, squarings: Indices) -> Digits:
        indices = np.ascontiguousarray(indices, np.int64)
        out = self.empty(indices.shape[1])
        _in_parallel(len(out), lambda a, b: _native.chain(self.words, out, table, indices, squarings, a, b))
        return out

    def subset_tables(self, bases: Digits, t: int) -> Digits:
        """Return the 2^t subset products of every t consecutive rows."""
        groups, size = len(bases) // t, 1 << t
        table = np.empty((groups, size, self.width), np.uint64)
        table[:, 0] = self.one
        bases = bases.reshape(groups, t, self.width)
        for bit in range(t):
            table[:, 1 << bit] = bases[:, bit]
            if bit:
                known = np.ascontiguousarray(table[:, 1 : 1 << bit]).reshape(-1, self.width)
                by = np.repeat(np.arange(groups, dtype=np.int64), (1 << bit) - 1)
                products = self.multiply(known, np.ascontiguousarray(bases[:, bit]), None, by)
                table[:, (1 << bit) + 1 : 2 << bit] = products.reshape(groups, -1, self.width)
        return table.reshape(-1, self.width)

    def fixed_base(self, base: int, exponent_bytes: int) -> Digits:
        powers, base = [], mpz(base) % self.n_squared
        for _ in range(exponent_bytes * FIXED_BASE_BITS):
            powers.append(self.montgomery(base))
            base = base * base % self.n_squared
        return self.subset_tables(np.stack(powers), FIXED_BASE_BITS)

    def fixed_base_powers(self, table: Digits, exponents: npt.NDArray[np.uint8]) -> Digits:
        windows = exponents.shape[1]
        rows = np.arange(windows, dtype=np.int64)[:, None] << FIXED_BASE_BITS
        return self.chain(table, rows + exponents.T, np.zeros(windows, np.int64))


class NativeRing(Ring[Digits]):
    """Rows are (count, 2 K) arrays of digits."""

    name = "native"

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self._kernel = _Kernel(self.n)
        # A residue below n^2 is low + 2^|n| high with both chunks below 2 n.
        self._factors = self._kernel.factors([mpz(1), mpz(1) << (8 * self.plain_bytes)])

    def load(self, raw: bytes) -> Digits:
        """See `Ring.load`."""
        return self._kernel.load(raw, len(raw) // self.value_bytes, self.plain_bytes, self._factors)

    def dump(self, rows: Digits) -> bytes:
        """See `Ring.dump`."""
        return self._kernel.dump(rows, self.value_bytes)

    def count(self, rows: Digits) -> int:
        """See `Ring.count`."""
        return len(rows)

    def take(self, rows: Digits, indices: Sequence[int] | Indices) -> Digits:
        """See `Ring.take`."""
        return rows[np.asarray(indices, np.int64)]

    def join(self, parts: Sequence[Digits]) -> Digits:
        """See `Ring.join`."""
        return np.concatenate(parts) if parts else self._kernel.empty(0)

    def add(self, a: Digits, b: Digits) -> Digits:
        """See `Ring.add`."""
        return self._kernel.multiply(a, b)

    def add_plain(self, rows: Digits, plaintexts: Sequence[int]) -> Digits:
        """See `Ring.add_plain`."""
        w = self.plain_bytes
        raw = b"".join(int(m).to_bytes(w, "little") for m in plaintexts)
        out = self._kernel.empty(len(rows))
        words = self._kernel.words
        _in_parallel(len(rows), lambda a, b: _native.add_plain(words, out, rows, raw, w, a, b))
        return out

    def negate(self, rows: Digits) -> Digits:
        """See `Ring.negate`."""
        w, raw, m = self.value_bytes, self.dump(rows), self.n_squared
        inverses = (gmpy2.invert(int.from_bytes(raw[i : i + w], "little"), m) for i in range(0, len(raw), w))
        return self.load(b"".join(int(c).to_bytes(w, "little") for c in inverses))

    def sum_segments(self, rows: Digits, offsets: Indices, members: Indices) -> Digits:
        """See `Ring.sum_segments`. Long segments are cut, so that eight lanes always have work."""
        lengths = np.diff(offsets)
        total = int(lengths.sum())
        if len(lengths) < 4 * LANES and total > 64 * LANES:  # few long sums: halve until they are short
            return self._sum_by_halving(rows, offsets, members)
        order = np.argsort(-lengths, kind="stable")
        sorted_offsets = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
        pieces = [members[offsets[i] : offsets[i + 1]] for i in order]
        sorted_members = np.ascontiguousarray(np.concatenate(pieces) if pieces else members[:0], np.int64)
        sums = self._kernel.empty(len(order))
        words = self._kernel.words
        _in_parallel(
            len(sums),
            lambda a, b: _native.segment_products(words, sums, rows, sorted_offsets, sorted_members, a, b),
        )
        out = np.empty_like(sums)
        out[order] = sums
        return out

    def _sum_by_halving(self, rows: Digits, offsets: Indices, members: Indices) -> Digits:
        sums = []
        for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
            part = rows[members[start:stop]]
            while len(part) > 1:
                half = len(part) // 2
                pairs = self._kernel.multiply(part[:half], np.ascontiguousarray(part[half : 2 * half]))
                part = np.concatenate([pairs, part[2 * half :]])
            sums.append(part if len(part) else self._kernel.one)
        return np.concatenate(sums)

    def dot(self, rows: Digits, length: int, planes: npt.NDArray[np.uint8]) -> Digits:
        """See `Ring.dot`. One bit plane per squaring; all subsets of t rows are looked up, not multiplied."""
        kernel, (bits, _, outputs) = self._kernel, planes.shape
        t = subset_size(length, bits, outputs)
        positions = subset_indices(planes, t)
        groups = positions.shape[1]
        squarings = np.zeros(bits * groups, np.int64)
        squarings[groups::groups] = 1
        blocks = len(rows) // length
        at_once = max(1, TABLE_BYTES // (groups * (8 * kernel.width << t)))
        out = []
        for first in range(0, blocks, at_once):
            here = min(at_once, blocks - first)
            bases = np.empty((here, groups * t, kernel.width), np.uint64)
            bases[:, :length] = rows[first * length : (first + here) * length].reshape(here, length, -1)
            bases[:, length:] = kernel.one
            table = kernel.subset_tables(bases.reshape(-1, kernel.width), t)
            start = np.arange(here * groups, dtype=np.int64).reshape(here, groups) << t
            indices = positions[:, :, None, :] + start.T[None, :, :, None]
            out.append(kernel.chain(table, indices.reshape(bits * groups, here * outputs), squarings))
        return self.join(out)

    def shifted_sums(self, rows: Digits, digits: npt.NDArray[np.uint8], positions: Indices) -> Digits:
        """See `Ring.shifted_sums`."""
        kernel, (outputs, items, per_weight) = self._kernel, digits.shape
        order, squarings = shift_schedule(items, per_weight, positions)
        size = 1 << WINDOW_BITS
        at_once = max(1, TABLE_BYTES // (items * size * 8 * kernel.width))
        out = []
        for first in range(0, outputs, at_once):
            here = min(at_once, outputs - first)
            bases = rows[first * items : (first + here) * items]
            table = np.empty((here * items, size, kernel.width), np.uint64)
            table[:, 0], table[:, 1] = kernel.one, bases
            for e in range(2, size):
                factor = table[:, 1] if e & 1 else table[:, e // 2]
                other = table[:, e - 1] if e & 1 else table[:, e // 2]
                table[:, e] = kernel.multiply(np.ascontiguousarray(other), np.ascontiguousarray(factor))
            start = np.arange(here * items, dtype=np.int64).reshape(here, items) * size
            indices = np.stack(
                [start[:, i] + digits[first : first + here, i, d] if i >= 0 else start[:, 0] for i, d in order]
            )
            out.append(kernel.chain(table.reshape(-1, kernel.width), indices, squarings))
        return self.join(out)

    def fixed_base(self, base: int, exponent_bytes: int) -> Digits:
        """See `Ring.fixed_base`."""
        return self._kernel.fixed_base(base, exponent_bytes)

    def fixed_base_powers(self, table: Digits, exponents: npt.NDArray[np.uint8]) -> Digits:
        """See `Ring.fixed_base_powers`."""
        return self._kernel.fixed_base_powers(table, exponents)

    @property
    def kernel(self) -> _Kernel:
        """The kernel modulo n^2, for `NativeOwnerRing`."""
        return self._kernel


class NativeOwnerRing(OwnerRing[Digits]):
    """Arithmetic modulo p^2 and q^2 for the key owner; powers scan their table, so no address depends on the key."""

    def __init__(self, ring: NativeRing, p: int, q: int) -> None:
        super().__init__(ring, p, q)
        self._to_n = ring.kernel
        self._kernels = tuple(_Kernel(prime) for prime in self.primes)
        # A ciphertext has 4 |p| bits: four chunks below 2^|p| < 2 p.
        powers = [mpz(1) << (8 * self.prime_bytes * i) for i in range(4)]
        self._reduce = tuple(kernel.factors(powers) for kernel in self._kernels)
        p2, q2 = self.squares
        self._join = self._to_n.factors([q2 * gmpy2.invert(q2, p2), p2 * gmpy2.invert(p2, q2)])
        self._tables: list[Digits] = []

    def set_bases(self, bases: tuple[int, int]) -> None:
        """See `OwnerRing.set_bases`."""
        w = self.prime_bytes
        self._tables = [k.fixed_base(base, w) for k, base in zip(self._kernels, bases, strict=True)]

    def residues(self, exponents: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]) -> Digits:
        """See `OwnerRing.residues`. The Chinese remainder theorem is a sum of two products modulo n^2."""
        count, w = len(exponents[0]), 2 * self.prime_bytes
        chunks = np.empty((count, 2, w), np.uint8)
        for i, (kernel, table) in enumerate(zip(self._kernels, self._tables, strict=True)):
            canonical = kernel.dump(kernel.fixed_base_powers(table, exponents[i]), w)
            chunks[:, i] = np.frombuffer(canonical, np.uint8).reshape(count, w)
        return self._to_n.load(chunks.tobytes(), count, w, self._join)

    def quotients(self, raw: bytes, count: int) -> tuple[list[mpz], list[mpz]] | None:
        """See `OwnerRing.quotients`. In base p the quotient is simply the upper half of the residue."""
        w = self.prime_bytes
        out = []
        for kernel, factors, prime in zip(self._kernels, self._reduce, self.primes, strict=True):
            found = _quotients(kernel, kernel.load(raw, count, w, factors), int(prime - 1).to_bytes(w, "little"))
            if found is None:
                return None
            out.append(found)
        return out[0], out[1]


def _quotients(kernel: _Kernel, rows: Digits, exponent: bytes) -> list[mpz] | None:
    count, w = len(rows), len(exponent)
    powers = kernel.empty(count)
    _in_parallel(count, lambda a, b: _native.power_scanned(kernel.words, powers, rows, exponent, a, b))
    low, high = np.empty((count, w), np.uint8), np.empty((count, w), np.uint8)
    _in_parallel(count, lambda a, b: _native.split(kernel.words, low, high, w, powers, a, b))
    if count and not (np.all(low[:, 0] == 1) and not low[:, 1:].any()):
        return None
    flat = high.tobytes()
    return [mpz(int.from_bytes(flat[i : i + w], "little")) for i in range(0, len(flat), w)]

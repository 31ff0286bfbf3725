"""Ids as blinded points, for finding common ids without showing the others (Diffie-Hellman PSI).

::

    H(x)        the id x, hashed to a point that nobody knows the logarithm of; bound to the run
    H(x)^a      blinded by one party's exponent: a random point to everybody else
    H(x)^(ab)   blinded by both, in either order: equal for equal ids, and for no others

The group is Curve25519 by u coordinates (X25519 of libsodium), where P and -P are one element. PyNaCl offers no
Ristretto, so the cofactor is dealt with here. X25519 exponents are multiples of 8: every product lies in the subgroup
of prime order, whatever a peer added to a point. And since P = -P, the exponents that X25519 allows reach all elements
of that subgroup alike (up to 2^-126). Points of the twist, points of low order, encodings at or above 2^255 - 19 and
repeated points are refused. What is left to assume is decisional Diffie-Hellman in that subgroup, and SHA-512 as a
random oracle. Exponents are drawn anew for every list and live no longer than one exchange.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz
from nacl.bindings import crypto_core_ed25519_add, crypto_core_ed25519_from_uniform, crypto_scalarmult
from nacl.exceptions import RuntimeError as SodiumError

from fedsdg.crypto.backends.native_ring import thread_count
from fedsdg.crypto.never_serialised import NeverSerialised
from fedsdg.crypto.randomness import random_bytes
from fedsdg.errors import InvalidPoint

POINT_BYTES = 32
_DOMAIN = b"fedsdg id alignment v1"
_PRIME = mpz(2) ** 255 - 19
_CURVE_A = 486662
_BELOW_TOP_BIT = (1 << 255) - 1
#: Fewer points than this are not worth a thread.
_THREAD_POINTS = 256

A = TypeVar("A")


class BlindingExponent(NeverSerialised):
    """One party's secret exponent, for one list and one peer. It is never written, sent or shown."""

    __slots__ = ("_exponent",)

    def __init__(self) -> None:
        # X25519 clears three low bits and sets the top one: uniform on what is left is what the docstring above needs.
        self._exponent = random_bytes(1, POINT_BYTES).tobytes()

    def blind(self, points: Sequence[bytes]) -> list[bytes]:
        """Raise every point to the exponent, in order; points that become equal, or nothing at all, are refused."""
        blinded = _in_threads(self._blind, points)
        # P and P + T with T of low order differ, and their multiples by 8 do not: repetition in disguise.
        _check_distinct(blinded)
        return blinded

    def _blind(self, points: Sequence[bytes]) -> list[bytes]:
        try:
            return [crypto_scalarmult(self._exponent, point) for point in points]
        except SodiumError:  # libsodium refuses to return the point at infinity
            raise InvalidPoint("A blinded id is a point of low order.") from None


def hash_ids(ids: Sequence[str], run_id: bytes) -> list[bytes]:
    """Return H(x) of every id: points that depend on this run, so that lists of two runs have nothing in common."""
    prefix = hashlib.sha512(_DOMAIN + len(run_id).to_bytes(8, "big") + run_id)

    def hash_part(part: Sequence[str]) -> list[bytes]:
        points = []
        for text in part:
            digest = prefix.copy()
            digest.update(text.encode())
            wide = digest.digest()
            # One Elligator map reaches half of the points; the sum of two is uniform.
            halves = (crypto_core_ed25519_from_uniform(wide[:32]), crypto_core_ed25519_from_uniform(wide[32:]))
            points.append(crypto_core_ed25519_add(*halves))
        return points

    return _u_coordinates(_in_threads(hash_part, ids))


def load_points(raw: bytes, count: int | None = None) -> list[bytes]:
    """Read another party's points, or raise `InvalidPoint`; with `count`, exactly that many."""
    if len(raw) % POINT_BYTES or (count is not None and len(raw) != count * POINT_BYTES):
        expected = "whole points" if count is None else f"{count} points"
        raise InvalidPoint(f"{expected} of {POINT_BYTES} bytes expected, {len(raw)} bytes received.")
    _check_canonical(np.frombuffer(raw, np.uint8).reshape(-1, POINT_BYTES))
    points = [raw[i : i + POINT_BYTES] for i in range(0, len(raw), POINT_BYTES)]
    _check_distinct(points)
    for position, point in enumerate(points):
        u = mpz(int.from_bytes(point, "little"))
        if gmpy2.jacobi(u * ((u + _CURVE_A) * u + 1) % _PRIME, _PRIME) != 1:
            raise InvalidPoint(f"Blinded id {position} is no point of the curve.")
    return points


def secret_order(count: int) -> npt.NDArray[np.int64]:
    """Return a uniform permutation of 0 ... count - 1, from the operating system: sort by 128 random bits each."""
    keys = random_bytes(count, 16).view(np.uint64)
    return np.lexsort((keys[:, 0], keys[:, 1])).astype(np.int64)


def _check_canonical(rows: npt.NDArray[np.uint8]) -> None:
    """Refuse u >= p: X25519 would reduce it, and one point would have two spellings."""
    top_bits = (rows[:, 31] == 0x7F) & (rows[:, 1:31] == 0xFF).all(axis=1)
    wrong = (rows[:, 31] > 0x7F) | (top_bits & (rows[:, 0] >= 0xED))
    if wrong.any():
        raise InvalidPoint(f"Blinded id {int(np.argmax(wrong))} is not below 2^255 - 19.")


def _check_distinct(points: Sequence[bytes]) -> None:
    repeated = len(points) - len(set(points))
    if repeated:
        raise InvalidPoint(f"{repeated} of {len(points)} blinded ids repeat another.")


def _u_coordinates(points: Sequence[bytes]) -> list[bytes]:
    """Map Edwards points to u = (1 + y) / (1 - y), with one inversion for all of them.

    (y = 1, the neutral element, would have no u; no hash is known to lead there, and looking for one is hopeless.)
    """
    ys = [mpz(int.from_bytes(point, "little") & _BELOW_TOP_BIT) for point in points]
    before, product = [], mpz(1)
    for y in ys:
        before.append(product)
        product = product * (1 - y) % _PRIME
    inverse = gmpy2.invert(product, _PRIME)
    found = []
    for y, earlier in zip(reversed(ys), reversed(before), strict=True):
        u = (1 + y) * (inverse * earlier % _PRIME) % _PRIME
        found.append(int(u).to_bytes(POINT_BYTES, "little"))
        inverse = inverse * (1 - y) % _PRIME
    return found[::-1]


def _in_threads(work: Callable[[Sequence[A]], list[bytes]], items: Sequence[A]) -> list[bytes]:
    """Apply `work` to slices of the items at the same time (libsodium runs without Python's lock), in order."""
    threads = min(thread_count(), len(items) // _THREAD_POINTS)
    if threads <= 1:
        return work(items)
    size = -(-len(items) // threads)
    slices = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(threads, thread_name_prefix="fedsdg-points") as pool:
        return [point for part in pool.map(work, slices) for point in part]

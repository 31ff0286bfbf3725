"""A cipher that hides nothing, with the interface of Paillier: for exact and fast protocol tests only.

A "ciphertext" is the plaintext modulo n, as wide as a real one, so that a protocol run over it does the same arithmetic
and counts the same bytes. Its keys say so: they warn when made, carry another scheme number, and a party that expects
Paillier refuses them.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto.backends.base import WINDOW_BITS, Indices, OwnerRing, Ring
from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.crypto.keys import PublicKey
from fedsdg.crypto.nonces import NonceSource
from fedsdg.crypto.paillier import Decryptor, Encryptor, Evaluator
from fedsdg.errors import WeakKeyWarning

Numbers = list[mpz]


class TransparentKey(PublicKey):
    """A modulus and nothing else; whoever sees a "ciphertext" sees the plaintext."""

    __slots__ = ()
    _SCHEME: ClassVar[int] = 255

    def __init__(self, n: int | None = None, *, bits: int = 2048, allow_test_size: bool = True) -> None:
        warnings.warn(
            "The transparent cipher is deliberately weak: it encrypts nothing. Use it in tests only.",
            WeakKeyWarning,
            stacklevel=2,
        )
        modulus = mpz(secrets.randbits(bits)) | 1 | (mpz(1) << (bits - 1)) if n is None else mpz(n)
        super().__init__(modulus, allow_test_size=allow_test_size)

    @staticmethod
    def _check_modulus(n: mpz) -> None:
        """Any odd number will do."""


class TransparentRing(Ring[Numbers]):
    """The additive group modulo n, behind the names of a ring modulo n^2."""

    name = "transparent"

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.n_squared = self.n + 1  # values are stored plus one, so that 0 < c <= n: a valid range like a real one's

    def load(self, raw: bytes) -> Numbers:
        """See `Ring.load`."""
        w = self.value_bytes
        return [mpz(int.from_bytes(raw[i : i + w], "little")) - 1 for i in range(0, len(raw), w)]

    def dump(self, rows: Numbers) -> bytes:
        """See `Ring.dump`."""
        return b"".join(int(c + 1).to_bytes(self.value_bytes, "little") for c in rows)

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
        return [(x + y) % self.n for x, y in zip(a, b, strict=True)]

    def add_plain(self, rows: Numbers, plaintexts: Sequence[int]) -> Numbers:
        """See `Ring.add_plain`."""
        return [(c + m) % self.n for c, m in zip(rows, plaintexts, strict=True)]

    def negate(self, rows: Numbers) -> Numbers:
        """See `Ring.negate`."""
        return [-c % self.n for c in rows]

    def sum_segments(self, rows: Numbers, offsets: Indices, members: Indices) -> Numbers:
        """See `Ring.sum_segments`."""
        pairs = zip(offsets[:-1], offsets[1:], strict=True)
        return [sum((rows[i] for i in members[a:b]), mpz(0)) % self.n for a, b in pairs]

    def dot(self, rows: Numbers, length: int, planes: npt.NDArray[np.uint8]) -> Numbers:
        """See `Ring.dot`."""
        powers = np.array([1 << b for b in range(planes.shape[0] - 1, -1, -1)], object)
        w = np.tensordot(powers, planes.astype(object), 1)  # (length, outputs)
        return [
            sum((rows[block + i] * int(w[i, o]) for i in range(length)), mpz(0)) % self.n
            for block in range(0, len(rows), length)
            for o in range(w.shape[1])
        ]

    def shifted_sums(self, rows: Numbers, digits: npt.NDArray[np.uint8], positions: Indices) -> Numbers:
        """See `Ring.shifted_sums`."""
        outputs, items, per_weight = digits.shape
        out = []
        for q in range(outputs):
            total = mpz(0)
            for i in range(items):
                w = sum(int(digits[q, i, d]) << (WINDOW_BITS * d) for d in range(per_weight))
                total += rows[q * items + i] * w << int(positions[i])
            out.append(total % self.n)
        return out

    def fixed_base(self, base: int, exponent_bytes: int) -> None:
        """Nothing to precompute."""

    def fixed_base_powers(self, table: Any, exponents: npt.NDArray[np.uint8]) -> Numbers:
        """Return zeros: encryptions of zero carry no randomness here."""
        return [mpz(0)] * len(exponents)

    def total_modulo_n(self, rows: Numbers) -> mpz:
        """Every number is a "unit" here."""
        return mpz(1)


class _Zeros(NonceSource):
    def _compute(self, count: int) -> Numbers:
        return [mpz(0)] * count


class TransparentEncryptor(Encryptor):
    """Encrypts nothing."""

    def __init__(self, key: TransparentKey) -> None:
        ring = TransparentRing(key.n)
        self._owner: OwnerRing[Any] | None = None
        super(Encryptor, self).__init__(key, ring, _Zeros(ring))


class TransparentEvaluator(Evaluator):
    """Computes in the clear."""

    def __init__(self, key: TransparentKey) -> None:
        ring = TransparentRing(key.n)
        super(Evaluator, self).__init__(key, ring, _Zeros(ring))


class TransparentDecryptor(Decryptor):
    """Reads what was never hidden."""

    def __init__(self, key: TransparentKey) -> None:
        super(Decryptor, self).__init__(key, TransparentRing(key.n), None)

    def decrypt(self, a: EncryptedArray) -> list[mpz]:
        """Return the plaintexts."""
        return list(self._own(a))

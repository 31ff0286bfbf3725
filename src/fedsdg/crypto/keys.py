"""Paillier keys: made safely, checked when they arrive, never written down.

A public key is the modulus n. A private key is its two primes; it has no serialised form, does not pickle or copy, and
its `repr` shows the fingerprint only. Keys are fresh for every run.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import warnings
from functools import lru_cache
from typing import ClassVar, NoReturn

import gmpy2
import numpy as np
from gmpy2 import mpz

from fedsdg.crypto.never_serialised import NeverSerialised
from fedsdg.errors import CryptoError, InvalidPublicKey, MalformedMessage, WeakKeyWarning

#: Recommended between organisations (about 128 bits of security).
DEFAULT_BITS = 3072
#: The sizes a job may use. 2048 bits give about 112 bits of security.
ALLOWED_BITS = (2048, 3072)
#: Test keys below that are refused even with the flag: packing needs some room.
SMALLEST_TEST_BITS = 256

FINGERPRINT_BYTES = 16
SMALL_PRIME_BOUND = 1 << 16
GENERATOR_PRIME_BOUND = 1 << 20
_PRIME_ROUNDS = 40


@lru_cache(maxsize=4)
def _primes_below(bound: int) -> tuple[int, ...]:
    sieve = np.ones(bound, bool)
    sieve[:2] = False
    for i in range(2, int(bound**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    return tuple(np.flatnonzero(sieve).tolist())


@lru_cache(maxsize=4)
def _primorial(bound: int) -> mpz:
    return gmpy2.primorial(bound - 1)


class PublicKey:
    """The modulus n of one party, checked on construction.

    Formal guarantees: `bits` is exact and allowed, n is odd, has no prime factor below 2^16, is no prime and no perfect
    power. What cannot be checked without a proof from the owner: that n has exactly two prime factors of equal size. A
    dishonest n harms the confidentiality of its owner's own data only, since nobody else's secrets are encrypted under
    it without a mask that is uniform modulo n.
    """

    __slots__ = ("bits", "fingerprint", "n")

    _SCHEME: ClassVar[int] = 1
    _HEADER: ClassVar[struct.Struct] = struct.Struct("<4sBBH")
    _MAGIC: ClassVar[bytes] = b"FSPK"

    n: mpz
    bits: int
    fingerprint: bytes

    def __init__(self, n: int, *, allow_test_size: bool = False) -> None:
        n = mpz(n)
        bits = n.bit_length() if n > 0 else 0
        _check_size(bits, allow_test_size=allow_test_size)
        self._check_modulus(n)
        width = (bits + 7) // 8
        digest = hashlib.sha256(bytes([self._SCHEME]) + int(n).to_bytes(width, "little")).digest()
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "fingerprint", digest[:FINGERPRINT_BYTES])

    @staticmethod
    def _check_modulus(n: mpz) -> None:
        if n % 2 == 0:
            raise InvalidPublicKey("The modulus is even.")
        if gmpy2.gcd(n, _primorial(SMALL_PRIME_BOUND)) != 1:
            raise InvalidPublicKey("The modulus has a small prime factor.")
        if gmpy2.is_power(n):
            raise InvalidPublicKey("The modulus is a perfect power.")
        if gmpy2.is_prime(n):
            raise InvalidPublicKey("The modulus is prime.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("keys are immutable")

    @property
    def plain_bytes(self) -> int:
        """Bytes of a plaintext residue; a ciphertext has twice as many."""
        return self.bits // 8

    def to_bytes(self) -> bytes:
        """Serialise: magic, version, scheme, bits, modulus (little-endian)."""
        header = self._HEADER.pack(self._MAGIC, 1, self._SCHEME, self.bits)
        return header + int(self.n).to_bytes(self.plain_bytes, "little")

    @classmethod
    def from_bytes(cls, blob: bytes, *, bits: int | None = None, allow_test_size: bool = False) -> PublicKey:
        """Read and check a key that a peer sent; `bits` is the size that the job prescribes."""
        if len(blob) < cls._HEADER.size or len(blob) > cls._HEADER.size + 4096:
            raise MalformedMessage(f"A public key of {len(blob)} bytes: too short or too long.")
        magic, version, scheme, claimed = cls._HEADER.unpack_from(blob)
        if magic != cls._MAGIC or version != 1:
            raise MalformedMessage("Not a public key of this version.")
        if scheme != cls._SCHEME:
            raise InvalidPublicKey("The key belongs to another scheme (a transparent test key?).")
        body = blob[cls._HEADER.size :]
        if len(body) * 8 != claimed:
            raise MalformedMessage(f"The key claims {claimed} bits but carries {len(body)} bytes.")
        key = cls(int.from_bytes(body, "little"), allow_test_size=allow_test_size)
        if key.bits != claimed:
            raise InvalidPublicKey(f"The key claims {claimed} bits but has {key.bits}.")
        if bits is not None and key.bits != bits:
            raise InvalidPublicKey(f"The job asks for {bits}-bit keys; this one has {key.bits}.")
        return key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and type(self) is type(other) and self.n == other.n

    def __hash__(self) -> int:
        return hash((type(self), self.fingerprint))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bits} bits, {self.fingerprint.hex()[:12]}>"


class PrivateKey(NeverSerialised):
    """The primes of one party. Lives in memory only."""

    __slots__ = ("p", "public_key", "q")

    p: mpz
    q: mpz
    public_key: PublicKey

    def __init__(self, p: int, q: int, *, allow_test_size: bool = False) -> None:
        p, q = mpz(p), mpz(q)
        if p == q or p.bit_length() != q.bit_length() or not (gmpy2.is_prime(p) and gmpy2.is_prime(q)):
            raise CryptoError("A private key needs two different primes of equal size.")
        if p % 4 != 3 or q % 4 != 3 or gmpy2.gcd(p - 1, q - 1) != 2:
            raise CryptoError("A private key needs primes that are 3 modulo 4 with gcd(p-1, q-1) = 2.")
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "q", q)
        object.__setattr__(self, "public_key", PublicKey(p * q, allow_test_size=allow_test_size))

    @classmethod
    def generate(cls, bits: int = DEFAULT_BITS, *, allow_test_size: bool = False) -> PrivateKey:
        """Make a fresh key. Sizes other than 2048 and 3072 need the explicit test flag, and warn."""
        _check_size(bits, allow_test_size=allow_test_size)
        while True:
            p, q = _random_prime(bits // 2), _random_prime(bits // 2)
            # A small |p - q| would let Fermat's method factor n; it never happens by chance.
            if abs(p - q).bit_length() > bits // 2 - 100 and gmpy2.gcd(p - 1, q - 1) == 2:
                return cls(p, q, allow_test_size=allow_test_size)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("keys are immutable")

    def __repr__(self) -> str:
        return f"<PrivateKey of {self.public_key!r}>"


def _check_size(bits: int, *, allow_test_size: bool) -> None:
    if bits in ALLOWED_BITS:
        return
    sizes = " or ".join(str(b) for b in ALLOWED_BITS)
    if not allow_test_size:
        raise InvalidPublicKey(f"Keys have {sizes} bits, not {bits}.")
    if bits < SMALLEST_TEST_BITS or bits % 16 or bits > max(ALLOWED_BITS):
        raise InvalidPublicKey(f"Test keys have {SMALLEST_TEST_BITS} to {max(ALLOWED_BITS)} bits, a multiple of 16.")
    warnings.warn(
        f"A {bits}-bit Paillier key is deliberately weak: anybody can break it. Use it in tests only.",
        WeakKeyWarning,
        stacklevel=3,
    )


def _random_prime(bits: int) -> mpz:
    """Return a uniform prime = 3 mod 4 with its two top bits set: a product of two has exactly 2 * bits bits."""
    small = _primorial(1 << 11)
    while True:
        candidate = mpz(secrets.randbits(bits)) | (mpz(3) << (bits - 2)) | 3
        if gmpy2.gcd(candidate, small) == 1 and gmpy2.is_prime(candidate, _PRIME_ROUNDS):
            return candidate


def random_generator(p: mpz) -> mpz:
    """Return a random element of Z_p* whose order is p - 1, as far as prime factors below 2^20 can tell.

    Some power of a larger prime of p - 1 is missing from the order with probability below 2^-14, and then the group it
    generates is still larger than a 2^20-th of Z_p*.
    """
    group_order = p - 1
    small = [f for f in _primes_below(GENERATOR_PRIME_BOUND) if group_order % f == 0]
    while True:
        g = 2 + mpz(secrets.randbelow(int(p - 3)))
        if all(gmpy2.powmod(g, group_order // f, p) != 1 for f in small):
            return g

"""Paillier encryption as three capabilities.

* `Encryptor`: can encrypt. Made from a public key, or (faster, without the DJN assumption) from one's private key.
* `Evaluator`: can compute on ciphertexts under somebody's public key, mask and re-randomise them.
* `Decryptor`: can decrypt; needs the private key.

A function that takes an `Evaluator` cannot decrypt, whatever it does. Plaintexts are integers modulo n; encodings stand
in `fixed_point` and `packing`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto import backends, encrypted_array, randomness, weights
from fedsdg.crypto.backends.base import OwnerRing, Ring
from fedsdg.crypto.encrypted_array import EncryptedArray, Shape
from fedsdg.crypto.keys import PrivateKey, PublicKey
from fedsdg.crypto.never_serialised import NeverSerialised
from fedsdg.crypto.nonces import NonceSource, OwnerNonces, PublicNonces
from fedsdg.errors import CryptoError, InvalidCiphertext, InvalidPublicKey, KeyMismatch


class _Capability(NeverSerialised):
    """What the three have in common: a key, its arithmetic, and reading what a peer sent."""

    def __init__(self, key: PublicKey, ring: Ring[Any], nonces: NonceSource | None) -> None:
        self.key = key
        self.ring = ring
        self._nonces = nonces

    @property
    def backend(self) -> str:
        """Name of the arithmetic in use."""
        return self.ring.name

    def load(self, blob: bytes, shape: Shape, max_bytes: int = encrypted_array.MAX_WIRE_BYTES) -> EncryptedArray:
        """Read an array of known shape that a peer sent; every ciphertext is validated."""
        return encrypted_array.from_bytes(blob, shape, self.key, self.ring, self._nonces, max_bytes)

    def _own(self, array: EncryptedArray) -> Any:
        if array.key != self.key:
            raise KeyMismatch("The array is encrypted under another key.")
        if array.ring.name != self.ring.name:
            raise CryptoError(f"An array of the {array.ring.name} back end was given to the {self.ring.name} one.")
        return array.rows

    def _array(self, rows: Any, shape: Shape, *, fresh: bool = False) -> EncryptedArray:
        return EncryptedArray(self.key, self.ring, rows, shape, nonces=self._nonces, fresh=fresh)


class Encryptor(_Capability):
    """Who can encrypt."""

    _nonces: NonceSource

    def __init__(self, key: PublicKey | PrivateKey, backend: str | None = None) -> None:
        ring, owner, nonces = arithmetic(key, backend)
        self._owner = owner
        super().__init__(key.public_key if isinstance(key, PrivateKey) else key, ring, nonces)

    def encrypt(self, plaintexts: Sequence[int], shape: Shape | None = None) -> EncryptedArray:
        """Encrypt integers modulo n, each with a fresh nonce."""
        shape = (len(plaintexts),) if shape is None else shape
        residues = _residues(plaintexts, self.key.n)
        rows = self.ring.add_plain(self._nonces.draw(len(residues)), residues)
        return self._array(rows, shape, fresh=True)

    def prefill(self, count: int) -> None:
        """Compute the nonces of the next `count` encryptions in advance."""
        self._nonces.prefill(count)


class Evaluator(_Capability):
    """Who can compute under encryption: linear maps with plain integer weights, masks, fresh randomness."""

    _nonces: NonceSource

    def __init__(self, key: PublicKey | Encryptor, backend: str | None = None) -> None:
        if isinstance(key, Encryptor):  # the same party: share tables and nonces
            super().__init__(key.key, key.ring, key._nonces)
            return
        if isinstance(key, PrivateKey):
            raise CryptoError("An evaluator takes a public key, or the encryptor of one's own private key.")
        ring, _, nonces = arithmetic(key, backend)
        super().__init__(key, ring, nonces)

    def add(self, a: EncryptedArray, b: EncryptedArray) -> EncryptedArray:
        """Add two arrays of the same shape."""
        if a.shape != b.shape:
            raise CryptoError(f"Arrays of shapes {a.shape} and {b.shape} cannot be added.")
        return self._array(self.ring.add(self._own(a), self._own(b)), a.shape)

    def add_plain(self, a: EncryptedArray, plaintexts: Sequence[int]) -> EncryptedArray:
        """Add plain integers (modulo n), in C order. The nonces stay those of `a`."""
        return self._array(self.ring.add_plain(self._own(a), _residues(plaintexts, self.key.n)), a.shape)

    def negate(self, a: EncryptedArray) -> EncryptedArray:
        """Return -a. One modular inversion per ciphertext: use signed weights instead where possible."""
        return self._array(self.ring.negate(self._own(a)), a.shape)

    def dot(self, a: EncryptedArray, w: npt.ArrayLike, bits: int | None = None) -> EncryptedArray:
        """Multiply encrypted blocks (blocks, L) with plain signed weights (L, outputs): (blocks, outputs).

        Exact modulo n. `bits` fixes |w| < 2^bits, so that the native back end does the same work whatever the
        weights are (gmpy2 skips zero digits: SECURITY.md); without it the largest weight decides.
        """
        blocks, length = _two_dimensional(a.shape)
        planes, offset_bits = weights.offset_planes(w, length, bits)
        rows = self._own(a)
        out = self.ring.dot(rows, length, planes)
        # Weights were offset by 2^offset_bits to be positive; take that multiple of the block's sum away again.
        offsets = np.arange(0, blocks * length + 1, length, dtype=np.int64)
        sums = self.ring.sum_segments(rows, offsets, np.arange(blocks * length, dtype=np.int64))
        surplus = self.ring.shifted_sums(sums, np.ones((blocks, 1, 1), np.uint8), np.array([offset_bits], np.int64))
        correction = self.ring.negate(surplus)
        outputs = planes.shape[2]
        per_output = self.ring.take(correction, np.repeat(np.arange(blocks), outputs))
        return self._array(self.ring.add(out, per_output), (blocks, outputs))

    def sum_selected(self, a: EncryptedArray, selections: Sequence[npt.NDArray[np.int64]]) -> EncryptedArray:
        """Add up selected ciphertexts: one sum per selection of flat positions; an empty one gives an encrypted 0."""
        sizes = [len(s) for s in selections]
        parts = [np.asarray(s) for s in selections]
        if any(p.ndim != 1 or (p.size and not np.issubdtype(p.dtype, np.integer)) for p in parts):
            raise CryptoError("A selection is a one-dimensional array of positions.")
        members = np.concatenate([p.astype(np.int64) for p in parts]) if parts else np.empty(0, np.int64)
        if members.size and (members.min() < 0 or members.max() >= a.size):
            raise CryptoError(f"A selection names a position outside the {a.size} ciphertexts.")
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return self._array(self.ring.sum_segments(self._own(a), offsets, members), (len(sizes),))

    def shifted_sums(
        self, a: EncryptedArray, w: npt.ArrayLike, shifts: Sequence[int], bits: int | None = None
    ) -> EncryptedArray:
        """Shift ciphertexts into slots and add: result q is sum_i 2^shifts[i] w[q, i] a[q, i], with weights w >= 0."""
        outputs, items = _two_dimensional(a.shape)
        shifts = [operator.index(s) for s in shifts]
        if len(shifts) != items or any(not 0 <= s <= 2 * self.key.bits for s in shifts):
            raise CryptoError(f"{items} shifts from 0 to {2 * self.key.bits} are needed, one for each column.")
        digits = weights.window_digits(w, (outputs, items), bits)
        rows = self.ring.shifted_sums(self._own(a), digits, np.asarray(shifts, np.int64))
        return self._array(rows, (outputs,))

    def mask(self, a: EncryptedArray) -> tuple[EncryptedArray, list[mpz]]:
        """Add a mask uniform in Z_n to every ciphertext and re-randomise it; keep the masks, send the array.

        Perfect hiding: the decrypted values are independent of the plaintexts, unused slots included.
        """
        masks = randomness.below(int(self.key.n), a.size)
        return self._add_encrypted(a, masks), masks

    def add_fresh(self, a: EncryptedArray, plaintexts: Sequence[int]) -> EncryptedArray:
        """Add plain integers as new encryptions: the result is re-randomised and ready to leave."""
        return self._add_encrypted(a, _residues(plaintexts, self.key.n))

    def _add_encrypted(self, a: EncryptedArray, plaintexts: Sequence[int]) -> EncryptedArray:
        masks = self.ring.add_plain(self._nonces.draw(a.size), plaintexts)
        return self._array(self.ring.add(self._own(a), masks), a.shape, fresh=True)


class Decryptor(_Capability):
    """Who can decrypt. Arrays it loads cannot be sent on."""

    def __init__(self, key: PrivateKey | Encryptor, backend: str | None = None) -> None:
        if isinstance(key, Encryptor):
            if key._owner is None:
                raise CryptoError("Only the encryptor of one's own private key can be turned into a decryptor.")
            owner, public = key._owner, key.key
        else:
            owner, public = _owner_ring(key, backend), key.public_key
        self._owner = owner
        super().__init__(public, owner.ring, None)
        p, q = owner.primes
        # (1 + n)^(p-1) = 1 - q p modulo p^2, so L of it is -q: its inverse scales the quotients.
        self._scale_p = gmpy2.invert(-q, p)
        self._scale_q = gmpy2.invert(-p, q)
        self._p_inverse = gmpy2.invert(p, q)

    def decrypt(self, a: EncryptedArray) -> list[mpz]:
        """Return the plaintexts in [0, n), in C order."""
        quotients = self._owner.quotients(self.ring.dump(self._own(a)), a.size)
        if quotients is None:
            raise InvalidCiphertext("A ciphertext of the batch shares a factor with n.")
        p, q = self._owner.primes
        out = []
        for x, y in zip(*quotients, strict=True):
            modulo_p = x * self._scale_p % p
            out.append(modulo_p + p * ((y * self._scale_q - modulo_p) * self._p_inverse % q))
        return out


def arithmetic(
    key: PublicKey | PrivateKey, backend: str | None
) -> tuple[Ring[Any], OwnerRing[Any] | None, NonceSource]:
    """Return the arithmetic and the nonces that the holder of this key can use."""
    if isinstance(key, PrivateKey):
        owner = _owner_ring(key, backend)
        return owner.ring, owner, OwnerNonces(owner, key)
    if key._SCHEME != PublicKey._SCHEME:
        raise InvalidPublicKey("The key belongs to another scheme (a transparent test key?).")
    ring = backends.choose(key.bits, backend).ring(key.n)
    return ring, None, PublicNonces(ring, key)


def _owner_ring(key: PrivateKey, backend: str | None) -> OwnerRing[Any]:
    chosen = backends.choose(key.public_key.bits, backend)
    return chosen.owner_ring(chosen.ring(key.public_key.n), key.p, key.q)


def _residues(plaintexts: Sequence[int], n: mpz) -> list[mpz]:
    """Reduce integers modulo n; anything else (a float would lose its fraction silently) is a TypeError."""
    return [(m if isinstance(m, mpz) else mpz(operator.index(m))) % n for m in plaintexts]


def _two_dimensional(shape: Shape) -> tuple[int, int]:
    if len(shape) != 2 or math.prod(shape) == 0:
        raise CryptoError(f"A non-empty two-dimensional array is needed, not {shape}.")
    return shape[0], shape[1]

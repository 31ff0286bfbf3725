"""Arrays of ciphertexts under one key, and their form on the wire.

Wire form (little-endian): magic ``FSEA``, version, number of dimensions, key fingerprint (16 bytes), the dimensions (32
bits each), then the ciphertexts, all of the same width. No pickle, no compression, nothing to interpret.

**What leaves is fresh.** `to_bytes` multiplies by new encryptions of zero unless the array was made with fresh nonces
and never exported: a computed ciphertext still carries the nonces of its inputs, and whoever knows those can test
guesses about the weights.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from fedsdg.crypto import validation
from fedsdg.crypto.backends.base import Ring
from fedsdg.crypto.keys import FINGERPRINT_BYTES, PublicKey
from fedsdg.crypto.never_serialised import NeverSerialised
from fedsdg.crypto.nonces import NonceSource
from fedsdg.errors import CryptoError, KeyMismatch, MalformedMessage

MAGIC = b"FSEA"
VERSION = 1
MAX_DIMENSIONS = 4
#: Refused before anything is allocated; larger transfers are sent in parts.
MAX_WIRE_BYTES = 1 << 30

_FIXED = struct.Struct(f"<4sBB{FINGERPRINT_BYTES}s")

Shape = tuple[int, ...]


class EncryptedArray(NeverSerialised):
    """Ciphertexts in C order. Made by `Encryptor`, `Evaluator` and `Decryptor`, which hold the capabilities."""

    __slots__ = ("_fresh", "_nonces", "key", "ring", "rows", "shape")

    def __init__(
        self,
        key: PublicKey,
        ring: Ring[Any],
        rows: Any,
        shape: Shape,
        *,
        nonces: NonceSource | None,
        fresh: bool,
    ) -> None:
        if math.prod(shape) != ring.count(rows):
            raise CryptoError(f"{ring.count(rows)} ciphertexts cannot have the shape {shape}.")
        self.key = key
        self.ring = ring
        self.rows = rows
        self.shape = tuple(shape)
        self._nonces = nonces
        self._fresh = fresh

    @property
    def size(self) -> int:
        """Number of ciphertexts."""
        return math.prod(self.shape)

    @property
    def wire_bytes(self) -> int:
        """Length of `to_bytes()`, known without computing it."""
        return wire_size(self.key, self.shape)

    def reshape(self, *shape: int) -> EncryptedArray:
        """Return the same ciphertexts in another shape."""
        other = EncryptedArray(self.key, self.ring, self.rows, shape, nonces=self._nonces, fresh=self._fresh)
        self._fresh = False  # the same nonces now stand in two arrays: only one of them may leave as it is
        return other

    def take(self, positions: Sequence[int], *shape: int) -> EncryptedArray:
        """Return some of the ciphertexts, by flat position; re-randomised again when exported."""
        rows = self.ring.take(self.rows, positions)
        return EncryptedArray(self.key, self.ring, rows, shape or (len(positions),), nonces=self._nonces, fresh=False)

    def joined(self, others: Sequence[EncryptedArray]) -> EncryptedArray:
        """Append other arrays under the same key, flat."""
        if any(other.key != self.key for other in others):
            raise KeyMismatch("Arrays under different keys cannot be joined.")
        if any(other.ring.name != self.ring.name for other in others):
            raise CryptoError("Arrays of different back ends cannot be joined.")
        rows = self.ring.join([self.rows, *(other.rows for other in others)])
        return EncryptedArray(self.key, self.ring, rows, (self.ring.count(rows),), nonces=self._nonces, fresh=False)

    def to_bytes(self) -> bytes:
        """Serialise for a peer, re-randomised: no two exports share a ciphertext."""
        if self._nonces is None:
            raise CryptoError("This array was received for decryption only; it cannot be sent on.")
        rows = self.rows
        if not self._fresh:
            rows = self.ring.add(rows, self._nonces.draw(self.size))
        self._fresh = False
        return _header(self.key, self.shape) + self.ring.dump(rows)

    def __repr__(self) -> str:
        return f"<EncryptedArray {self.shape} under {self.key!r}>"


def _header(key: PublicKey, shape: Shape) -> bytes:
    return _FIXED.pack(MAGIC, VERSION, len(shape), key.fingerprint) + struct.pack(f"<{len(shape)}I", *shape)


def wire_size(key: PublicKey, shape: Shape) -> int:
    """Return the length of a serialised array of that shape."""
    return _FIXED.size + 4 * len(shape) + math.prod(shape) * 2 * key.plain_bytes


def from_bytes(
    blob: bytes,
    shape: Shape,
    key: PublicKey,
    ring: Ring[Any],
    nonces: NonceSource | None,
    max_bytes: int = MAX_WIRE_BYTES,
) -> EncryptedArray:
    """Read and validate an array that a peer sent; the receiver always knows which shape must come."""
    if len(blob) > max_bytes:
        raise MalformedMessage(f"An array of {len(blob)} bytes is over the limit of {max_bytes}.")
    if len(blob) < _FIXED.size:
        raise MalformedMessage("The array ends within its header.")
    magic, version, dimensions, fingerprint = _FIXED.unpack_from(blob)
    if magic != MAGIC or version != VERSION:
        raise MalformedMessage("Not an encrypted array of this version.")
    if fingerprint != key.fingerprint:
        raise KeyMismatch("The array is encrypted under another key than the one of this run.")
    body = _FIXED.size + 4 * dimensions
    if dimensions > MAX_DIMENSIONS or len(blob) < body:
        raise MalformedMessage("The array ends within its header.")
    claimed = struct.unpack_from(f"<{dimensions}I", blob, _FIXED.size)
    if claimed != tuple(shape):
        raise MalformedMessage(f"An array of shape {tuple(shape)} was expected; {claimed} arrived.")
    rows = validation.load_checked(ring, blob[body:], math.prod(claimed))
    return EncryptedArray(key, ring, rows, claimed, nonces=nonces, fresh=False)

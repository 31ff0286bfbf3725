"""What several crypto tests need: residues in and out of a ring, and Paillier as a textbook has it."""

from __future__ import annotations

import math
import struct

import pytest

from fedsdg.crypto import EncryptedArray, PrivateKey, backends
from fedsdg.crypto.encrypted_array import wire_size

needs_native = pytest.mark.skipif(
    backends.native_problem() is not None, reason=f"native back end: {backends.native_problem()}"
)


def rows_of(ring, values):
    """Load integers in [0, n^2) into a ring, unchecked."""
    return ring.load(b"".join(int(v).to_bytes(ring.value_bytes, "little") for v in values))


def values_of(ring, rows) -> list[int]:
    """The canonical residues that rows stand for."""
    raw, w = ring.dump(rows), ring.value_bytes
    return [int.from_bytes(raw[i : i + w], "little") for i in range(0, len(raw), w)]


def ciphertexts_in(blob: bytes, key, shape) -> list[bytes]:
    """Cut a serialised array into its ciphertexts, without reading its header."""
    size = 2 * key.plain_bytes
    body = blob[len(blob) - size * math.prod(shape) :]
    assert len(blob) == wire_size(key, shape)
    return [body[i : i + size] for i in range(0, len(body), size)]


def message(key, shape, values) -> bytes:
    """Serialise by hand, as the wire form is documented; the values may be anything that fits the width."""
    header = b"FSEA" + bytes([1, len(shape)]) + key.fingerprint + struct.pack(f"<{len(shape)}I", *shape)
    return header + b"".join(int(v).to_bytes(2 * key.plain_bytes, "little") for v in values)


def handmade(capability, values, shape=None) -> EncryptedArray:
    """An array around any residues, as somebody who bypasses `load` would build it."""
    rows = rows_of(capability.ring, values)
    return EncryptedArray(
        capability.key, capability.ring, rows, shape or (len(values),), nonces=capability._nonces, fresh=False
    )


def textbook_encrypt(n: int, m: int, r: int) -> int:
    """(1 + n)^m r^n modulo n^2, word for word."""
    return pow(1 + n, m, n * n) * pow(r, n, n * n) % (n * n)


def textbook_crt_decrypt(key: PrivateKey, c: int) -> int:
    """Decryption by the Chinese remainder theorem that trusts its input, as most libraries have it."""
    p, q, n = int(key.p), int(key.q), int(key.public_key.n)

    def half(prime: int) -> int:
        def quotient(u: int) -> int:
            return (u - 1) // prime

        scale = pow(quotient(pow(n + 1, prime - 1, prime * prime)), -1, prime)
        return quotient(pow(c, prime - 1, prime * prime)) * scale % prime

    m_p, m_q = half(p), half(q)
    return (m_p + p * ((m_q - m_p) * pow(p, -1, q) % q)) % n


def factors_from(decrypted: int, n: int) -> set[int]:
    """Try to read the primes from one decrypted value: (p + q)^-1 modulo n gives them away."""
    n = int(n)
    if math.gcd(decrypted, n) != 1:
        return set()
    total = pow(decrypted, -1, n)
    square = total * total - 4 * n
    if square < 0 or math.isqrt(square) ** 2 != square:
        return set()
    return {(total - math.isqrt(square)) // 2, (total + math.isqrt(square)) // 2}

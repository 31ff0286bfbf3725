"""The check that every incoming ciphertext passes, in batches.

Decrypting 0, n or any multiple of n by the Chinese remainder theorem returns a number from which p + q, and so the
private key, can be read. Hence: exact length, 0 < c < n^2, and gcd(c, n) = 1 (one product over the batch, one gcd).
Errors say which check failed and where, and carry no values.
"""

from __future__ import annotations

from typing import Any

import gmpy2

from fedsdg.crypto.backends.base import Ring
from fedsdg.errors import InvalidCiphertext


def load_checked(ring: Ring[Any], raw: bytes, count: int) -> Any:
    """Read `count` ciphertexts, or raise `InvalidCiphertext`."""
    width = ring.value_bytes
    if len(raw) != count * width:
        raise InvalidCiphertext(f"{count} ciphertexts of {width} bytes expected, {len(raw)} bytes received.")
    bound = ring.n_squared
    for i in range(count):
        value = int.from_bytes(raw[i * width : (i + 1) * width], "little")
        if value == 0:
            raise InvalidCiphertext(f"Ciphertext {i} is zero.")
        if value >= bound:
            raise InvalidCiphertext(f"Ciphertext {i} is not below n^2.")
    rows = ring.load(raw)
    if count and gmpy2.gcd(ring.total_modulo_n(rows), ring.n) != 1:
        raise InvalidCiphertext("A ciphertext of the batch shares a factor with n.")
    return rows

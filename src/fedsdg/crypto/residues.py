"""Decrypted and masked values on the wire: integers modulo n, fixed width, checked when they arrive."""

from __future__ import annotations

from collections.abc import Sequence

from gmpy2 import mpz

from fedsdg.crypto.keys import PublicKey
from fedsdg.errors import MalformedMessage


def residues_to_bytes(values: Sequence[int], key: PublicKey) -> bytes:
    """Serialise integers modulo n, little-endian, `key.plain_bytes` each."""
    return b"".join(int(v % key.n).to_bytes(key.plain_bytes, "little") for v in values)


def residues_from_bytes(blob: bytes, count: int, key: PublicKey) -> list[mpz]:
    """Read exactly `count` integers in [0, n)."""
    width = key.plain_bytes
    if len(blob) != count * width:
        raise MalformedMessage(f"{count} residues of {width} bytes expected, {len(blob)} bytes received.")
    values = [mpz(int.from_bytes(blob[i : i + width], "little")) for i in range(0, len(blob), width)]
    if any(v >= key.n for v in values):
        raise MalformedMessage("A residue is not below the modulus.")
    return values

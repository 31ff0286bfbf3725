"""Secret randomness: from the operating system, through `secrets`, and impossible to seed.

Keys, nonces, masks and shares come from here and from nowhere else. (Randomness that an experiment must be able to
repeat lives in `fedsdg.learning` and never touches a secret.)
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz


def random_bytes(count: int, width: int) -> npt.NDArray[np.uint8]:
    """Return `count` rows of `width` uniform bytes."""
    return np.frombuffer(secrets.token_bytes(count * width), np.uint8).reshape(count, width)


def bytes_below(bound: int, count: int) -> npt.NDArray[np.uint8]:
    """Return `count` integers uniform in [0, bound) as rows of little-endian bytes, by rejection: no modulo bias."""
    bound = int(bound)
    if bound < 1:
        raise ValueError("no integer is below such a bound: it must be at least 1")
    bits = (bound - 1).bit_length()
    width = max(1, (bound.bit_length() + 7) // 8)
    top_mask = 0xFF >> (8 * width - bits) if 8 * width - bits < 8 else 0
    kept: list[npt.NDArray[np.uint8]] = []
    missing = count
    while missing > 0:
        rows = random_bytes(missing + missing // 3 + 4, width).copy()
        rows[:, -1] &= top_mask
        raw = rows.tobytes()
        ok = [i for i in range(len(rows)) if int.from_bytes(raw[i * width : (i + 1) * width], "little") < bound]
        kept.append(rows[ok[:missing]])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty((0, width), np.uint8)


def below(bound: int, count: int) -> list[mpz]:
    """Return `count` integers uniform in [0, bound)."""
    rows = bytes_below(bound, count)
    width, raw = rows.shape[1], rows.tobytes()
    return [mpz(int.from_bytes(raw[i : i + width], "little")) for i in range(0, len(raw), width)]


def signed(bits: int, count: int) -> list[int]:
    """Return `count` integers uniform in [-2^bits, 2^bits)."""
    offset = 1 << bits
    return [int(v) - offset for v in below(2 << bits, count)]

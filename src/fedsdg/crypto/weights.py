"""Plain integer weights as the bits and digits that the product schedules consume."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsdg.crypto.backends.base import WINDOW_BITS
from fedsdg.errors import CryptoError, DoesNotFit

#: Wider weights are a mistake (shares have about 110 bits); refused before memory is spent on them.
MAX_WEIGHT_BITS = 4096


def offset_planes(w: npt.ArrayLike, length: int, bits: int | None) -> tuple[npt.NDArray[np.uint8], int]:
    """Return the bit planes (highest first) of w + 2^b with |w| < 2^b, and b.

    The offset makes all weights positive without inverting a single ciphertext.
    """
    matrix = _matrix(w)
    if matrix.ndim != 2 or matrix.shape[0] != length or matrix.shape[1] == 0:
        raise CryptoError(f"Weights of shape ({length}, outputs) are needed, not {matrix.shape}.")
    values = _integers(matrix)
    largest = max(max(values), -min(values))
    needed = max(1, int(largest).bit_length())
    b = needed if bits is None else bits
    if needed > b or b > MAX_WEIGHT_BITS:
        raise DoesNotFit(f"A weight needs {needed} bits; {min(b, MAX_WEIGHT_BITS)} are allowed.")
    if b < 62 and matrix.dtype != object:
        shifts = np.arange(b, -1, -1, dtype=np.int64)[:, None, None]
        planes = ((matrix.astype(np.int64)[None] + (1 << b)) >> shifts) & 1
        return planes.astype(np.uint8), b
    width = (b + 1 + 7) // 8
    raw = b"".join((int(v) + (1 << b)).to_bytes(width, "big") for v in values)
    spread = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(-1, width), axis=1)[:, 8 * width - b - 1 :]
    return np.ascontiguousarray(spread.T).reshape(b + 1, *matrix.shape), b


def window_digits(w: npt.ArrayLike, shape: tuple[int, int], bits: int | None) -> npt.NDArray[np.uint8]:
    """Return non-negative weights as 4-bit digits, lowest first: shape (outputs, items, digits)."""
    matrix = _matrix(w)
    if matrix.shape != shape:
        raise CryptoError(f"Weights of shape {shape} are needed, not {matrix.shape}.")
    values = _integers(matrix)
    if min(values) < 0:
        raise CryptoError("Shifted sums take weights of at least 0.")
    needed = max(1, max(values).bit_length())
    b = needed if bits is None else bits
    if needed > b or b > MAX_WEIGHT_BITS:
        raise DoesNotFit(f"A weight needs {needed} bits; {min(b, MAX_WEIGHT_BITS)} are allowed.")
    digits = -(-b // WINDOW_BITS)
    width = (digits + 1) // 2
    raw = np.frombuffer(b"".join(v.to_bytes(width, "little") for v in values), np.uint8).reshape(*shape, width)
    out = np.empty((*shape, 2 * width), np.uint8)
    out[..., ::2], out[..., 1::2] = raw & 15, raw >> 4
    return np.ascontiguousarray(out[..., :digits])


def _matrix(w: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return an array; numpy would make floats of lists that mix weights from 2^63 on with negative ones."""
    matrix = np.asarray(w)
    if not isinstance(w, np.ndarray) and np.issubdtype(matrix.dtype, np.floating):
        return np.array(w, object)
    return matrix


def _integers(matrix: npt.NDArray[np.generic]) -> list[int]:
    if matrix.size == 0:
        raise CryptoError("Weights are empty.")
    if matrix.dtype != object and not np.issubdtype(matrix.dtype, np.integer):
        raise CryptoError(f"Weights must be integers, not {matrix.dtype}.")
    try:
        return [operator.index(v) for v in matrix.ravel().tolist()]
    except TypeError:
        raise CryptoError("Weights must be integers.") from None

"""Real numbers as integers at a public scale.

x is encoded as round(x 2^fraction_bits), clipped to |x| < 2^magnitude_bits. Rounding costs nothing worth measuring,
clipping does: so clips are counted and handed back, and the caller reports them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsdg.errors import ConfigError, DataError


@dataclass(frozen=True)
class FixedPoint:
    """A public scale and range; an encoded value has |v| < 2^value_bits."""

    fraction_bits: int
    magnitude_bits: int

    def __post_init__(self) -> None:
        if self.fraction_bits < 0 or not 1 <= self.value_bits <= 52:
            raise ConfigError(f"{self.value_bits} value bits: between 1 and 52 are exact in double precision.")

    @property
    def value_bits(self) -> int:
        """Bits of the largest encoded value."""
        return self.fraction_bits + self.magnitude_bits

    def encode(self, values: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], int]:
        """Return the integers and how many values had to be clipped."""
        reals = np.asarray(values, np.float64)
        if not np.isfinite(reals).all():
            raise DataError("NaN or infinity cannot be encoded in fixed point.")
        with np.errstate(over="ignore"):  # the largest doubles become infinite, and are clipped like any other
            scaled = np.rint(reals * 2.0**self.fraction_bits)
        limit = 2.0**self.value_bits - 1
        clipped = int(np.count_nonzero(np.abs(scaled) > limit))
        return np.clip(scaled, -limit, limit).astype(np.int64), clipped

    def decode(self, integers: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the real numbers."""
        return np.asarray(integers, np.float64) / 2.0**self.fraction_bits

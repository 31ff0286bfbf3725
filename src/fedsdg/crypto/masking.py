"""Masks: how a party hides what it lets another decrypt.

* `Evaluator.mask` adds a mask uniform in Z_n per ciphertext: perfect hiding, for values that stay linear.
* `statistical_mask` is for values that must be *unpacked* by the other side, slot by slot: sigma bits wider than the
  value, so that the masked value is within 2^-sigma of one that does not depend on it.
* `SquareByMasking` squares under encryption with one round trip: the key owner sees v + r and returns its square.
"""

from __future__ import annotations

from collections.abc import Sequence

from gmpy2 import mpz

from fedsdg.crypto import randomness
from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.crypto.paillier import Evaluator
from fedsdg.errors import ConfigError, DoesNotFit

#: Below this a mask is no protection; only tests may go lower.
MIN_SIGMA = 40
DEFAULT_SIGMA = 64
#: Above this nothing is gained and slots become too wide; a peer that asks for more is refused.
MAX_SIGMA = 128


def check_sigma(sigma: int, *, allow_weak: bool = False) -> int:
    """Refuse statistical security parameters that hide too little."""
    if sigma > MAX_SIGMA or sigma < 1:
        raise ConfigError(f"sigma = {sigma} is out of range: {MIN_SIGMA} to {MAX_SIGMA} bits.")
    if sigma < MIN_SIGMA and not allow_weak:
        raise ConfigError(
            f"sigma = {sigma} hides too little: at least {MIN_SIGMA} bits are needed ({DEFAULT_SIGMA} default)."
        )
    return sigma


def statistical_mask(count: int, value_bits: int, sigma: int = DEFAULT_SIGMA) -> list[mpz]:
    """Return masks uniform in [0, 2^(value_bits + sigma)) for values in [0, 2^value_bits)."""
    return randomness.below(1 << (value_bits + check_sigma(sigma)), count)


class SquareByMasking:
    """Enc(v) -> Enc(v^2) with the help of the key owner, who learns nothing about v.

    ::

        evaluator          u = v + r, r uniform and sigma bits wider than v        -> key owner
        key owner          decrypts u, encrypts u^2                                -> evaluator
        evaluator          v^2 = u^2 - 2 r v - r^2
    """

    def __init__(
        self, evaluator: Evaluator, values: EncryptedArray, value_bits: int, sigma: int = DEFAULT_SIGMA
    ) -> None:
        if 2 * (value_bits + sigma + 1) + 1 > evaluator.key.bits - 1:
            raise DoesNotFit(f"The square of a {value_bits}-bit value masked by {sigma} bits does not fit the key.")
        self._evaluator = evaluator
        self._values = values
        self._masks = statistical_mask(values.size, value_bits, sigma)
        self.masked = evaluator.add_fresh(values, self._masks)

    def finish(self, squares: EncryptedArray) -> EncryptedArray:
        """Take the masks out of the encrypted squares that the key owner returned."""
        ev, v = self._evaluator, self._values.reshape(self._values.size, 1)
        cross = ev.shifted_sums(v, [[2 * int(r)] for r in self._masks], [0])
        without_cross = ev.add(squares.reshape(squares.size), ev.negate(cross))
        return ev.add_plain(without_cross, [-r * r for r in self._masks]).reshape(*self._values.shape)


def squares(values: Sequence[int]) -> list[mpz]:
    """Return the squares that the key owner sends back."""
    return [mpz(u) * u for u in values]

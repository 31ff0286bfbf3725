"""Fresh encryptions of zero: the randomness that hides everything that leaves a party.

The key owner draws uniformly from all n-th residues, modulo p^2 and q^2 apart (no assumption beyond Paillier's own).
Everybody else uses Damgard, Jurik and Nielsen's variant: h^r with h = -x^2 raised to n, and r of |n|/2 bits. Each
party derives its own h for a peer's key instead of trusting one that it was sent.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from typing import Any

import gmpy2
from gmpy2 import mpz

from fedsdg.crypto import randomness
from fedsdg.crypto.backends.base import OwnerRing, Ring
from fedsdg.crypto.keys import PrivateKey, PublicKey, random_generator
from fedsdg.crypto.never_serialised import NeverSerialised


class NonceSource(NeverSerialised, ABC):
    """Draws fresh encryptions of zero, each used once; `prefill` computes some ahead of time."""

    def __init__(self, ring: Ring[Any]) -> None:
        self.ring = ring
        self._ready: Any = None
        self._used = 0
        self._process = os.getpid()
        self._lock = threading.Lock()

    @abstractmethod
    def _compute(self, count: int) -> Any: ...

    def prefill(self, count: int) -> None:
        """Compute nonces in advance, while nobody waits."""
        rows = self._compute(count)
        self._forget_after_fork()
        with self._lock:
            self._ready, self._used = rows, 0

    def draw(self, count: int) -> Any:
        """Return `count` rows, each an encryption of zero that was never returned before."""
        self._forget_after_fork()
        with self._lock:  # two threads must not take the same rows
            rows = self._take_ready(count)
        if rows is None:
            return self._compute(count)
        short = count - self.ring.count(rows)
        return self.ring.join([rows, self._compute(short)]) if short else rows

    def _take_ready(self, count: int) -> Any:
        if self._ready is None:
            return None
        first, last = self._used, min(self._used + count, self.ring.count(self._ready))
        rows = self.ring.take(self._ready, range(first, last))
        self._used = last
        if last == self.ring.count(self._ready):
            self._ready = None
        return rows

    def _forget_after_fork(self) -> None:
        """A forked child must not repeat its parent's nonces, nor wait for a lock that only the parent can open."""
        if self._process != os.getpid():
            self._ready, self._process, self._lock = None, os.getpid(), threading.Lock()


class PublicNonces(NonceSource):
    """Encryptions of zero under somebody's public key (Damgard-Jurik-Nielsen, |n|/2-bit exponents)."""

    def __init__(self, ring: Ring[Any], key: PublicKey) -> None:
        super().__init__(ring)
        n = key.n
        while True:
            x = mpz(randomness.below(int(n), 1)[0])
            if x > 1 and gmpy2.gcd(x, n) == 1:
                break
        h = gmpy2.powmod(-x * x % n, n, n * n)
        self._exponent_bytes = key.bits // 16
        self._table = ring.fixed_base(int(h), self._exponent_bytes)

    def _compute(self, count: int) -> Any:
        return self.ring.fixed_base_powers(self._table, randomness.random_bytes(count, self._exponent_bytes))


class OwnerNonces(NonceSource):
    """Encryptions of zero by the key owner: uniform n-th residues modulo n^2, by the Chinese remainder theorem."""

    def __init__(self, owner: OwnerRing[Any], key: PrivateKey) -> None:
        super().__init__(owner.ring)
        self._owner = owner
        self._orders = (key.p - 1, key.q - 1)
        n = key.public_key.n
        bases = [gmpy2.powmod(random_generator(p), n, p * p) for p in (key.p, key.q)]
        owner.set_bases((bases[0], bases[1]))

    def _compute(self, count: int) -> Any:
        exponents = tuple(randomness.bytes_below(order, count) for order in self._orders)
        return self._owner.residues((exponents[0], exponents[1]))

"""Repeatable randomness: a stream is a pure function of (private seed, purpose, step).

Every party has a private seed, recorded only in its own folder. Initial weights, gate noise, input noise and
dithers come from it, so a run can be repeated, resumed in the middle, and moved between runtimes without
changing a bit. The *joint* seed is public and orders the batches, nothing else: a server that could recompute
a client's initial weights would know its secret share.

This is experiment randomness. Keys, nonces, masks and shares never come from here.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError

MINIMUM_SEED_BYTES = 16


def fresh_private_seed() -> bytes:
    """Draw a private seed that nobody can guess."""
    return secrets.token_bytes(32)


@dataclass(frozen=True)
class RandomStreams:
    """All streams of one party."""

    seed: bytes
    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.seed) < MINIMUM_SEED_BYTES:
            raise ConfigError(
                f"a private seed needs at least {MINIMUM_SEED_BYTES} bytes, got {len(self.seed)}; "
                "use fresh_private_seed()"
            )

    def __repr__(self) -> str:
        return f"RandomStreams(path={'/'.join(self.path)!r})"  # a seed is a secret: never in a log

    def derive(self, name: str) -> RandomStreams:
        """Return the streams of one part of the run, independent of all others."""
        return RandomStreams(self.seed, (*self.path, name))

    def bound_to(self, *facts: bytes | NDArray[Any]) -> RandomStreams:
        """Return the streams of one run: another run, with other facts, shares none of its draws."""
        digest = hashlib.sha256(b"fedsdg run v1")
        for fact in facts:
            whole = np.frombuffer(fact, np.uint8) if isinstance(fact, bytes) else np.ascontiguousarray(fact)
            raw = whole.reshape(-1).view(np.uint8).data
            digest.update(raw.nbytes.to_bytes(8, "big"))
            digest.update(raw)
        return self.derive(digest.hexdigest())

    def key(self, purpose: str) -> bytes:
        """Return a key for a keyed hash: secret as the seed is."""
        return self._digest(purpose, 0)

    def numpy(self, purpose: str, step: int = 0) -> np.random.Generator:
        """Return the numpy stream of this purpose and step, from its beginning."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._digest(purpose, step)[:16], "big")))

    def torch(self, purpose: str, step: int = 0) -> torch.Generator:
        """Return the torch stream of this purpose and step, from its beginning."""
        return torch.Generator().manual_seed(self.torch_seed(purpose, step))

    def torch_seed(self, purpose: str, step: int = 0) -> int:
        """Return a 63-bit seed, for code that can only be seeded globally."""
        return int.from_bytes(self._digest(purpose, step)[:8], "big") >> 1

    def symmetric_integers(self, purpose: str, step: int, bits: int, shape: tuple[int, ...]) -> IntArray:
        """Draw integers uniform in -2**bits < x < 2**bits."""
        bound = 1 << bits
        return self.numpy(purpose, step).integers(1 - bound, bound, size=shape, dtype=np.int64)

    def _digest(self, purpose: str, step: int) -> bytes:
        return hashlib.sha256(self._beginning + _spelled(purpose.encode(), str(step).encode())).digest()

    @cached_property
    def _beginning(self) -> bytes:
        """Seed and path, spelled out: what the digests of all purposes and steps begin with."""
        parts = (self.seed, *(name.encode() for name in self.path))
        return b"fedsdg experiment stream v1" + _spelled(*parts)


def _spelled(*parts: bytes) -> bytes:
    """Join parts with their lengths, so that no two paths spell the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


@dataclass(frozen=True)
class BatchOrder:
    """The rows of every training batch, known to all parties from the joint public seed."""

    joint_seed: int
    phase: str
    n_rows: int
    batch_size: int

    @property
    def rows_per_batch(self) -> int:
        """Batch size, or all rows when there are fewer."""
        return min(self.batch_size, self.n_rows)

    @property
    def batches_per_epoch(self) -> int:
        """Whole batches in one pass over the rows; the rest waits for the next shuffle."""
        return self.n_rows // self.rows_per_batch

    def batch(self, step: int) -> IntArray:
        """Return positions (0 ... n_rows - 1) of the batch of this step."""
        epoch, index = divmod(step, self.batches_per_epoch)
        start = index * self.rows_per_batch
        order = _order_of_epoch(self.joint_seed, self.phase, epoch, self.n_rows)
        return order[start : start + self.rows_per_batch].astype(np.int64)


@lru_cache(maxsize=2)
def _order_of_epoch(joint_seed: int, phase: str, epoch: int, n_rows: int) -> IntArray:
    """Return the rows in the order of one epoch; remembered, because all of its steps ask for it."""
    digest = hashlib.sha256(f"fedsdg batch order v1|{joint_seed}|{phase}|{epoch}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big"))).permutation(n_rows)

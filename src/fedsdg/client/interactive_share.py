"""The client's half of the interactive layer: the share E, and the integer algebra around its own decryptions.

The server holds W~ = W + E, this party holds E, nobody stores W. E is drawn fresh from `secrets` at every update,
uniform and sigma bits wider than W. Everything here stays packed and modulo n until it is unpacked once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto import Decryptor, Encryptor, Evaluator
from fedsdg.crypto.layouts import (
    ElementwisePlan,
    MinibatchPlan,
    ValueBits,
    plan_elementwise,
    plan_minibatch,
)
from fedsdg.crypto.randomness import signed
from fedsdg.crypto.residues import residues_to_bytes

Matrix = npt.NDArray[np.int64]
Wide = npt.NDArray[np.object_]


@dataclass(frozen=True)
class ClientKeys:
    """What a client can do: encrypt and decrypt under its own key, compute under the server's."""

    encryptor: Encryptor
    decryptor: Decryptor
    under_server_key: Evaluator


@dataclass(frozen=True, eq=False)
class EmbeddingCiphertexts:
    """A2.1: what leaves."""

    by_column: bytes
    by_sample: bytes | None
    share: bytes | None


class InteractiveShare(ABC):
    """The share of one client in one phase."""

    def __init__(self, initial_weights: Matrix, values: ValueBits, keys: ClientKeys) -> None:
        self.values = values
        self.keys = keys
        self.key = keys.encryptor.key
        self.share = self._draw(initial_weights.shape)
        self.first_noisy_weights: Wide = initial_weights.astype(object) + self.share
        self._packed: list[list[mpz]] = []
        self._batch: Matrix = np.empty((0, 0), np.int64)

    @classmethod
    def restored(cls, share: Wide, values: ValueBits, keys: ClientKeys) -> Self:
        """Go on with a share that was written down, under a new key."""
        layer = cls(np.zeros(share.shape, np.int64), values, keys)
        layer.share = share
        return layer

    def _draw(self, shape: tuple[int, ...]) -> Wide:
        return np.array(signed(self.values.share, int(np.prod(shape))), object).reshape(shape)

    def keep(self, positions: npt.NDArray[np.int64]) -> None:
        """Keep only these embedding dimensions."""
        self.share = self.share[positions]

    def copy_share(self) -> Wide:
        """Return the present share, for a snapshot."""
        return self.share.copy()

    def restore_share(self, share: Wide) -> None:
        """Go back to the share of a snapshot."""
        self.share = share.copy()

    @property
    @abstractmethod
    def plan(self) -> MinibatchPlan | ElementwisePlan:
        """Where the present batch lies."""

    def _encrypt_by_column(self, G: Matrix) -> bytes:
        """Layout A, and keep the packed plaintexts: G E is taken out of the decrypted products with them."""
        self._batch = G
        plan = self.plan
        self._packed = [plan.forward.pack_rows(G[rows].T) for rows in plan.forward_blocks]
        return self.keys.encryptor.encrypt(_flat(self._packed), (len(self._packed), plan.columns)).to_bytes()

    @abstractmethod
    def embed(self, G: Matrix, training: bool) -> EmbeddingCiphertexts:
        """A2.1: encrypt the batch in the layouts of its products."""

    @abstractmethod
    def remove(self, product: bytes, tau: Matrix) -> bytes:
        """A2.3: decrypt C1, take the share out, add the dither. The result is still masked by the server's rho."""

    def gradient(self, ciphertexts: bytes) -> Matrix:
        """A3.2: decrypt C3 = dL/dG, one row per sample."""
        plan, decryptor = self.plan, self.keys.decryptor
        m, blocks = plan.samples_per_result, plan.backward_blocks
        results = -(-plan.batch // m)
        C3 = decryptor.decrypt(decryptor.load(ciphertexts, (len(blocks), results)))
        parts = []
        for i, columns in enumerate(blocks):
            count = columns.stop - columns.start if m == 1 else m * plan.columns
            slots = plan.backward.unpack_rows(C3[i * results : (i + 1) * results], count, self.key.n)
            parts.append(slots.reshape(results * m, -1)[: plan.batch])
        return np.concatenate(parts, axis=1).astype(np.int64)

    @abstractmethod
    def update(self, ciphertexts: bytes) -> bytes:
        """A3.2: draw the new share E' and answer E' - E - Dec(C2)."""


class DenseShare(InteractiveShare):
    """E is d x k."""

    #: None: the planner chooses. Benchmarks and tests force a plan, at both parties, to compare layouts.
    forced_plan: MinibatchPlan | None = None

    @property
    def plan(self) -> MinibatchPlan:
        """Where the present batch lies."""
        if self.forced_plan is not None:
            return self.forced_plan
        return plan_minibatch(self.key.bits, len(self._batch), *self.share.shape, self.values)

    def embed(self, G: Matrix, training: bool) -> EmbeddingCiphertexts:
        """See `InteractiveShare.embed`."""
        by_column = self._encrypt_by_column(G)
        plan, encryptor = self.plan, self.keys.encryptor
        if not training:
            return EmbeddingCiphertexts(by_column, None, None)
        by_sample = None
        if plan.gradient == "columns":
            packed = _flat([plan.update.pack_rows(G[:, columns]) for columns in plan.update_blocks])
            by_sample = encryptor.encrypt(packed, (len(plan.update_blocks), plan.batch)).to_bytes()
        return EmbeddingCiphertexts(by_column, by_sample, self._encrypted_share(plan))

    def _encrypted_share(self, plan: MinibatchPlan) -> bytes:
        slots, m = plan.backward, plan.samples_per_result
        offset = slots.width * plan.columns
        rows = []
        for columns in plan.backward_blocks:
            packed = [slots.pack_wide(self.share[columns, o].tolist()) for o in range(plan.outputs)]
            rows.append([p << (offset * i) for i in range(m) for p in packed])
        return self.keys.encryptor.encrypt(_flat(rows), (len(rows), m * plan.outputs)).to_bytes()

    def remove(self, product: bytes, tau: Matrix) -> bytes:
        """See `InteractiveShare.remove`."""
        plan, decryptor = self.plan, self.keys.decryptor
        k, share = plan.outputs, self.share.T.tolist()
        C1 = decryptor.decrypt(decryptor.load(product, (len(plan.forward_blocks), k)))
        V = []
        for i, rows in enumerate(plan.forward_blocks):
            dither = plan.forward.pack_rows(tau[rows].T)
            for o in range(k):
                GE = sum(p * e for p, e in zip(self._packed[i], share[o], strict=True))
                V.append(C1[i * k + o] - GE + dither[o])
        return residues_to_bytes(V, self.key)

    def update(self, ciphertexts: bytes) -> bytes:
        """See `InteractiveShare.update`. Reversed: under the server's key, computed with this party's own G."""
        plan = self.plan
        fresh = self._draw(self.share.shape)
        difference = fresh - self.share
        if plan.gradient == "columns":
            decryptor, k = self.keys.decryptor, plan.outputs
            C2 = decryptor.decrypt(decryptor.load(ciphertexts, (len(plan.update_blocks), k)))
            reply = residues_to_bytes(
                [
                    plan.update.pack_wide(difference[columns, o].tolist()) - C2[i * k + o]
                    for i, columns in enumerate(plan.update_blocks)
                    for o in range(k)
                ],
                self.key,
            )
        else:
            evaluator = self.keys.under_server_key
            gradient = evaluator.load(ciphertexts, (len(plan.update_blocks), plan.batch))
            product = evaluator.dot(gradient, -self._batch, plan.values.embedding)
            plain = [
                plan.update.pack_wide(difference[j, outputs].tolist())
                for outputs in plan.update_blocks
                for j in range(plan.columns)
            ]
            reply = evaluator.add_fresh(product, plain).to_bytes()
        self.share = fresh
        return reply


class ElementwiseShare(InteractiveShare):
    """E is a vector of d: the paper's layer. Shares are positive, so that the noisy weights are, too."""

    def _draw(self, shape: tuple[int, ...]) -> Wide:
        return np.asarray(super()._draw(shape) + (2 << self.values.share))

    @property
    def plan(self) -> ElementwisePlan:
        """Where the present batch lies."""
        return plan_elementwise(self.key.bits, len(self._batch), len(self.share), self.values)

    def embed(self, G: Matrix, training: bool) -> EmbeddingCiphertexts:
        """See `InteractiveShare.embed`. One ciphertext per value for the gradient, shifted to its own slot."""
        by_column = self._encrypt_by_column(G)
        plan, encryptor = self.plan, self.keys.encryptor
        if not training:
            return EmbeddingCiphertexts(by_column, None, None)
        values = [
            mpz(v) << (plan.update.width * i)
            for columns in plan.update_blocks
            for row in G[:, columns].tolist()
            for i, v in enumerate(row)
        ]
        by_sample = encryptor.encrypt(values, (plan.batch * plan.columns,)).to_bytes()
        slots, m = plan.backward, plan.samples_per_result
        shares = [
            mpz(e) << (slots.width * (i + plan.columns * copy))
            for columns in plan.backward_blocks
            for copy in range(m)
            for i, e in enumerate(self.share[columns].tolist())
        ]
        return EmbeddingCiphertexts(by_column, by_sample, encryptor.encrypt(shares, (m * plan.columns,)).to_bytes())

    def remove(self, product: bytes, tau: Matrix) -> bytes:
        """See `InteractiveShare.remove`."""
        plan, decryptor = self.plan, self.keys.decryptor
        d, share = plan.columns, self.share.tolist()
        C1 = decryptor.decrypt(decryptor.load(product, (len(plan.forward_blocks), d)))
        V = []
        for i, rows in enumerate(plan.forward_blocks):
            dither = plan.forward.pack_rows(tau[rows].T)
            V += [C1[i * d + j] - self._packed[i][j] * share[j] + dither[j] for j in range(d)]
        return residues_to_bytes(V, self.key)

    def update(self, ciphertexts: bytes) -> bytes:
        """See `InteractiveShare.update`."""
        plan, decryptor = self.plan, self.keys.decryptor
        C2 = decryptor.decrypt(decryptor.load(ciphertexts, (len(plan.update_blocks),)))
        fresh = self._draw(self.share.shape)
        difference = fresh - self.share
        reply = residues_to_bytes(
            [plan.update.pack_wide(difference[c].tolist()) - C2[i] for i, c in enumerate(plan.update_blocks)], self.key
        )
        self.share = fresh
        return reply


def _flat(rows: list[list[mpz]]) -> list[mpz]:
    return [value for row in rows for value in row]

"""The server's half of the interactive layer: the noisy weights W~ = W + E, and products with what clients encrypted.

What goes to the client is masked (rho uniform in Z_n) or re-randomised; what comes back is unmasked and unpacked
here, with the range of every slot checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto import Decryptor, EncryptedArray, Encryptor, Evaluator
from fedsdg.crypto.layouts import (
    ElementwisePlan,
    MinibatchPlan,
    ValueBits,
    plan_elementwise,
    plan_minibatch,
)
from fedsdg.crypto.residues import residues_from_bytes
from fedsdg.errors import MalformedMessage

Matrix = npt.NDArray[np.int64]
Wide = npt.NDArray[np.object_]


@dataclass(frozen=True)
class ServerKeys:
    """What the server can do: compute under one client's key, encrypt and decrypt under its own."""

    under_client_key: Evaluator
    encryptor: Encryptor
    decryptor: Decryptor


class NoisyWeights(ABC):
    """The noisy weights of one client in one phase."""

    def __init__(self, noisy: Wide, values: ValueBits, keys: ServerKeys) -> None:
        self.noisy = noisy
        self.values = values
        self.keys = keys
        self.key = keys.under_client_key.key
        self._batch = 0
        self._forward_masks: list[mpz] = []
        self._update_masks: list[mpz] = []
        self._by_sample: bytes | None = None
        self._share: bytes | None = None

    def keep_ciphertexts(self, by_sample: bytes | None, share: bytes | None) -> None:
        """Keep what the backward pass of this batch needs of its embedding."""
        self._by_sample, self._share = by_sample, share

    def take_ciphertexts(self) -> tuple[bytes | None, bytes]:
        """Hand over what was kept, once."""
        if self._share is None:
            raise MalformedMessage("The embedding of a training batch came without the encrypted share.")
        by_sample, share = self._by_sample, self._share
        self._by_sample = self._share = None
        return by_sample, share

    def keep(self, positions: npt.NDArray[np.int64]) -> None:
        """Keep only these embedding dimensions."""
        self.noisy = self.noisy[positions]

    def copy_weights(self) -> Wide:
        """Return the noisy weights, for a snapshot."""
        return self.noisy.copy()

    def restore_weights(self, noisy: Wide) -> None:
        """Go back to the noisy weights of a snapshot."""
        self.noisy = noisy.copy()

    @property
    @abstractmethod
    def plan(self) -> MinibatchPlan | ElementwisePlan:
        """Where the present batch lies."""

    @abstractmethod
    def weigh(self, by_column: bytes, batch: int) -> bytes:
        """A2.2: C1 = [[G]] W~ + rho."""

    def unmask(self, values: bytes) -> Matrix:
        """A2.4: V - rho = G W + tau, one row per sample."""
        plan, rho = self.plan, self._forward_masks
        V = residues_from_bytes(values, len(rho), self.key)
        outputs = len(rho) // len(plan.forward_blocks)
        parts = []
        for i, rows in enumerate(plan.forward_blocks):
            block = [V[at] - rho[at] for at in range(i * outputs, (i + 1) * outputs)]
            parts.append(plan.forward.unpack_rows(block, rows.stop - rows.start, self.key.n).T)
        return np.concatenate(parts).astype(np.int64)

    @abstractmethod
    def weight_gradient(self, by_sample: bytes | None, D_step: Matrix) -> bytes:
        """A3.1: C2 = [[G]]^T D_s + rho2, or [[D_s]] under the server's own key."""

    @abstractmethod
    def embedding_gradient(self, share: bytes, D: Matrix, tau: Matrix) -> bytes:
        """A3.1: C3 = W~ D - [[E]] D + tau2, with the weights and the share of the forward pass."""

    @abstractmethod
    def update(self, reply: bytes) -> None:
        """A3.3: W~ <- W~ + V2 + rho2 = (W - G^T D_s) + E'."""


class DenseNoisyWeights(NoisyWeights):
    """W~ is d x k."""

    #: None: the planner chooses. Benchmarks and tests force a plan, at both parties, to compare layouts.
    forced_plan: MinibatchPlan | None = None

    @property
    def plan(self) -> MinibatchPlan:
        """Where the present batch lies."""
        if self.forced_plan is not None:
            return self.forced_plan
        return plan_minibatch(self.key.bits, self._batch, *self.noisy.shape, self.values)

    def weigh(self, by_column: bytes, batch: int) -> bytes:
        """See `NoisyWeights.weigh`."""
        self._batch, evaluator = batch, self.keys.under_client_key
        plan = self.plan
        G = evaluator.load(by_column, (len(plan.forward_blocks), plan.columns))
        masked, self._forward_masks = evaluator.mask(evaluator.dot(G, self.noisy, self.values.noisy_weight))
        return masked.to_bytes()

    def weight_gradient(self, by_sample: bytes | None, D_step: Matrix) -> bytes:
        """See `NoisyWeights.weight_gradient`."""
        plan = self.plan
        blocks = plan.update_blocks
        if plan.gradient == "reversed":
            packed = [p for outputs in blocks for p in plan.update.pack_rows(D_step[:, outputs])]
            return self.keys.encryptor.encrypt(packed, (len(blocks), plan.batch)).to_bytes()
        evaluator = self.keys.under_client_key
        G = evaluator.load(_present(by_sample), (len(blocks), plan.batch))
        masked, self._update_masks = evaluator.mask(evaluator.dot(G, D_step, self.values.step))
        return masked.to_bytes()

    def embedding_gradient(self, share: bytes, D: Matrix, tau: Matrix) -> bytes:
        """See `NoisyWeights.embedding_gradient`."""
        plan, evaluator = self.plan, self.keys.under_client_key
        m, k, slots = plan.samples_per_result, plan.outputs, plan.backward
        E = evaluator.load(share, (len(plan.backward_blocks), m * k))
        by_result = _by_result(D, m)  # (results, m, k)
        product = evaluator.dot(E, -by_result.transpose(1, 2, 0).reshape(m * k, -1), self.values.gradient)
        plain = []
        for columns in plan.backward_blocks:
            noisy = [slots.pack_wide(self.noisy[columns, o].tolist()) for o in range(k)]
            samples = [
                sum(w * v for w, v in zip(noisy, row, strict=True)) + slots.pack_wide(dither)
                for row, dither in zip(D.tolist(), tau[:, columns].tolist(), strict=True)
            ]
            plain += _place_samples(samples, m, slots.width * plan.columns)
        return evaluator.add_fresh(product, plain).to_bytes()

    def update(self, reply: bytes) -> None:
        """See `NoisyWeights.update`."""
        plan, noisy = self.plan, self.noisy.copy()
        blocks, k, d = plan.update_blocks, plan.outputs, plan.columns
        if plan.gradient == "reversed":
            decryptor = self.keys.decryptor
            V2 = decryptor.decrypt(decryptor.load(reply, (len(blocks), d)))
            for i, outputs in enumerate(blocks):
                count = outputs.stop - outputs.start
                slots = plan.update.unpack_rows(V2[i * d : (i + 1) * d], count, decryptor.key.n, guard_bits=1)
                noisy[:, outputs] += slots.astype(object)
        else:
            rho = self._update_masks
            V2 = residues_from_bytes(reply, len(rho), self.key)
            for i, columns in enumerate(blocks):
                block = [V2[i * k + o] + rho[i * k + o] for o in range(k)]
                count = columns.stop - columns.start
                noisy[columns] += plan.update.unpack_rows(block, count, self.key.n, guard_bits=1).astype(object).T
        self.noisy = noisy


class ElementwiseNoisyWeights(NoisyWeights):
    """W~ is a vector of d positive numbers: the paper's layer."""

    @property
    def plan(self) -> ElementwisePlan:
        """Where the present batch lies."""
        return plan_elementwise(self.key.bits, self._batch, len(self.noisy), self.values)

    def weigh(self, by_column: bytes, batch: int) -> bytes:
        """See `NoisyWeights.weigh`."""
        self._batch, evaluator = batch, self.keys.under_client_key
        plan = self.plan
        blocks, d = len(plan.forward_blocks), plan.columns
        G = evaluator.load(by_column, (blocks, d)).reshape(blocks * d, 1)
        weights = np.tile(self.noisy, blocks).reshape(-1, 1)
        product = evaluator.shifted_sums(G, weights, [0], self.values.share + 2).reshape(blocks, d)
        masked, self._forward_masks = evaluator.mask(product)
        return masked.to_bytes()

    def weight_gradient(self, by_sample: bytes | None, D_step: Matrix) -> bytes:
        """See `NoisyWeights.weight_gradient`: one packed sum over the batch per block of columns."""
        plan, evaluator = self.plan, self.keys.under_client_key
        values = evaluator.load(_present(by_sample), (plan.batch * plan.columns,))
        sums, start = [], 0
        for columns in plan.update_blocks:
            weights = D_step[:, columns].reshape(-1, 1)
            here = values.take(range(start, start + len(weights)), 1, len(weights))
            sums.append(evaluator.dot(here, weights, self.values.step))
            start += len(weights)
        masked, self._update_masks = evaluator.mask(_joined(sums))
        return masked.to_bytes()

    def embedding_gradient(self, share: bytes, D: Matrix, tau: Matrix) -> bytes:
        """See `NoisyWeights.embedding_gradient`."""
        plan, evaluator = self.plan, self.keys.under_client_key
        m, slots, d = plan.samples_per_result, plan.backward, plan.columns
        E = evaluator.load(share, (m * d,))
        by_result = _by_result(D, m)  # (results, m, d)
        products, plain, start = [], [], 0
        for columns in plan.backward_blocks:
            weights = by_result[:, :, columns].reshape(len(by_result), -1).T
            here = E.take(range(start, start + len(weights)), 1, len(weights))
            products.append(evaluator.dot(here, -weights, self.values.gradient))
            start += len(weights)
            noisy = self.noisy[columns].tolist()
            samples = [
                slots.pack_wide([v * w + t for v, w, t in zip(row, noisy, dither, strict=True)])
                for row, dither in zip(D[:, columns].tolist(), tau[:, columns].tolist(), strict=True)
            ]
            plain += _place_samples(samples, m, slots.width * d)
        product = _joined(products).reshape(len(products), len(by_result))
        return evaluator.add_fresh(product, plain).to_bytes()

    def update(self, reply: bytes) -> None:
        """See `NoisyWeights.update`."""
        plan, rho = self.plan, self._update_masks
        V2 = residues_from_bytes(reply, len(rho), self.key)
        noisy = self.noisy.copy()
        for i, columns in enumerate(plan.update_blocks):
            count = columns.stop - columns.start
            slots = plan.update.unpack_rows([V2[i] + rho[i]], count, self.key.n, guard_bits=1)
            noisy[columns] += slots.astype(object)[0]
        self.noisy = noisy


def _present(blob: bytes | None) -> bytes:
    if blob is None:
        raise MalformedMessage("The embedding came without the ciphertexts that the weight gradient needs.")
    return blob


def _by_result(D: Matrix, m: int) -> Matrix:
    """Group samples that share a result ciphertext; missing ones at the end have gradient 0."""
    results = -(-len(D) // m)
    padded = np.zeros((results * m, D.shape[1]), np.int64)
    padded[: len(D)] = D
    return padded.reshape(results, m, -1)


def _place_samples(samples: list[mpz], m: int, pitch: int) -> list[mpz]:
    """Shift each sample of a group to its place in the shared plaintext and add them up."""
    return [
        sum((mpz(s) << (pitch * i) for i, s in enumerate(samples[r : r + m])), mpz(0))
        for r in range(0, len(samples), m)
    ]


def _joined(parts: list[EncryptedArray]) -> EncryptedArray:
    return parts[0].joined(parts[1:])

"""One masked mini-batch of one client, both parties in one process, every result checked: the unit of cost.

The steps are those of docs/packing.md: the server holds noisy weights W~ = W + E, the client holds E and the embeddings
G, and the three products G W, G^T D and D W^T are computed under encryption, exactly, in integers.

::

    FWD 1  C -> S   [[G]] in layout A (and B), [[E]] in layout E
    FWD 2  S -> C   C1 = [[G]] W~ + mask
    FWD 3  C -> S   V = Dec(C1) - G E                        S: V - mask = G W
    BWD 4  S -> C   C2 = [[G]]^T D_s + mask                  (reversed: S sends [[D_s]], C computes with its G)
           S -> C   C3 = W~ D - [[E]] D, re-randomised       C: Dec(C3) = D W^T
    BWD 5  C -> S   V2 = E' - E - Dec(C2)                    S: W~ + V2 + mask = (W - G^T D_s) + E'
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto import Decryptor, Encryptor, Evaluator, MinibatchPlan, PrivateKey
from fedsdg.crypto.randomness import signed

Matrix = npt.NDArray[np.int64]
Wide = npt.NDArray[np.object_]


@dataclass
class Keys:
    """Both parties' keys and capabilities; set up once per run, not once per mini-batch."""

    client: PrivateKey
    server: PrivateKey
    backend: str
    client_encryptor: Encryptor = field(init=False)
    client_decryptor: Decryptor = field(init=False)
    server_evaluator: Evaluator = field(init=False)
    server_encryptor: Encryptor = field(init=False)
    server_decryptor: Decryptor = field(init=False)
    client_evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        self.client_encryptor = Encryptor(self.client, self.backend)
        self.client_decryptor = Decryptor(self.client_encryptor)
        self.server_evaluator = Evaluator(self.client.public_key, self.backend)
        self.server_encryptor = Encryptor(self.server, self.backend)
        self.server_decryptor = Decryptor(self.server_encryptor)
        self.client_evaluator = Evaluator(self.server.public_key, self.backend)


class Clock:
    """CPU (or wall) seconds by step."""

    def __init__(self, wall: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self._now = time.perf_counter if wall else time.process_time

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Add the time of the block to a step."""
        start = self._now()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + self._now() - start

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())


class MaskedMinibatch:
    """Runs mini-batches with random data of the full range, and asserts that each result is exact."""

    def __init__(self, plan: MinibatchPlan, keys: Keys) -> None:
        self.plan = plan
        self.keys = keys
        bits = plan.values
        d, k = plan.columns, plan.outputs
        self.weights = _random(d, k, bits.weight - 2).astype(object)
        self.share = _wide(d, k, bits.share)
        self.noisy = self.weights + self.share

    def step(self, clock: Clock) -> int:
        """Run one mini-batch and return the bytes that crossed the wire."""
        plan, bits = self.plan, self.plan.values
        G = _random(plan.batch, plan.columns, bits.embedding)
        D = _random(plan.batch, plan.outputs, bits.gradient)
        D_step = _random(plan.batch, plan.outputs, bits.step)
        wire = self._forward(G, clock)
        if plan.gradient == "columns":
            wire += self._update_by_columns(G, D_step, clock)
        else:
            wire += self._update_reversed(G, D_step, clock)
        return wire + self._backward(D, clock)

    # -- G W -------------------------------------------------------------------------------------------------------

    def _forward(self, G: Matrix, clock: Clock) -> int:
        plan, keys, k = self.plan, self.keys, self.plan.outputs
        n = keys.client.public_key.n
        blocks, d = plan.forward_blocks, plan.columns
        with clock("C encrypt A"):
            packed = [plan.forward.pack_rows(G[rows].T) for rows in blocks]
            a_bytes = keys.client_encryptor.encrypt(_flat(packed), (len(blocks), d)).to_bytes()
        with clock("S validate"):
            A = keys.server_evaluator.load(a_bytes, (len(blocks), d))
        with clock("S C1 = [[G]] W~"):
            product = keys.server_evaluator.dot(A, self.noisy, plan.values.noisy_weight)
        with clock("S mask C1"):
            masked, rho = keys.server_evaluator.mask(product)
            c1_bytes = masked.to_bytes()
        with clock("C decrypt C1"):
            C1 = keys.client_decryptor.decrypt(keys.client_decryptor.load(c1_bytes, (len(blocks), k)))
        with clock("C remove G E"):
            share = self.share.T.tolist()
            V = [
                (C1[i * k + o] - sum(p * e for p, e in zip(packed[i], share[o], strict=True))) % n
                for i in range(len(blocks))
                for o in range(k)
            ]
        with clock("S unpack Z"):
            Z = np.concatenate(
                [
                    plan.forward.unpack_rows(
                        [V[i * k + o] - rho[i * k + o] for o in range(k)], rows.stop - rows.start, n
                    ).T
                    for i, rows in enumerate(blocks)
                ]
            )
        _check(Z, G.astype(object) @ self.weights, "G W")
        return len(a_bytes) + len(c1_bytes) + len(V) * keys.client.public_key.plain_bytes

    # -- W <- W - G^T D_s ------------------------------------------------------------------------------------------

    def _update_by_columns(self, G: Matrix, D_step: Matrix, clock: Clock) -> int:
        plan, keys, k = self.plan, self.keys, self.plan.outputs
        n = keys.client.public_key.n
        blocks, B = plan.update_blocks, plan.batch
        with clock("C encrypt B"):
            packed = _flat([plan.update.pack_rows(G[:, columns]) for columns in blocks])
            b_bytes = keys.client_encryptor.encrypt(packed, (len(blocks), B)).to_bytes()
        with clock("S validate"):
            Bs = keys.server_evaluator.load(b_bytes, (len(blocks), B))
        with clock("S C2 = [[G]]^T D"):
            product = keys.server_evaluator.dot(Bs, D_step, plan.values.step)
        with clock("S mask C2"):
            masked, rho = keys.server_evaluator.mask(product)
            c2_bytes = masked.to_bytes()
        with clock("C decrypt C2"):
            C2 = keys.client_decryptor.decrypt(keys.client_decryptor.load(c2_bytes, (len(blocks), k)))
        with clock("C new share, V2"):
            fresh = _wide(plan.columns, k, plan.values.share)
            difference = fresh - self.share
            V2 = [
                (plan.update.pack_wide(difference[columns, o].tolist()) - C2[i * k + o]) % n
                for i, columns in enumerate(blocks)
                for o in range(k)
            ]
        with clock("S update W~"):
            noisy = self.noisy.copy()
            for i, columns in enumerate(blocks):
                unmasked = [V2[i * k + o] + rho[i * k + o] for o in range(k)]
                count = columns.stop - columns.start
                noisy[columns] += plan.update.unpack_rows(unmasked, count, n, guard_bits=1).astype(object).T
        self._replace_weights(G, D_step, noisy, fresh)
        return len(b_bytes) + len(c2_bytes) + len(V2) * keys.client.public_key.plain_bytes

    def _update_reversed(self, G: Matrix, D_step: Matrix, clock: Clock) -> int:
        plan, keys, d = self.plan, self.keys, self.plan.columns
        n = keys.server.public_key.n
        blocks, B = plan.update_blocks, plan.batch
        with clock("S encrypt D"):
            packed = _flat([plan.update.pack_rows(D_step[:, outputs]) for outputs in blocks])
            d_bytes = keys.server_encryptor.encrypt(packed, (len(blocks), B)).to_bytes()
        with clock("C validate"):
            Ds = keys.client_evaluator.load(d_bytes, (len(blocks), B))
        with clock("C V2 = E' - E - G^T [[D]]"):
            product = keys.client_evaluator.dot(Ds, -G, plan.values.embedding)
        with clock("C new share, V2"):
            fresh = _wide(d, plan.outputs, plan.values.share)
            difference = fresh - self.share
            plain = [plan.update.pack_wide(difference[j, outputs].tolist()) for outputs in blocks for j in range(d)]
            v2_bytes = keys.client_evaluator.add_fresh(product, plain).to_bytes()
        with clock("S decrypt V2"):
            V2 = keys.server_decryptor.decrypt(keys.server_decryptor.load(v2_bytes, (len(blocks), d)))
        with clock("S update W~"):
            noisy = self.noisy.copy()
            for i, outputs in enumerate(blocks):
                count = outputs.stop - outputs.start
                slots = plan.update.unpack_rows(V2[i * d : (i + 1) * d], count, n, guard_bits=1)
                noisy[:, outputs] += slots.astype(object)
        self._replace_weights(G, D_step, noisy, fresh)
        return len(d_bytes) + len(v2_bytes)

    def _replace_weights(self, G: Matrix, D_step: Matrix, noisy: Wide, fresh: Wide) -> None:
        updated = self.weights - G.astype(object).T @ D_step.astype(object)
        _check(noisy - fresh, updated, "W - G^T D")
        self.old_noisy, self.old_share, self.old_weights = self.noisy, self.share, self.weights
        # Random full-range data would soon drive W out of its range; start the next mini-batch within it.
        self.weights = _random(self.plan.columns, self.plan.outputs, self.plan.values.weight - 2).astype(object)
        self.share = fresh
        self.noisy = self.weights + fresh

    # -- D W^T -----------------------------------------------------------------------------------------------------

    def _backward(self, D: Matrix, clock: Clock) -> int:
        plan, keys = self.plan, self.keys
        n = keys.client.public_key.n
        blocks, k, d, m = plan.backward_blocks, plan.outputs, plan.columns, plan.samples_per_result
        slots, results = plan.backward, -(-plan.batch // plan.samples_per_result)
        with clock("C encrypt E"):
            base = [[slots.pack_wide(self.old_share[columns, o].tolist()) for o in range(k)] for columns in blocks]
            copies = [[p << (slots.width * d * i) for i in range(m) for p in row] for row in base]
            e_bytes = keys.client_encryptor.encrypt(_flat(copies), (len(blocks), m * k)).to_bytes()
        with clock("S validate"):
            E = keys.server_evaluator.load(e_bytes, (len(blocks), m * k))
        padded = np.zeros((results * m, k), np.int64)
        padded[: plan.batch] = D
        with clock("S C3 = W~ D - [[E]] D"):
            by_copy = padded.reshape(results, m, k).transpose(1, 2, 0).reshape(m * k, results)
            product = keys.server_evaluator.dot(E, -by_copy, plan.values.gradient)
            plain = []
            for columns in blocks:
                noisy = [slots.pack_wide(self.old_noisy[columns, o].tolist()) for o in range(k)]
                of_sample = [sum(w * v for w, v in zip(noisy, row, strict=True)) for row in padded.tolist()]
                for r in range(results):
                    plain.append(sum((mpz(of_sample[r * m + i]) << (slots.width * d * i) for i in range(m)), mpz(0)))
        with clock("S re-randomise C3"):
            c3_bytes = keys.server_evaluator.add_fresh(product, plain).to_bytes()
        with clock("C decrypt C3"):
            C3 = keys.client_decryptor.decrypt(keys.client_decryptor.load(c3_bytes, (len(blocks), results)))
        with clock("C unpack dL/dG"):
            parts = []
            for i, columns in enumerate(blocks):
                per_result = columns.stop - columns.start if m == 1 else m * d
                unpacked = slots.unpack_rows(C3[i * results : (i + 1) * results], per_result, n)
                parts.append(unpacked.reshape(results * m, -1)[: plan.batch])
            dG = np.concatenate(parts, axis=1)
        _check(dG, D.astype(object) @ self.old_weights.T, "D W^T")
        return len(e_bytes) + len(c3_bytes)


def _check(got: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic], what: str) -> None:
    if not np.array_equal(got.astype(object), wanted):
        raise AssertionError(f"the encrypted product {what} is not exact")


def _random(rows: int, columns: int, bits: int) -> Matrix:
    """Data of the full range, from `secrets` only because nothing here needs a seed."""
    limit = (1 << bits) - 1
    return np.array([secrets.randbelow(2 * limit + 1) - limit for _ in range(rows * columns)]).reshape(rows, columns)


def _wide(rows: int, columns: int, bits: int) -> Wide:
    return np.array(signed(bits, rows * columns), object).reshape(rows, columns)


def _flat(rows: list[list[mpz]]) -> list[mpz]:
    return [value for row in rows for value in row]

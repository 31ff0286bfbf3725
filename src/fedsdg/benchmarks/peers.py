"""The same work done with what a user would pick instead: python-paillier (`phe`) and SecretFlow's HEU.

Both are compared against, never depended on. Every function returns CPU seconds of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsdg.crypto import PrivateKey

Matrix = npt.NDArray[np.float64]


def seconds_per(work: Callable[[], Any], repeats: int = 3) -> float:
    """Return the best CPU time of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def phe_keys(key: PrivateKey) -> tuple[Any, Any] | None:
    """Return our key as a `phe` key pair, or None where `phe` is not installed."""
    try:
        from phe import paillier
    except ImportError:
        return None
    public = paillier.PaillierPublicKey(int(key.public_key.n))
    return public, paillier.PaillierPrivateKey(public, int(key.p), int(key.q))


def phe_operations(key: PrivateKey) -> dict[str, float] | None:
    """Milliseconds of `phe` per operation on floats, the numbers its users have."""
    keys = phe_keys(key)
    if keys is None:
        return None
    public, private = keys
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=8).tolist(), rng.normal(size=8).tolist()
    encrypted = [public.encrypt(v) for v in values]
    scalar = 0xABCDE1  # 24 bits

    def dot() -> Any:
        total = encrypted[0] * weights[0]
        for c, w in zip(encrypted[1:], weights[1:], strict=True):
            total = total + c * w
        return total

    return {
        "encrypt": 1e3 * seconds_per(lambda: [public.encrypt(v) for v in values]) / len(values),
        "decrypt": 1e3 * seconds_per(lambda: [private.decrypt(c) for c in encrypted]) / len(values),
        "add": 1e3 * seconds_per(lambda: [encrypted[0] + c for c in encrypted * 20]) / (20 * len(values)),
        "multiply": 1e3 * seconds_per(lambda: [c * scalar for c in encrypted]) / len(values),
        "dot": 1e3 * seconds_per(dot) / len(values),
    }


def heu_operations(bits: int) -> dict[str, float] | None:
    """Milliseconds of HEU's Paillier (ZPaillier) per operation on integers, or None where it is not installed."""
    try:
        from heu import phe as heu_phe
    except ImportError:
        return None
    kit = heu_phe.setup(heu_phe.SchemaType.ZPaillier, bits)
    encryptor, decryptor, evaluator = kit.encryptor(), kit.decryptor(), kit.evaluator()
    values = list(range(1, 17))
    encrypted = [encryptor.encrypt_raw(v) for v in values]
    scalar, weights = 0xABCDE1, [0xABCDE1 + v for v in values]
    plain = kit.plaintext(scalar)
    plains = [kit.plaintext(w) for w in weights]

    def dot() -> Any:
        total = evaluator.mul(encrypted[0], plains[0])
        for c, w in zip(encrypted[1:], plains[1:], strict=True):
            total = evaluator.add(total, evaluator.mul(c, w))
        return total

    return {
        "encrypt": 1e3 * seconds_per(lambda: [encryptor.encrypt_raw(v) for v in values]) / len(values),
        "decrypt": 1e3 * seconds_per(lambda: [decryptor.decrypt_raw(c) for c in encrypted]) / len(values),
        "add": 1e3 * seconds_per(lambda: [evaluator.add(encrypted[0], c) for c in encrypted * 20]) / (20 * len(values)),
        "multiply": 1e3 * seconds_per(lambda: [evaluator.mul(c, plain) for c in encrypted]) / len(values),
        "dot": 1e3 * seconds_per(dot) / len(values),
    }


@dataclass(frozen=True)
class ElementwiseMinibatch:
    """CPU seconds of one mini-batch done element by element, measured on a part and scaled."""

    encrypt: float
    products: float
    decrypt: float
    rerandomise: float

    @property
    def total(self) -> float:
        """The same work as ours: `phe`, too, re-randomises a result when its ciphertext is taken for sending."""
        return self.without_rerandomisation + self.rerandomise

    @property
    def without_rerandomisation(self) -> float:
        """For programs that switch that off, and so leak their weights to the key owner."""
        return self.encrypt + self.products + self.decrypt


def phe_minibatch(
    key: PrivateKey, batch: int, columns: int, outputs: int, *, integers: bool, repeats: int = 1
) -> ElementwiseMinibatch | None:
    """Return the best of several runs of `phe` doing one mini-batch, or None where it is not installed."""
    keys = phe_keys(key)
    if keys is None:
        return None
    runs = [_phe_minibatch(*keys, batch, columns, outputs, integers) for _ in range(repeats)]
    return min(runs, key=lambda run: run.total)


def _phe_minibatch(
    public: Any, private: Any, batch: int, columns: int, outputs: int, integers: bool
) -> ElementwiseMinibatch:
    """Do the three products of a mini-batch with `phe`, on two samples and a few columns, and scale to all of it.

    Weights are plain and narrow: floats as its users write them, or (faster for `phe`) integers of our value ranges.
    The wide noisy weights that the protocol needs would cost it about twice as much in the forward product.
    """
    rng = np.random.default_rng(0)

    def draw(rows: int, cols: int, bits: int, scale: float) -> list[list[Any]]:
        if integers:
            return [[int(v) for v in row] for row in rng.integers(-(1 << bits) + 1, 1 << bits, (rows, cols)).tolist()]
        return [[float(v) for v in row] for row in (rng.normal(size=(rows, cols)) * scale).tolist()]

    samples, some_columns = 2, 2
    G = draw(samples, columns, 16, 1.0)
    W = draw(columns, outputs, 40, 0.2)
    D = draw(samples, outputs, 16, 1.0 / batch)
    E = draw(some_columns, outputs, 40, 1.0)
    clock: dict[str, float] = {}

    def timed(name: str, factor: float, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        clock[name] = clock.get(name, 0.0) + (time.process_time() - start) * factor
        return result

    def weighted(ciphertexts: list[Any], weights: list[Any]) -> Any:
        total = ciphertexts[0] * weights[0]
        for c, w in zip(ciphertexts[1:], weights[1:], strict=True):
            total = total + c * w
        return total

    per_sample, per_column = batch / samples, columns / some_columns
    encG = timed("encrypt", per_sample, lambda: [[public.encrypt(v) for v in row] for row in G])
    encE = timed("encrypt", per_column, lambda: [[public.encrypt(v) for v in row] for row in E])
    Z = timed(
        "products",
        per_sample,
        lambda: [[weighted(row, [W[j][o] for j in range(columns)]) + 1 for o in range(outputs)] for row in encG],
    )
    # G^T D: the sum over the batch is measured on two samples, i.e. two products and one addition per weight.
    timed(
        "products",
        per_sample,
        lambda: [
            [weighted([encG[b][j] for b in range(samples)], [D[b][o] for b in range(samples)]) for o in range(outputs)]
            for j in range(columns)
        ],
    )
    dG = timed(
        "products",
        per_sample * per_column,
        lambda: [[1 - weighted(encE[j], D[b]) for j in range(some_columns)] for b in range(samples)],
    )
    plain = timed("decrypt", per_sample, lambda: [[private.decrypt(c) for c in row] for row in Z])
    timed("decrypt", per_sample * per_column, lambda: [[private.decrypt(c) for c in row] for row in dG])
    clock["decrypt"] += columns * outputs * seconds_per(lambda: private.decrypt(Z[0][0]))
    results = batch * outputs + columns * outputs + batch * columns
    clock["rerandomise"] = results * seconds_per(lambda: Z[0][0].obfuscate())
    if not np.allclose(np.array(plain, float), np.array(G, float) @ np.array(W, float) + 1, rtol=1e-6):
        raise AssertionError("phe disagrees with the plain product")
    return ElementwiseMinibatch(**clock)

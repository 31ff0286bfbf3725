"""One masked mini-batch of one client, both parties in one process, every result checked: the unit of cost.

The real client share and the real server weights do the work, on random data of the full range; the three products G W,
G^T D and D W^T are compared with the clear computation after every mini-batch.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedsdg.client.interactive_share import ClientKeys, DenseShare
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, MinibatchPlan, PrivateKey
from fedsdg.server.noisy_weights import DenseNoisyWeights, ServerKeys

Matrix = npt.NDArray[np.int64]


@dataclass
class Keys:
    """Both parties' keys and capabilities; set up once per run, not once per mini-batch."""

    client: PrivateKey
    server: PrivateKey
    backend: str
    of_client: ClientKeys = field(init=False)
    of_server: ServerKeys = field(init=False)

    def __post_init__(self) -> None:
        client, server = Encryptor(self.client, self.backend), Encryptor(self.server, self.backend)
        self.of_client = ClientKeys(client, Decryptor(client), Evaluator(self.server.public_key, self.backend))
        self.of_server = ServerKeys(Evaluator(self.client.public_key, self.backend), server, Decryptor(server))


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

    def step(self, clock: Clock) -> int:
        """Run one mini-batch and return the bytes that crossed the wire."""
        plan, bits = self.plan, self.plan.values
        B, d, k = plan.batch, plan.columns, plan.outputs
        W = _random(d, k, bits.weight)
        G, D, D_step = _random(B, d, bits.embedding), _random(B, k, bits.gradient), _random(B, k, bits.step)
        nothing = np.zeros((B, max(d, k)), np.int64)
        client = DenseShare(W, bits, self.keys.of_client)
        server = DenseNoisyWeights(client.first_noisy_weights, bits, self.keys.of_server)
        client.forced_plan = server.forced_plan = plan
        with clock("C encrypt [[G]], [[E]]"):
            embedding = client.embed(G, training=True)
        with clock("S C1 = [[G]] W~ + mask"):
            c1 = server.weigh(embedding.by_column, B)
        with clock("C decrypt C1, remove G E"):
            v = client.remove(c1, nothing[:, :k])
        with clock("S unmask G W"):
            Z = server.unmask(v)
        with clock("S C2 = [[G]]^T D + mask" if plan.gradient == "columns" else "S encrypt [[D]]"):
            c2 = server.weight_gradient(embedding.by_sample, D_step)
        with clock("S C3 = W~ D - [[E]] D"):
            c3 = server.embedding_gradient(embedding.share or b"", D, nothing[:, :d])
        with clock("C decrypt C3 = dL/dG"):
            dG = client.gradient(c3)
        with clock("C new share, V2" if plan.gradient == "columns" else "C new share, V2 = E' - E - G^T [[D]]"):
            v2 = client.update(c2)
        with clock("S update W~"):
            server.update(v2)
        _check(Z, G.astype(object) @ W.astype(object), "G W")
        _check(dG, D.astype(object) @ W.astype(object).T, "D W^T")
        _check(server.noisy - client.share, W.astype(object) - G.astype(object).T @ D_step.astype(object), "W - G^T D")
        sent = (embedding.by_column, embedding.by_sample, embedding.share, c1, v, c2, c3, v2)
        return sum(len(blob) for blob in sent if blob is not None)


def _check(got: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic], what: str) -> None:
    if not np.array_equal(got.astype(object), wanted):
        raise AssertionError(f"the encrypted product {what} is not exact")


def _random(rows: int, columns: int, bits: int) -> Matrix:
    """Data of the full range, from `secrets` only because nothing here needs a seed."""
    limit = (1 << bits) - 1
    return np.array([secrets.randbelow(2 * limit + 1) - limit for _ in range(rows * columns)]).reshape(rows, columns)

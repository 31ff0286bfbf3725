"""Algorithm 2: forward propagation with weights that nobody holds.

::

    A2.1  S -> C   EmbedBatch      C -> S   EncryptedEmbedding   [[G]] (and [[E]])
    A2.2  S -> C   RemoveShare     C1 = [[G]] W~ + rho
    A2.3  C -> S   MaskedSum       V = Dec(C1) - G E + tau       S: V - rho = G W + tau
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register

Purpose = Literal["training", "validation", "selected", "refit", "test", "prediction"]


@register
@dataclass(frozen=True)
class PhaseStarted(Message):
    """A client's answer to `StartPhase`.

    Server learns: the width of the client's embedding and W~ = W0 + E, which hides W0 up to 2^-sigma.
    """

    width: int
    noisy_weights: tuple[int, ...]  # C order; (width, outputs) dense, (width,) element-wise


@register
@dataclass(frozen=True)
class StartPhase(Request[PhaseStarted]):
    """Start the gated or the compact phase with fresh models.

    Client learns: public sizes (clients, all columns, training rows, task outputs).
    """

    name: Literal["gated", "compact"]
    n_clients: int
    total_columns: int
    n_train_rows: int
    task_outputs: int

    reply: ClassVar = PhaseStarted


@register
@dataclass(frozen=True, eq=False)
class EncryptedEmbedding(Message):
    """A2.1, under the client's key.

    Server learns: the number of open embedding dimensions (from the sizes).
    """

    by_column: bytes  # layout A
    by_sample: bytes | None  # layout B; absent outside training and when the gradient is reversed
    share: bytes | None  # layout E; absent outside training


@register
@dataclass(frozen=True, eq=False)
class EmbedBatch(Request[EncryptedEmbedding]):
    """A2.1.

    Client learns: which samples form the batch.
    """

    rows: npt.NDArray[np.int64]
    step: int
    purpose: Purpose

    reply: ClassVar = EncryptedEmbedding


@register
@dataclass(frozen=True, eq=False)
class MaskedSum(Message):
    """A2.3.

    Server learns: Z = G W + tau per sample: embeddings up to one unknown linear map.
    """

    values: bytes  # residues modulo the client's n


@register
@dataclass(frozen=True, eq=False)
class RemoveShare(Request[MaskedSum]):
    """A2.2.

    Client learns: nothing: rho is uniform in Z_n and every ciphertext is fresh.
    """

    product: bytes  # C1, under the client's key

    reply: ClassVar = MaskedSum

"""Algorithm 2 at the server: forward propagation with noisy weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from fedsdg.data.arrays import IntArray
from fedsdg.messages.base import Channel
from fedsdg.messages.secure_forward import EmbedBatch, EncryptedEmbedding, Purpose, RemoveShare
from fedsdg.server.noisy_weights import NoisyWeights


def secure_forward(
    channel: Channel, weights: Mapping[str, NoisyWeights], rows: IntArray, step: int, purpose: str
) -> dict[str, IntArray]:
    """Return Z_m = G_m W_m + tau_m of every client; nobody holds W_m, the server never sees G_m."""
    # A2.1 Clients: sample gates, embed, encrypt.
    request = EmbedBatch(rows, step, cast(Purpose, purpose))
    embeddings: Mapping[str, EncryptedEmbedding] = channel.exchange(dict.fromkeys(weights, request))
    # A2.2 Server: weigh with the noisy weights, mask with rho.
    products = {name: weights[name].weigh(reply.by_column, len(rows)) for name, reply in embeddings.items()}
    # A2.3 Clients: decrypt, cancel their own share, add tau.
    sums = channel.exchange({name: RemoveShare(product) for name, product in products.items()})
    # A2.4 Server: unmask. What the backward pass needs of the embedding is kept until then.
    for name, reply in embeddings.items():
        weights[name].keep_ciphertexts(reply.by_sample, reply.share)
    return {name: weights[name].unmask(reply.values) for name, reply in sums.items()}

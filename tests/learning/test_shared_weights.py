"""The claim that carries the `masked` profile: training does not notice that nobody holds the weights.

The server's share is W + E, the client's is E, fresh and wide at every step; results are put together from both.
This is the algebra of the protocol without its ciphertexts.
"""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from learning_helpers import deal, private_seeds

from fedsdg.learning import plain_federation
from fedsdg.learning.plain_training import train_plain

SHARE_BITS = 40 + 64


class SharedLayer:
    """An interactive layer whose weights exist only as two shares of Python integers."""

    def __init__(self, kind, weights):
        self.dense = kind == "dense"
        self.client_share = self.fresh(weights.shape)
        self.server_share = weights.astype(object) + self.client_share

    @staticmethod
    def fresh(shape):
        count = int(np.prod(shape))
        values = [secrets.randbelow(2 << SHARE_BITS) - (1 << SHARE_BITS) for _ in range(count)]
        return np.array(values, dtype=object).reshape(shape)

    @property
    def width(self):
        return self.server_share.shape[1] if self.dense else len(self.server_share)

    @property
    def weights(self):
        return (self.server_share - self.client_share).astype(np.int64)  # the test looks; no party could

    def restore(self, weights):
        self.client_share = self.fresh(weights.shape)
        self.server_share = weights.astype(object) + self.client_share

    def keep(self, dimensions):
        self.client_share, self.server_share = self.client_share[dimensions], self.server_share[dimensions]

    def forward(self, embeddings, dither):
        G = embeddings.astype(object)
        noisy, own = (G @ share if self.dense else G * share for share in (self.server_share, self.client_share))
        return (noisy - own + dither).astype(np.int64)

    def backward(self, gradients, dither):
        D = gradients.astype(object)
        noisy, own = (D @ share.T if self.dense else D * share for share in (self.server_share, self.client_share))
        return (noisy - own + dither).astype(np.int64)

    def update(self, embeddings, step_gradients):
        G, D = embeddings.astype(object), step_gradients.astype(object)
        step = G.T @ D if self.dense else (G * D).sum(axis=0)
        fresh = self.fresh(self.client_share.shape)
        self.server_share = self.server_share + (fresh - self.client_share - step)
        self.client_share = fresh


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_training_on_shares_equals_training_in_the_clear_bit_for_bit(interactive, short_config, monkeypatch):
    stream = np.random.default_rng(4)
    features = stream.standard_normal((300, 12))
    labels = (features[:, 0] * features[:, 1] > 0).astype(int)
    tables, _ = deal(features)
    config = short_config.with_changes(interactive=interactive)

    def learn():
        model = train_plain(tables, labels, config, private_seeds=private_seeds(tables))
        weights = [layer.weights.tolist() for layer in model.federation.layers.values()]
        return model.result.losses, model.selected_columns, weights, model.outputs(tables).numpy().tobytes()

    in_the_clear = learn()
    monkeypatch.setattr(plain_federation, "build_layer", lambda kind, weights, _: SharedLayer(kind, weights))
    assert learn() == in_the_clear

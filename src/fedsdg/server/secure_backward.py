"""Algorithm 3 at the server: backward propagation, and the update of the noisy weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsdg.data.arrays import IntArray
from fedsdg.errors import ProtocolError
from fedsdg.learning.server_learner import InteractiveGradient
from fedsdg.messages.base import Channel
from fedsdg.messages.secure_backward import ApplyGradient
from fedsdg.server.noisy_weights import NoisyWeights


def secure_backward(
    channel: Channel,
    weights: Mapping[str, NoisyWeights],
    gradients: Mapping[str, InteractiveGradient],
    dithers: Mapping[str, IntArray],
    step: int,
) -> dict[str, tuple[int, ...]]:
    """Bring dL/dG to every client and update W~; return the positions kept by clients that dropped dimensions."""
    # A3.1 Server: C2 and C3, both with the weights and the share of the forward pass.
    requests = {}
    for name, noisy in weights.items():
        by_sample, share = noisy.take_ciphertexts()
        requests[name] = ApplyGradient(
            step,
            noisy.weight_gradient(by_sample, gradients[name].step_gradient),
            noisy.embedding_gradient(share, gradients[name].gradient, dithers[name]),
        )
    # A3.2 Clients: decrypt dL/dG, draw a new share, learn.
    replies = channel.exchange(requests)
    # A3.3 Server: W~ <- (W - G^T D_s) + E'; then drop what the clients dropped.
    kept = {}
    for name, reply in replies.items():
        weights[name].update(reply.update)
        if reply.kept is not None:
            kept[name] = _checked_positions(name, reply.kept, len(weights[name].noisy))
            weights[name].keep(np.array(kept[name], np.int64))
    return kept


def _checked_positions(name: str, positions: tuple[int, ...], width: int) -> tuple[int, ...]:
    if not positions or list(positions) != sorted(set(positions)) or positions[0] < 0 or positions[-1] >= width:
        raise ProtocolError(f"client {name!r} kept embedding dimensions that it does not have")
    return positions

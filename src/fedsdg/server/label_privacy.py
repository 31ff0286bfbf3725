"""Label protection: randomised response, one draw per sample for ever.

With c classes a label stays as it is with probability e^eps / (e^eps + c - 1) and is otherwise replaced by one of the
other classes. The draw is a keyed function of the sample's position, so the same label owner with the same private seed
gives the same answer in every run and in every step: repeating questions teaches nothing. Everything that clients
take part in uses the randomised labels; the top model is refitted on the clean ones afterwards, when no message to a
client follows.
"""

from __future__ import annotations

import hmac
import math
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedsdg.errors import ConfigError


def inference_bound(epsilon: float, n_classes: int) -> float:
    """Return the best possible accuracy of guessing a label, for an attacker who started from uniform classes."""
    return math.exp(epsilon) / (math.exp(epsilon) + n_classes - 1)


def randomised_response(labels: NDArray[np.generic], epsilon: float, secret: bytes) -> NDArray[np.generic]:
    """Return labels of which each is kept with probability e^eps / (e^eps + c - 1)."""
    classes, codes = np.unique(labels, return_inverse=True)
    c = len(classes)
    if c < 2:
        raise ConfigError("label_epsilon needs at least two classes.")
    keep = inference_bound(epsilon, c)
    out = codes.copy()
    for row, code in enumerate(codes.tolist()):
        digest = hmac.digest(secret, f"fedsdg label response v1|{row}".encode(), sha256)
        if int.from_bytes(digest[:8], "big") / 2**64 >= keep:
            other = int.from_bytes(digest[8:16], "big") % (c - 1)
            out[row] = other if other < code else other + 1
    return np.asarray(classes[out])

"""Label protection: randomised response, one draw per sample for ever.

With c classes a label stays as it is with probability e^eps / (e^eps + c - 1) and is otherwise replaced by one of the
other classes. The draw is a keyed function of the person's id, under a key that the label owner keeps as long as the
labels live: the same answer in every step and every run, so repeating questions teaches nothing. (Another epsilon draws
anew, and the two add up.) Everything that clients take part in uses the randomised labels; the top model is refitted on
the clean ones afterwards, when no message to a client follows.
"""

from __future__ import annotations

import hmac
import math
import os
import secrets
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.errors import ConfigError


def inference_bound(epsilon: float, n_classes: int) -> float:
    """Return the best possible accuracy of guessing a label, for an attacker who started from uniform classes."""
    return math.exp(epsilon) / (math.exp(epsilon) + n_classes - 1)


def randomised_response(
    labels: NDArray[np.generic], epsilon: float, label_key: bytes, ids: Sequence[str] | None = None
) -> NDArray[np.generic]:
    """Return labels of which each is kept with probability e^eps / (e^eps + c - 1).

    The draw of a person is a keyed function of the id (without ids: of the row), so the same key answers for ever.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    c = len(classes)
    if c < 2:
        raise ConfigError("label_epsilon needs at least two classes.")
    keep = inference_bound(epsilon, c)
    out = codes.copy()
    for row, code in enumerate(codes.tolist()):
        who = f"row {row}" if ids is None else f"id {ids[row]}"
        digest = hmac.digest(label_key, f"fedsdg label response v1|{epsilon!r}|{who}".encode(), sha256)
        if int.from_bytes(digest[:8], "big") / 2**64 >= keep:
            other = int.from_bytes(digest[8:16], "big") % (c - 1)
            out[row] = other if other < code else other + 1
    return np.asarray(classes[out])


def load_label_key(path: Path) -> bytes:
    """Read the label owner's key, or make it: readable by its owner only, used for as long as the labels live."""
    try:
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_bytes(32).hex() + "\n")
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as problem:
        raise ConfigError(f"The label key {path} cannot be used: {type(problem).__name__}.") from None
    if len(key) < 16:
        raise ConfigError(f"The label key {path} is too short: at least 16 bytes in hexadecimal digits are needed.")
    return key

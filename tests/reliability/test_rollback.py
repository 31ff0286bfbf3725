"""What a server gains when it lets clients go back to a checkpoint: nothing if it repeats what was lost; if it does
something else, more than it should. docs/reliability.md says the same in words.

Everything here is done with the messages that a client answers, and with what the server holds.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from reliability_helpers import SEEDS, Crash, crash_after_step, data, run, settings, storage_in

from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.errors import PeerError
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.server_learner import InteractiveGradient
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.federation import Checkpoint, MaskedFederation
from fedsdg.server.keeper import run_id_of
from fedsdg.simulation import Storage
from fedsdg.state_files import Checkpoints, under_prefix

JOB = settings(interactive="elementwise")
FIXED = JOB.training.fixed_point


@pytest.fixture(scope="module")
def crashed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("crashed")
    with pytest.raises(Crash):
        run(JOB, storage=storage_in(folder), watch=crash_after_step(3))
    return folder


class Session:
    """A server with clients that went back to checkpoint 2: how often it did so is up to the server."""

    def __init__(self, storage: Storage) -> None:
        tables, ids = data().tables, data().client_ids
        self.roles = {
            name: ClientRole(
                ClientState(
                    LocalClient(name, tables[name], SEEDS[name]),
                    minimum_key_bits=512,
                    allow_test_keys=True,
                    ids=ids[name],
                    folder=folder,
                    checkpoints=Checkpoints(folder / "checkpoints"),
                )
            )
            for name, folder in storage.clients.items()
        }
        arrays, facts = storage.checkpoints.load(2)
        run_id = run_id_of(storage.checkpoints)
        self.server = MaskedFederation(
            InProcessChannel(self.roles),
            list(self.roles),
            JOB.training,
            key_bits=512,
            sigma=JOB.sigma,
            n_rows=None,
            checkpoint=Checkpoint(2, run_id, under_prefix("federation/", arrays), facts["federation"]),
            allow_test_keys=True,
        )

    def look(self, rows: np.ndarray, step: int = 9, purpose: str = "validation") -> np.ndarray:
        return self.server.forward(rows, step, purpose)["left"]

    def update(self, gradient: np.ndarray, step: int = 2) -> None:
        """Send a gradient of the server's own making for the weights, and none for the client's model."""
        gradients = {
            name: InteractiveGradient(np.zeros((len(gradient), w), np.int64), np.tile(gradient[:, None], (1, w)))
            for name, w in ((name, weights.noisy.shape[0]) for name, weights in self.server.weights.items())
        }
        dithers = {name: np.zeros_like(g.gradient) for name, g in gradients.items()}
        self.server.backward(gradients, dithers, step)

    @property
    def weights(self) -> list[int]:
        """The truth, which neither side holds."""
        return [int(w) for w in self.server.weights["left"].noisy - self.roles["left"].state.share.share]

    @property
    def embeddings(self) -> np.ndarray:
        """The truth about the last batch, which the server never holds."""
        return self.roles["left"].state.share._batch


ONE, OTHER = np.arange(0, 20), np.arange(20, 40)


def divisors(differences: np.ndarray) -> list[int]:
    return [math.gcd(*(int(value) for value in column)) for column in differences.T]


def test_an_honest_repetition_shows_the_server_the_same_sums_and_an_independent_sharing(storage):
    first, second = Session(storage), Session(storage)
    assert np.array_equal(first.look(ONE, 2, "training"), second.look(ONE, 2, "training"))
    gradient = np.arange(20)
    first.update(gradient)
    second.update(gradient)
    assert first.weights == second.weights
    noisy = [session.server.weights["left"].noisy for session in (first, second)]
    assert all(abs(int(a) - int(b)) > 2**80 for a, b in zip(*noisy, strict=True))  # two fresh shares, 104 bits wide


def test_within_a_session_no_step_is_answered_twice_and_another_step_has_another_dither(storage):
    session = Session(storage)
    first = session.look(ONE)
    with pytest.raises(PeerError, match="refused EmbedBatch: ProtocolError"):
        session.look(OTHER)
    second = session.look(OTHER, step=10)
    assert divisors(first - second) != [abs(w) for w in session.weights]
    exact = session.embeddings * np.array(session.weights)
    distance = np.abs(second - exact)
    assert 0 < distance.max() < 2**FIXED.forward_dither_bits  # all that hides the exact product: 28 of 48 bits


def test_a_server_that_goes_back_without_need_cancels_the_dither_and_reads_weights_and_embeddings(storage):
    """The same step with other rows: the dither is the same, so it drops out of the difference."""
    first, second = Session(storage), Session(storage)
    Z, other = first.look(ONE), second.look(OTHER)
    found = divisors(Z - other)
    assert found == [abs(w) for w in first.weights]
    read = np.rint(Z / np.array(found, np.float64)).astype(np.int64)
    assert np.array_equal(np.abs(read), np.abs(first.embeddings))


def test_a_server_that_goes_back_and_sends_another_gradient_reads_embeddings_too(storage):
    """The same rows and the same dither, other weights: the difference is a product of two embeddings."""
    seen, embeddings = [], []
    for gradient in (np.zeros(20, np.int64), np.eye(20, dtype=np.int64)[4] * 1000):
        session = Session(storage)
        session.look(ONE, 2, "training")
        embeddings.append(session.embeddings.copy())
        session.update(gradient)
        seen.append(session.look(ONE))
    assert np.array_equal(embeddings[0], embeddings[1])
    assert np.array_equal(seen[0] - seen[1], session.embeddings * embeddings[0][4] * 1000)


def test_a_server_that_lies_about_its_weights_needs_no_going_back(storage):
    """Two looks at the same rows in one session, with a step of 2^38 between the weights: what no dither can hide."""
    session = Session(storage)
    weights = session.server.weights["left"]
    first = session.look(ONE, step=9)
    weights.restore_weights(weights.copy_weights() + (1 << 38))
    second = session.look(ONE, step=10)
    assert np.array_equal(np.rint((second - first) / 2.0**38).astype(np.int64), session.embeddings)


def test_every_going_back_is_counted_where_the_server_cannot_reach(storage):
    for _ in range(3):
        Session(storage)
    for folder in storage.clients.values():
        assert (folder / "checkpoints" / "sessions").stat().st_size == 1 + 3

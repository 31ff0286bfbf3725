"""Each protection, taken away by hand, is noticed by `privacy_helpers.findings`; on the real code it finds nothing."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from gmpy2 import mpz
from privacy_helpers import findings, job, recomputed_first_weights, watched_run

from fedsdg.client import interactive_share
from fedsdg.client.interactive_share import DenseShare, ElementwiseShare, InteractiveShare
from fedsdg.crypto import randomness
from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.crypto.layouts import ValueBits, plan_minibatch
from fedsdg.crypto.nonces import OwnerNonces
from fedsdg.crypto.paillier import Evaluator
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.server_learner import ServerLearner
from fedsdg.server import noisy_weights

LAYERS = ["dense", "elementwise"]


@pytest.fixture(autouse=True)
def _weight_gradient_under_the_clients_key(monkeypatch):
    """Let the dense layer send C2 to the client, whatever the planner thinks is cheaper."""
    for module in (interactive_share, noisy_weights):
        monkeypatch.setattr(module, "plan_minibatch", lambda *sizes: plan_minibatch(*sizes, gradient="columns"))


@pytest.mark.parametrize("interactive", LAYERS)
def test_on_the_real_code_no_attack_succeeds(interactive, monkeypatch):
    run = watched_run(monkeypatch, job(interactive))
    assert run.error is None
    assert len(run.updates) > 20
    assert findings(run) == set()


@pytest.mark.parametrize("interactive", LAYERS)
def test_a_share_that_starts_at_zero_is_found(interactive, monkeypatch):
    original, started = InteractiveShare._draw, []

    def zero_first(self, shape):
        if self in started:
            return original(self, shape)
        started.append(self)
        return np.zeros(shape, object)

    monkeypatch.setattr(InteractiveShare, "_draw", zero_first)
    assert "the first W~ does not hide W0" in findings(watched_run(monkeypatch, job(interactive)))


@pytest.mark.parametrize("interactive", LAYERS)
def test_a_share_that_is_never_renewed_is_found(interactive, monkeypatch):
    original = InteractiveShare._draw

    def same_again(self, shape):
        if not hasattr(self, "share"):
            return original(self, shape)
        return self.share - (2 << self.values.share) if isinstance(self, ElementwiseShare) else self.share

    monkeypatch.setattr(InteractiveShare, "_draw", same_again)
    assert "W~ of one step tells about the next" in findings(watched_run(monkeypatch, job(interactive)))


def test_a_share_no_wider_than_the_weights_is_found(monkeypatch):
    monkeypatch.setattr(ValueBits, "share", property(lambda self: self.weight))
    assert "W~ does not hide W" in findings(watched_run(monkeypatch, job()))


def draw_first_weights_from_public_data(monkeypatch):
    original = ClientLearner.initial_weights

    def from_public_data(self):
        seed = hashlib.sha256(str(self.plan.config.seed).encode()).digest()
        role, name, *_, phase = self._streams.path
        self._streams, kept = RandomStreams(seed, (role, name, phase)), self._streams
        try:
            return original(self)
        finally:
            self._streams = kept

    monkeypatch.setattr(ClientLearner, "initial_weights", from_public_data)


@pytest.mark.parametrize("interactive", LAYERS)
def test_first_weights_from_the_job_file_and_the_joint_seed_are_found(interactive, monkeypatch):
    draw_first_weights_from_public_data(monkeypatch)
    assert "W0 follows from public data" in findings(watched_run(monkeypatch, job(interactive)))


def test_a_server_that_recomputes_the_first_weights_reads_the_first_batch(monkeypatch):
    draw_first_weights_from_public_data(monkeypatch)
    run = watched_run(monkeypatch, job())
    step, G = run.steps[0], run.looks[0].G
    candidates = recomputed_first_weights(run, "gated", step.client)
    W0 = next(w for w in candidates if np.array_equal(w, step.weights)).astype(float)
    stolen = np.rint(step.Z.astype(float) @ np.linalg.pinv(W0)).astype(np.int64)
    assert G.std() > 0
    assert np.array_equal(stolen, G)  # every embedding of the batch, to the last bit


@pytest.mark.parametrize("interactive", LAYERS)
def test_missing_masks_are_found(interactive, monkeypatch):
    monkeypatch.setattr(
        Evaluator, "mask", lambda self, a: (self._add_encrypted(a, [mpz(0)] * a.size), [mpz(0)] * a.size)
    )
    found = findings(watched_run(monkeypatch, job(interactive)))
    assert {"a client reads G W from C1", "a client reads G^T D from C2"} <= found


@pytest.mark.parametrize("interactive", LAYERS)
def test_a_mask_one_bit_too_narrow_is_found(interactive, monkeypatch):
    def narrow(self, a):
        masks = randomness.below(int(self.key.n) // 2, a.size)
        return self._add_encrypted(a, masks), masks

    monkeypatch.setattr(Evaluator, "mask", narrow)
    assert {"C1 is not uniform", "C2 is not uniform"} <= findings(watched_run(monkeypatch, job(interactive)))


def test_a_missing_dither_of_the_client_is_found_because_a_gcd_gives_the_weights(monkeypatch):
    monkeypatch.setattr(
        ClientLearner, "forward_dither", lambda self, shape, step, purpose="training": np.zeros(shape, np.int64)
    )
    run = watched_run(monkeypatch, job("elementwise"))
    assert "the server reads w as a gcd of Z" in findings(run)


def test_a_missing_dither_of_the_server_is_found_because_a_gcd_gives_the_weights(monkeypatch):
    monkeypatch.setattr(
        ServerLearner,
        "backward_dither",
        lambda self, client, rows, step: np.zeros((rows, len(self._open[client])), np.int64),
    )
    run = watched_run(monkeypatch, job("elementwise"))
    assert "a client reads w as a gcd of dL/dG" in findings(run)


@pytest.mark.parametrize("interactive", LAYERS)
def test_missing_re_randomisation_is_found(interactive, monkeypatch):
    def without_a_nonce(self, a, plaintexts):
        rows = self.ring.add_plain(self._own(a), [mpz(m) % self.key.n for m in plaintexts])
        return EncryptedArray(self.key, self.ring, rows, a.shape, nonces=self._nonces, fresh=True)

    monkeypatch.setattr(Evaluator, "_add_encrypted", without_a_nonce)
    assert "C1 is not re-randomised" in findings(watched_run(monkeypatch, job(interactive)))


def test_a_repeated_nonce_is_found(monkeypatch):
    original = OwnerNonces.draw
    monkeypatch.setattr(
        OwnerNonces, "draw", lambda self, count: self.ring.take(original(self, 1), np.zeros(count, np.int64))
    )
    assert "a nonce is missing or repeats" in findings(watched_run(monkeypatch, job()))


def test_an_embedding_gradient_with_the_new_share_and_the_old_noisy_weights_is_found(monkeypatch):
    encrypted, drawn = DenseShare._encrypted_share, InteractiveShare._draw

    def encrypt_the_next(self, plan):
        self.following, present = drawn(self, self.share.shape), self.share
        self.share = self.following
        try:
            return encrypted(self, plan)
        finally:
            self.share = present

    def draw_what_was_encrypted(self, shape):
        return self.__dict__.pop("following", None) if "following" in self.__dict__ else drawn(self, shape)

    monkeypatch.setattr(DenseShare, "_encrypted_share", encrypt_the_next)
    monkeypatch.setattr(InteractiveShare, "_draw", draw_what_was_encrypted)
    run = watched_run(monkeypatch, job())
    assert findings(run) == {"the result is not exact"}

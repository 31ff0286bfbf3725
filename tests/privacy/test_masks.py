"""What a party decrypts tells it nothing: masked values are uniform, and the tests that say so can fail."""

from __future__ import annotations

import numpy as np
import pytest
from gmpy2 import mpz, powmod
from privacy_helpers import (
    is_uniform,
    job,
    ks_distance,
    ks_limit,
    nonce_part,
    same_distribution,
    uncorrelated,
    watched_run,
)

from fedsdg.client import gini_initialization, interactive_share
from fedsdg.client.gini_initialization import mask_counts
from fedsdg.client.interactive_share import ClientKeys, DenseShare, ElementwiseShare
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, ValueBits, randomness
from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.crypto.layouts import plan_minibatch
from fedsdg.data.binning import Binning
from fedsdg.learning.gini import bin_weight
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.server import noisy_weights

N_ROWS, N_COLUMNS, N_BINS = 40, 3, 3


@pytest.fixture(scope="module")
def server():
    """The server's key: encrypt labels, compute under it, decrypt."""
    encryptor = Encryptor(PrivateKey.generate(512, allow_test_size=True))
    return encryptor, Evaluator(encryptor.key), Decryptor(encryptor)


class GiniView:
    """What the server decrypts of one client in Algorithm 1, over many runs of A1.2 on the same data."""

    def __init__(self, server, n_classes: int, repeats: int) -> None:
        encryptor, evaluator, decryptor = server
        stream = np.random.default_rng(1)
        self.layout = GiniLayout(N_ROWS, N_COLUMNS, N_BINS, n_classes, 512, 64)
        labels = stream.integers(0, n_classes, N_ROWS)
        indicators = (labels[:, None] == np.arange(n_classes - 1)).astype(int)
        binning = Binning(stream.integers(0, N_BINS, (N_ROWS, N_COLUMNS)), np.full(N_COLUMNS, N_BINS))
        self.u: list[float] = []
        self.padding: list[float] = []
        self.Y: list[float] = []
        slots, used = self.layout.counts, self.layout.scored_columns * self.layout.items_per_column
        for _ in range(repeats):
            blob = encryptor.encrypt(indicators.ravel().tolist(), indicators.shape).to_bytes()
            reply, _ = mask_counts(blob, binning, self.layout, evaluator)
            counts = decryptor.decrypt(decryptor.load(reply.counts, (self.layout.count_ciphertexts,)))
            values = [
                int(c >> (slots.width * i)) % (1 << slots.width) / (1 << self.layout.mask_bits)
                for c in counts
                for i in range(slots.capacity)
            ]
            self.u += values[:used]
            self.padding += values[used:]
            cross = decryptor.decrypt(decryptor.load(reply.cross_terms, (self.layout.score_ciphertexts,)))
            self.Y += [int(y) / int(encryptor.key.n) for y in cross]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_the_server_decrypts_in_algorithm_one_is_uniform(server, n_classes):
    view = GiniView(server, n_classes, 60)
    assert is_uniform(view.u)
    assert is_uniform(view.Y)
    assert is_uniform(view.padding)  # unused slots are masked like the others


def test_narrow_masks_of_counts_are_found(server, monkeypatch):
    monkeypatch.setattr(gini_initialization, "below", lambda bound, count: randomness.below(bound // 2, count))
    view = GiniView(server, 2, 20)
    assert not is_uniform(view.u)
    assert is_uniform(view.Y)


def test_unmasked_unused_slots_are_found(server, monkeypatch):
    def only_used(bound, count, used=N_BINS * (N_COLUMNS + 1)):
        return randomness.below(bound, count) if count == used else [mpz(0)] * count

    monkeypatch.setattr(gini_initialization, "below", only_used)
    view = GiniView(server, 2, 20)
    assert is_uniform(view.u)
    assert len(view.padding) > 0
    assert not is_uniform(view.padding)


def test_narrow_masks_of_cross_terms_are_found(server, monkeypatch):
    def narrow(self, a):
        masks = randomness.below(int(self.key.n) // 2, a.size)
        return self._add_encrypted(a, masks), masks

    monkeypatch.setattr(Evaluator, "mask", narrow)
    assert not is_uniform(GiniView(server, 2, 80).Y)


# --- Bin membership from nonces ------------------------------------------------------------------------------------


def explained_by_bins(server) -> bool:
    """The server's test of a guess of the bins: its own nonces of the labels, multiplied as the guess says."""
    encryptor, evaluator, decryptor = server
    n = int(encryptor.key.n)
    layout = GiniLayout(N_ROWS, 1, 2, 2, 512, 64)
    codes = np.random.default_rng(4).integers(0, 2, (N_ROWS, 1))
    blob = encryptor.encrypt([1, 0] * (N_ROWS // 2), (N_ROWS, 1)).to_bytes()
    width = 2 * encryptor.key.plain_bytes
    labels = [int.from_bytes(blob[30 + i * width : 30 + (i + 1) * width], "little") for i in range(N_ROWS)]
    nonces = [nonce_part(c, m, n) for c, m in zip(labels, [1, 0] * (N_ROWS // 2), strict=True)]
    reply, _ = mask_counts(blob, Binning(codes, np.array([2])), layout, evaluator)
    received = decryptor.load(reply.counts, (layout.count_ciphertexts,))
    u = int.from_bytes(reply.counts[26 : 26 + width], "little")
    guess = mpz(1)
    bins = [np.flatnonzero(codes[:, 0] == i) for i in range(2)] + [np.arange(N_ROWS)]
    for slot, rows in enumerate(bins):
        product = mpz(1)
        for row in rows.tolist():
            product = product * nonces[row] % (n * n)
        guess = guess * powmod(product, bin_weight(len(rows)) << (layout.count_width * slot), n * n) % (n * n)
    return int(guess) == nonce_part(u, int(decryptor.decrypt(received)[0]), n)


def test_the_server_cannot_check_a_guess_of_the_bins(server):
    assert not explained_by_bins(server)


def test_without_re_randomisation_the_server_checks_guesses_of_the_bins(server, monkeypatch):
    def without_a_nonce(self, a, plaintexts):
        rows = self.ring.add_plain(self._own(a), [mpz(m) % self.key.n for m in plaintexts])
        return EncryptedArray(self.key, self.ring, rows, a.shape, nonces=self._nonces, fresh=True)

    monkeypatch.setattr(Evaluator, "_add_encrypted", without_a_nonce)
    monkeypatch.setattr(EncryptedArray, "joined", _joined_without_losing_freshness)
    assert explained_by_bins(server)


def _joined_without_losing_freshness(self, others):
    rows = self.ring.join([self.rows, *(other.rows for other in others)])
    return EncryptedArray(self.key, self.ring, rows, (self.ring.count(rows),), nonces=self._nonces, fresh=True)


# --- C1, C2 --------------------------------------------------------------------------------------------------------


@pytest.fixture
def _columns_layout(monkeypatch):
    for module in (interactive_share, noisy_weights):
        monkeypatch.setattr(module, "plan_minibatch", lambda *sizes: plan_minibatch(*sizes, gradient="columns"))


@pytest.mark.usefixtures("_columns_layout")
@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_what_a_client_decrypts_is_uniform_even_after_it_removed_what_it_knows(interactive, monkeypatch):
    run = watched_run(monkeypatch, job(interactive))
    assert run.error is None
    C1 = [value / look.n for look in run.looks for value in look.rest]
    C2 = [value / n for _, _, value, n in run.updates]
    assert min(len(C1), len(C2)) > 40
    assert is_uniform(C1)
    assert is_uniform(C2)
    for sample in ([v % 1 for v in np.array(C1) * 2**20], [v % 1 for v in np.array(C2) * 2**20]):  # further down, too
        assert is_uniform(sample)


@pytest.mark.usefixtures("_columns_layout")
@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize("lost_bits", [1, 8, 64])
def test_narrow_masks_are_found_in_what_a_client_decrypts(interactive, lost_bits, monkeypatch):
    def narrow(self, a):
        masks = randomness.below(int(self.key.n) >> lost_bits, a.size)
        return self._add_encrypted(a, masks), masks

    monkeypatch.setattr(Evaluator, "mask", narrow)
    run = watched_run(monkeypatch, job(interactive))
    assert not is_uniform([value / look.n for look in run.looks for value in look.rest])
    assert not is_uniform([value / n for _, _, value, n in run.updates])


# --- W~ ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client_keys(server):
    encryptor = Encryptor(PrivateKey.generate(512, allow_test_size=True))
    return ClientKeys(encryptor, Decryptor(encryptor), server[1])


def noisy_of(kind, keys, weight: int, count: int = 4000) -> np.ndarray:
    """W~ of many weights that all have the same value."""
    shape = (count // 4, 4) if kind is DenseShare else (count,)
    share = kind(np.full(shape, weight, np.int64), ValueBits(), keys)
    return (share.first_noisy_weights.ravel() / (1 << 60)).astype(np.float64)


@pytest.mark.parametrize("kind", [DenseShare, ElementwiseShare])
def test_noisy_weights_of_the_smallest_and_the_largest_weight_look_alike(kind, client_keys):
    assert same_distribution(noisy_of(kind, client_keys, -(1 << 40)), noisy_of(kind, client_keys, 1 << 40))


@pytest.mark.parametrize("kind", [DenseShare, ElementwiseShare])
def test_noisy_weights_under_a_narrow_share_do_not_look_alike(kind, client_keys, monkeypatch):
    monkeypatch.setattr(ValueBits, "share", property(lambda self: self.weight + 2))
    assert not same_distribution(noisy_of(kind, client_keys, -(1 << 40)), noisy_of(kind, client_keys, 1 << 40))


def test_noisy_weights_do_not_follow_the_weights(client_keys):
    weights = np.random.default_rng(0).integers(-(1 << 40), 1 << 40, (1000, 4))
    noisy = DenseShare(weights, ValueBits(), client_keys).first_noisy_weights
    assert uncorrelated(noisy.ravel().astype(float), weights.ravel().astype(float))


def test_a_new_share_is_independent_of_the_old_one(client_keys):
    share = DenseShare(np.zeros((1000, 4), np.int64), ValueBits(), client_keys)
    first, second = share.share.ravel().astype(float), share._draw((1000, 4)).ravel().astype(float)
    assert uncorrelated(first, second)
    assert is_uniform(second / 2.0**105 + 0.5)


# --- The statistics themselves -------------------------------------------------------------------------------------


def test_the_uniformity_test_accepts_uniform_and_rejects_slightly_wrong_samples():
    stream = np.random.default_rng(0)
    uniform = stream.random(2000)
    assert is_uniform(uniform)
    assert not is_uniform(uniform**1.3)
    assert not is_uniform(uniform * 0.85)
    assert ks_distance(np.full(100, 0.5)) == pytest.approx(0.5)
    assert ks_limit(4000) == pytest.approx(ks_limit(1000) / 2)

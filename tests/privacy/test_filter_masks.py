"""Secure filters: what the server decrypts is uniform, and the tests that say so can fail."""

from __future__ import annotations

import numpy as np
import pytest
from filter_helpers import BITS, CONFIG, N_BINS, N_COLUMNS, N_ROWS, SIGMA, STATISTICS, server_capabilities
from gmpy2 import mpz, powmod
from privacy_helpers import array_of, is_uniform, nonce_part

from fedsdg.client import filter_scores, gini_initialization
from fedsdg.client.filter_scores import mask_class_sums, mask_table
from fedsdg.client.gini_initialization import mask_counts
from fedsdg.crypto import Evaluator, randomness
from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.data.binning import Binning
from fedsdg.messages.filter_layout import ClassSumLayout, filter_layout
from fedsdg.messages.filter_statistics import (
    Statistic,
    fixed_point_cells,
    label_columns,
    split_at_mean,
)


@pytest.fixture(scope="module")
def server():
    return server_capabilities()


# --- What the server decrypts --------------------------------------------------------------------------------------


class FilterView:
    """What the server decrypts of one client's filter, over many runs on the same data."""

    def __init__(self, server, statistic: Statistic, n_classes: int, repeats: int) -> None:
        encryptor, evaluator, decryptor = server
        stream = np.random.default_rng(1)
        values = stream.normal(size=(N_ROWS, N_COLUMNS)) * 100
        codes = np.arange(N_ROWS) % n_classes
        layout = filter_layout(statistic, N_ROWS, N_COLUMNS, n_classes, CONFIG.binning, BITS, SIGMA)
        binning = Binning(stream.integers(0, N_BINS, (N_ROWS, N_COLUMNS)), np.full(N_COLUMNS, N_BINS))
        mask, columns = {
            "gini": (mask_counts, binning),
            "ms_gini": (mask_counts, split_at_mean(values)),
            "chi2": (mask_table, binning),
            "sffs": (mask_class_sums, fixed_point_cells(values)),
        }[statistic]
        numbers = label_columns(statistic, codes, n_classes)
        slots, used = layout.counts, layout.scored_columns * layout.items_per_column
        self.u: list[float] = []
        self.padding: list[float] = []
        self.Y: list[float] = []
        for _ in range(repeats):
            blob = encryptor.encrypt(numbers.ravel().tolist(), numbers.shape).to_bytes()
            reply = mask(blob, columns, layout, evaluator)[0]
            counts = decryptor.decrypt(decryptor.load(reply.counts, (layout.count_ciphertexts,)))
            places = [
                int(c >> (slots.width * i)) % (1 << slots.width) / (1 << layout.mask_bits)
                for c in counts
                for i in range(slots.capacity)
            ]
            self.u += places[:used]
            self.padding += places[used:]
            cross = decryptor.decrypt(decryptor.load(reply.cross_terms, (layout.score_ciphertexts,)))
            self.Y += [int(y) / int(encryptor.key.n) for y in cross]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_what_the_server_decrypts_is_uniform(server, statistic, n_classes):
    view = FilterView(server, statistic, n_classes, 40)
    assert is_uniform(view.u)
    assert is_uniform(view.Y)
    assert not view.padding or is_uniform(view.padding)


@pytest.mark.parametrize("statistic", ["chi2", "sffs"])
def test_narrow_masks_of_sums_are_found(server, statistic, monkeypatch):
    monkeypatch.setattr(filter_scores, "below", lambda bound, count: randomness.below(bound // 2, count))
    view = FilterView(server, statistic, 3, 30)
    assert not is_uniform(view.u)
    assert is_uniform(view.Y)


@pytest.mark.parametrize(("statistic", "n_classes"), [("chi2", 2), ("sffs", 3)])
def test_unmasked_unused_slots_are_found(server, statistic, n_classes, monkeypatch):
    monkeypatch.setattr(gini_initialization, "below", lambda bound, count: [mpz(0)] * count)
    view = FilterView(server, statistic, n_classes, 30)
    assert is_uniform(view.u)
    layout = filter_layout(statistic, N_ROWS, N_COLUMNS, n_classes, CONFIG.binning, BITS, SIGMA)
    unused = layout.count_ciphertexts * layout.counts.capacity - N_COLUMNS * layout.items_per_column
    assert len(view.padding) == 30 * unused
    assert unused > 0
    assert not is_uniform(view.padding)


@pytest.mark.parametrize("statistic", ["chi2", "sffs"])
def test_narrow_masks_of_cross_terms_are_found(server, statistic, monkeypatch):
    def narrow(self, a):
        masks = randomness.below(int(self.key.n) // 2, a.size)
        return self._add_encrypted(a, masks), masks

    monkeypatch.setattr(Evaluator, "mask", narrow)
    assert not is_uniform(FilterView(server, statistic, 2, 80).Y)


# --- Cells from nonces ---------------------------------------------------------------------------------------------


def explained_by_cells(server) -> bool:
    """The server's test of a guess of a column: its own nonces of the labels, raised to the cells and multiplied."""
    encryptor, evaluator, decryptor = server
    n = int(encryptor.key.n)
    layout = ClassSumLayout(N_ROWS, 1, 1, 1, BITS, SIGMA)  # a numeric target: one number per row
    assert layout.count_ciphertexts == 1
    numbers = [3, 5] * (N_ROWS // 2)
    cells = fixed_point_cells(np.random.default_rng(4).normal(size=(N_ROWS, 1)))
    blob = encryptor.encrypt(numbers, (N_ROWS, 1)).to_bytes()
    nonces = [nonce_part(c, m, n) for c, m in zip(array_of(blob)[2], numbers, strict=True)]
    reply, _ = mask_class_sums(blob, cells, layout, evaluator)
    u = array_of(reply.counts)[2][0]
    m = decryptor.decrypt(decryptor.load(reply.counts, (1,)))[0]
    guess = mpz(1)
    for nonce, cell in zip(nonces, cells[:, 0].tolist(), strict=True):
        guess = guess * powmod(nonce, cell, n * n) % (n * n)
    return int(guess) == nonce_part(u, int(m), n)


def test_the_server_cannot_check_a_guess_of_the_cells(server):
    assert not explained_by_cells(server)


def test_without_re_randomisation_the_server_checks_guesses_of_the_cells(server, monkeypatch):
    def without_a_nonce(self, a, plaintexts):
        rows = self.ring.add_plain(self._own(a), [mpz(m) % self.key.n for m in plaintexts])
        return EncryptedArray(self.key, self.ring, rows, a.shape, nonces=self._nonces, fresh=True)

    def joined(self, others):
        rows = self.ring.join([self.rows, *(other.rows for other in others)])
        return EncryptedArray(self.key, self.ring, rows, (self.ring.count(rows),), nonces=self._nonces, fresh=True)

    monkeypatch.setattr(Evaluator, "_add_encrypted", without_a_nonce)
    monkeypatch.setattr(EncryptedArray, "joined", joined)
    assert explained_by_cells(server)

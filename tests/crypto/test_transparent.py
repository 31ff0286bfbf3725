"""The cipher that hides nothing computes like Paillier, byte for byte as long, and no real party takes its key."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.crypto import PublicKey
from fedsdg.crypto.transparent import TransparentDecryptor, TransparentEncryptor, TransparentEvaluator, TransparentKey
from fedsdg.errors import CryptoError, InvalidCiphertext, InvalidPublicKey, KeyMismatch, WeakKeyWarning

SIX = st.lists(st.integers(-(2**511), 2**512), min_size=6, max_size=6)
WEIGHTS = st.lists(st.integers(-(2**70), 2**70), min_size=6, max_size=6)


class TransparentParty:
    """The interface of the real thing."""

    def __init__(self, n: int) -> None:
        with pytest.warns(WeakKeyWarning):
            self.key = TransparentKey(n)
        self.encryptor = TransparentEncryptor(self.key)
        self.evaluator = TransparentEvaluator(self.key)
        self.decryptor = TransparentDecryptor(self.key)


@pytest.fixture
def clear(party):
    """A transparent party with the same modulus."""
    return TransparentParty(int(party.n))


def conversation(side, values, weights) -> tuple[list[list[int]], list[int]]:
    """Send, compute everything, return: the plaintexts and the lengths of all messages."""
    encryptor, ev, decryptor = side.encryptor, side.evaluator, side.decryptor
    sent = encryptor.encrypt(values, (2, 3)).to_bytes()
    a = ev.load(sent, (2, 3))
    w = np.array(weights, object).reshape(3, 2)
    results = [
        a,
        ev.add(a, a),
        ev.add_plain(a, weights),
        ev.add_fresh(a, weights),
        ev.negate(a),
        ev.dot(a, w),
        ev.dot(a, w, 80),
        ev.sum_selected(a, [np.array([0, 5, 5]), np.array([], np.int64)]),
        ev.shifted_sums(a, np.abs(w).T, [3, 0, 700]),
        a.reshape(3, 2),
    ]
    lengths, plain = [len(sent)], []
    for result in results:
        blob = result.to_bytes()
        assert len(blob) == result.wire_bytes
        lengths.append(len(blob))
        plain.append([int(m) for m in decryptor.decrypt(decryptor.load(blob, result.shape))])
    masked, masks = ev.mask(a)
    unmasked = decryptor.decrypt(decryptor.load(masked.to_bytes(), (2, 3)))
    plain.append(
        [
            int(u - m) % int(side.key.n if hasattr(side.key, "n") else side.n)
            for u, m in zip(unmasked, masks, strict=True)
        ]
    )
    return plain, lengths


@given(values=SIX, weights=WEIGHTS)
def test_it_gives_the_results_and_byte_counts_of_paillier(party, clear, values, weights):
    assert conversation(clear, values, weights) == conversation(party, values, weights)


def test_it_takes_the_extremes(clear, party):
    n = int(party.n)
    values = [0, 1, n - 1, n // 2, -1, -n]
    loaded = clear.decryptor.load(clear.encryptor.encrypt(values).to_bytes(), (6,))
    assert clear.decryptor.decrypt(loaded) == [v % n for v in values]


def test_prefilling_does_nothing_and_harms_nothing(clear):
    clear.encryptor.prefill(3)
    array = clear.encryptor.encrypt([1, 2, 3, 4, 5])
    assert clear.decryptor.decrypt(array) == [1, 2, 3, 4, 5]


def test_its_key_warns(party):
    with pytest.warns(WeakKeyWarning, match="encrypts nothing"):
        TransparentKey(bits=2048)


def test_a_real_party_refuses_its_key_on_the_wire(clear, party):
    with pytest.raises(InvalidPublicKey, match="scheme"):
        PublicKey.from_bytes(clear.key.to_bytes(), allow_test_size=True)
    with pytest.raises(InvalidPublicKey, match="scheme"):
        TransparentKey.from_bytes(party.key.public_key.to_bytes(), allow_test_size=True)
    assert TransparentKey.from_bytes(clear.key.to_bytes(), allow_test_size=True) == clear.key


def test_a_real_party_refuses_its_key_in_memory(clear, party):
    for capability in (type(party.encryptor), type(party.evaluator)):
        with pytest.raises(CryptoError):
            capability(clear.key, party.backend)


def test_its_arrays_never_mix_with_real_ones(clear, party):
    array = clear.encryptor.encrypt([1])
    assert clear.key != party.key.public_key
    assert clear.key.fingerprint != party.key.public_key.fingerprint
    with pytest.raises(KeyMismatch):
        party.evaluator.load(array.to_bytes(), (1,))
    with pytest.raises(KeyMismatch):
        party.evaluator.add(array, array)
    with pytest.raises(KeyMismatch):
        party.decryptor.decrypt(array)


def test_it_validates_ranges_like_the_real_one(clear, party):
    blob = clear.encryptor.encrypt([1]).to_bytes()
    for value in (0, int(party.n) + 1, 2**1023):
        with pytest.raises(InvalidCiphertext):
            clear.evaluator.load(blob[:-128] + value.to_bytes(128, "little"), (1,))


def test_what_was_loaded_for_decryption_cannot_be_sent_on_either(clear):
    loaded = clear.decryptor.load(clear.encryptor.encrypt([1]).to_bytes(), (1,))
    with pytest.raises(CryptoError):
        loaded.to_bytes()

"""python-paillier, an independent implementation, agrees on every ciphertext and every product."""

import numpy as np
import pytest
from crypto_helpers import message, values_of
from hypothesis import given, settings
from hypothesis import strategies as st

phe = pytest.importorskip("phe")
SIX = st.lists(st.integers(-(2**511), 2**512), min_size=6, max_size=6)


@pytest.fixture
def peer(party):
    """The same key, in their hands."""
    public = phe.PaillierPublicKey(int(party.n))
    return phe.PaillierPrivateKey(public, int(party.key.p), int(party.key.q))


@given(values=SIX)
def test_phe_decrypts_what_we_encrypt(party, peer, values):
    array = party.encryptor.encrypt(values)
    assert [peer.raw_decrypt(c) for c in values_of(array.ring, array.rows)] == [v % int(party.n) for v in values]


@given(values=SIX)
def test_we_decrypt_what_phe_encrypts(party, peer, values):
    n = int(party.n)
    theirs = [peer.public_key.raw_encrypt(v % n) for v in values]
    blob = message(party.key.public_key, (6,), theirs)
    assert party.decryptor.decrypt(party.decryptor.load(blob, (6,))) == [v % n for v in values]


@settings(max_examples=10)
@given(values=SIX, weights=st.lists(st.integers(-(2**62), 2**62), min_size=6, max_size=6))
def test_our_products_of_their_ciphertexts_decrypt_with_their_key_to_their_products(party, peer, values, weights):
    public, w = peer.public_key, np.array(weights, object).reshape(3, 2)
    theirs = [phe.EncryptedNumber(public, public.raw_encrypt(v % public.n)) for v in values]
    blob = message(party.key.public_key, (2, 3), [c.ciphertext(be_secure=False) for c in theirs])
    ours = party.evaluator.dot(party.evaluator.load(blob, (2, 3)), w)
    decrypted = [peer.raw_decrypt(c) for c in values_of(ours.ring, ours.rows)]
    products = [sum(theirs[3 * b + i] * int(w[i, o]) for i in range(3)) for b in range(2) for o in range(2)]
    assert decrypted == [peer.raw_decrypt(c.ciphertext(be_secure=False)) for c in products]


@given(values=SIX)
def test_our_sums_and_theirs_are_the_same_numbers(party, peer, values):
    public = peer.public_key
    theirs = [phe.EncryptedNumber(public, public.raw_encrypt(v % public.n)) for v in values]
    blob = message(party.key.public_key, (6,), [c.ciphertext(be_secure=False) for c in theirs])
    loaded = party.evaluator.load(blob, (6,))
    doubled = party.evaluator.add(loaded, loaded)
    assert values_of(doubled.ring, doubled.rows) == [(c + c).ciphertext(be_secure=False) for c in theirs]


def test_both_agree_under_a_real_key(real_party):
    n = int(real_party.n)
    public = phe.PaillierPublicKey(n)
    private = phe.PaillierPrivateKey(public, int(real_party.key.p), int(real_party.key.q))
    array = real_party.encryptor.encrypt([0, 1, -1])
    assert [private.raw_decrypt(c) for c in values_of(array.ring, array.rows)] == [0, 1, n - 1]
    blob = message(real_party.key.public_key, (2,), [public.raw_encrypt(m) for m in (5, n - 5)])
    loaded = real_party.evaluator.load(blob, (2,))
    assert real_party.receive(real_party.evaluator.dot(loaded.reshape(1, 2), [[3], [-1]])) == [20]

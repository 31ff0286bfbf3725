"""Given the same ciphertexts, both back ends return the same bytes."""

import numpy as np
import pytest
from crypto_helpers import needs_native
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.crypto.backends import native_ring

pytestmark = needs_native


@pytest.fixture
def both(party_of):
    return party_of(512, "native"), party_of(512, "gmpy2")


def same_bytes(both, values, shape, operation) -> bool:
    """Load one message on both sides, compute, and compare what each would write before re-randomising."""
    blob = both[0].encryptor.encrypt(values, shape).to_bytes()
    results = [operation(p.evaluator, p.evaluator.load(blob, shape)) for p in both]
    return results[0].ring.dump(results[0].rows) == results[1].ring.dump(results[1].rows)


RESIDUES = st.integers(-(2**511), 2**512)
EIGHT = st.lists(RESIDUES, min_size=8, max_size=8)


@given(values=EIGHT, plain=EIGHT)
def test_sums_differences_and_plain_sums_have_the_same_bytes(both, values, plain):
    assert same_bytes(both, values, (8,), lambda ev, a: ev.add(a, a))
    assert same_bytes(both, values, (8,), lambda ev, a: ev.negate(a))
    assert same_bytes(both, values, (8,), lambda ev, a: ev.add_plain(a, plain))


@given(
    values=EIGHT,
    weights=st.lists(st.integers(-(2**107) + 1, 2**107 - 1), min_size=12, max_size=12),
    bits=st.sampled_from([None, 107, 130]),
)
def test_products_have_the_same_bytes(both, values, weights, bits):
    w = np.array(weights, object).reshape(4, 3)
    assert same_bytes(both, values, (2, 4), lambda ev, a: ev.dot(a, w, bits))


@given(
    values=EIGHT,
    weights=st.lists(st.integers(0, 2**40), min_size=8, max_size=8),
    shifts=st.lists(st.integers(0, 900), min_size=4, max_size=4),
)
def test_shifted_sums_have_the_same_bytes(both, values, weights, shifts):
    w = np.array(weights).reshape(2, 4)
    assert same_bytes(both, values, (2, 4), lambda ev, a: ev.shifted_sums(a, w, shifts))


@given(values=EIGHT, picks=st.lists(st.lists(st.integers(0, 7), max_size=9), min_size=1, max_size=9))
def test_selected_sums_have_the_same_bytes(both, values, picks):
    selections = [np.array(p, np.int64) for p in picks]
    assert same_bytes(both, values, (8,), lambda ev, a: ev.sum_selected(a, selections))


@given(values=EIGHT)
def test_both_decrypt_to_the_same_integers(both, values):
    blob = both[1].encryptor.encrypt(values).to_bytes()
    one, other = (p.decryptor.decrypt(p.decryptor.load(blob, (8,))) for p in both)
    assert one == other == [v % both[0].n for v in values]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_the_number_of_threads_changes_no_byte(party_of, threads):
    party = party_of(512, "native")
    rng = np.random.default_rng(1)
    w, shape = rng.integers(-(2**40), 2**40, (6, 7)), (11, 6)
    blob = party.encryptor.encrypt(list(range(66)), shape).to_bytes()

    def everything() -> list[bytes]:
        ev, dump = party.evaluator, party.evaluator.ring.dump
        a = ev.load(blob, shape)
        arrays = [
            ev.dot(a, w),
            ev.add(a, a),
            ev.add_plain(a, list(range(66))),
            ev.negate(a),
            ev.shifted_sums(a, np.ones(shape, np.int64), [0, 9, 18, 27, 36, 45]),
            ev.sum_selected(a, [np.arange(i) for i in range(66)]),
        ]
        plain = party.decryptor.decrypt(party.decryptor.load(blob, shape))
        return [dump(array.rows) for array in arrays] + [str(plain).encode()]

    try:
        native_ring.set_thread_count(1)
        alone = everything()
        native_ring.set_thread_count(threads)
        assert native_ring.thread_count() == threads
        assert everything() == alone
    finally:
        native_ring.set_thread_count(None)

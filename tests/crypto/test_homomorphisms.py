"""What the evaluator does to ciphertexts is what integers modulo n would do to plaintexts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsdg.crypto import SquareByMasking
from fedsdg.crypto.masking import squares
from fedsdg.crypto.weights import MAX_WEIGHT_BITS
from fedsdg.errors import ConfigError, CryptoError, DoesNotFit

RESIDUES = st.one_of(st.integers(-2, 2), st.integers(-(2**511), 2**512))


def lists_of(values, count):
    return st.lists(values, min_size=count, max_size=count)


def modulo(values, n):
    return [int(v) % int(n) for v in np.ravel(np.array(values, object))]


# -- sums ------------------------------------------------------------------------------------------------------------


@given(pairs=st.lists(st.tuples(RESIDUES, RESIDUES), min_size=1, max_size=9))
def test_adding_ciphertexts_adds_plaintexts(party, pairs):
    a, b = zip(*pairs, strict=True)
    total = party.evaluator.add(party.send(a, (len(a),)), party.send(b, (len(b),)))
    assert party.receive(total) == modulo([x + y for x, y in pairs], party.n)


@given(pairs=st.lists(st.tuples(RESIDUES, RESIDUES), min_size=1, max_size=9))
def test_adding_plain_integers_adds_them(party, pairs):
    a, plain = zip(*pairs, strict=True)
    total = party.evaluator.add_plain(party.send(a, (len(a),)), plain)
    assert party.receive(total) == modulo([x + y for x, y in pairs], party.n)


@given(pairs=st.lists(st.tuples(RESIDUES, RESIDUES), min_size=1, max_size=9))
def test_adding_fresh_encryptions_adds_them(party, pairs):
    a, plain = zip(*pairs, strict=True)
    total = party.evaluator.add_fresh(party.send(a, (len(a),)), plain)
    assert party.receive(total) == modulo([x + y for x, y in pairs], party.n)


@given(values=st.lists(RESIDUES, min_size=1, max_size=9))
def test_negating_ciphertexts_negates_plaintexts(party, values):
    negated = party.evaluator.negate(party.send(values, (len(values),)))
    assert party.receive(negated) == modulo([-v for v in values], party.n)


def test_extremes_are_added_and_negated(party):
    n = int(party.n)
    values = [0, 1, n - 1, n // 2, n // 2 + 1, -1]
    a = party.send(values, (6,))
    assert party.receive(party.evaluator.negate(a)) == modulo([-v for v in values], n)
    assert party.receive(party.evaluator.add(a, a)) == modulo([2 * v for v in values], n)
    assert party.receive(party.evaluator.add_plain(a, [n - 1, -1, n, -n, 2 * n, n * n])) == modulo(
        [v + w for v, w in zip(values, [n - 1, -1, n, -n, 2 * n, n * n], strict=True)], n
    )


def test_adding_plain_integers_a_thousand_times_stays_exact(party):
    n = int(party.n)
    array = party.send([0, n - 1, 1], (3,))
    for _ in range(1000):
        array = party.evaluator.add_plain(array, [n - 1, n - 1, n // 2])
    assert party.receive(array) == modulo([-1000, -1001, 1 + 1000 * (n // 2)], n)


def test_the_sum_of_arrays_of_different_shapes_is_refused(party):
    with pytest.raises(CryptoError, match="shapes"):
        party.evaluator.add(party.send([1, 2], (2,)), party.send([1, 2], (1, 2)))


@pytest.mark.parametrize("plain", [[1], [1, 2, 3]])
def test_a_wrong_number_of_plain_integers_is_refused(party, plain):
    array = party.send([1, 2], (2,))
    with pytest.raises((CryptoError, ValueError)):
        party.evaluator.add_plain(array, plain)
    with pytest.raises((CryptoError, ValueError)):
        party.evaluator.add_fresh(array, plain)


# -- products with plain weights -------------------------------------------------------------------------------------


@st.composite
def products(draw):
    blocks, length, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(1, 4))
    bits = draw(st.sampled_from([1, 2, 8, 31, 61, 62, 63, 64, 65, 107, 130]))
    top = 2**bits - 1
    weight = st.one_of(st.sampled_from([0, 1, -1, top, -top]), st.integers(-top, top))
    m = draw(lists_of(RESIDUES, blocks * length))
    w = draw(lists_of(weight, length * outputs))
    return np.array(m, object).reshape(blocks, length), np.array(w, object).reshape(length, outputs), bits


@settings(max_examples=40)
@given(product=products(), fixed=st.booleans())
def test_signed_dot_products_are_exact(party, product, fixed):
    m, w, bits = product
    result = party.evaluator.dot(party.send(m.ravel().tolist(), m.shape), w, bits if fixed else None)
    assert result.shape == (m.shape[0], w.shape[1])
    assert party.receive(result) == modulo(m @ w, party.n)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 1), (2, 1, 9), (1, 40, 1), (17, 2, 1), (1, 1, 17)])
def test_dot_products_of_one_row_one_column_or_one_output(party, shape):
    blocks, length, outputs = shape
    m = np.arange(1, blocks * length + 1).reshape(blocks, length)
    w = np.arange(length * outputs).reshape(length, outputs) - 3
    assert party.receive(party.evaluator.dot(party.send(m.ravel().tolist(), m.shape), w)) == modulo(m @ w, party.n)


@pytest.mark.parametrize("bits", [1, 61, 62, 63, 64, 105, 200])
@pytest.mark.parametrize("sign", [1, -1])
def test_weights_at_the_edge_of_their_bits_are_exact(party, bits, sign):
    m = np.array([[1, -1, 2**200], [-(2**200), 0, 7]], object)
    w = np.full((3, 2), sign * (2**bits - 1), object)
    w[1, 0] = -w[1, 0]
    sent = party.send(m.ravel().tolist(), m.shape)
    assert party.receive(party.evaluator.dot(sent, w, bits)) == modulo(m @ w, party.n)
    assert party.receive(party.evaluator.dot(sent, w)) == modulo(m @ w, party.n)


def test_weights_of_zero_give_an_encryption_of_zero(party):
    sent = party.send([1, 2, 3, 4], (2, 2))
    assert party.receive(party.evaluator.dot(sent, np.zeros((2, 3), np.int64))) == [0] * 6
    assert party.receive(party.evaluator.dot(sent, np.zeros((2, 3), np.int64), 40)) == [0] * 6


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_weights_of_every_integer_type_are_taken_at_their_extremes(party, dtype):
    info = np.iinfo(dtype)
    w = np.array([[info.min, info.max], [info.max, 0]], dtype)
    m = np.array([[3, -5]], object)
    assert party.receive(party.evaluator.dot(party.send([3, -5], (1, 2)), w)) == modulo(m @ w.astype(object), party.n)


def test_a_weight_one_beyond_its_bits_is_refused(party):
    sent = party.send([1, 2], (1, 2))
    for w in ([[2**8], [0]], [[0], [-(2**8)]]):
        with pytest.raises(DoesNotFit):
            party.evaluator.dot(sent, w, 8)
        with pytest.raises(DoesNotFit):
            party.evaluator.dot(sent, np.array(w, object), 8)
    assert party.receive(party.evaluator.dot(sent, [[2**8 - 1], [0]], 8)) == [2**8 - 1]


def test_absurdly_wide_weights_are_refused_before_memory_is_spent(party):
    sent = party.send([1], (1, 1))
    with pytest.raises(DoesNotFit):
        party.evaluator.dot(sent, [[1]], MAX_WEIGHT_BITS + 1)
    with pytest.raises(DoesNotFit):
        party.evaluator.dot(sent, np.array([[1 << MAX_WEIGHT_BITS]], object))
    with pytest.raises(DoesNotFit):
        party.evaluator.shifted_sums(sent, np.array([[1 << MAX_WEIGHT_BITS]], object), [0])


@pytest.mark.parametrize("w", [[[1]], [[1], [2], [3]], [1, 2], [[[1]], [[2]]], np.zeros((2, 0), np.int64)])
def test_weights_of_the_wrong_shape_are_refused(party, w):
    with pytest.raises(CryptoError):
        party.evaluator.dot(party.send([1, 2], (1, 2)), w)


@pytest.mark.parametrize("w", [[[0.5], [1.0]], [[True], [False]], [["1"], ["2"]]])
def test_weights_that_are_no_integers_are_refused(party, w):
    with pytest.raises(CryptoError):
        party.evaluator.dot(party.send([1, 2], (1, 2)), w)


def test_a_product_needs_a_matrix_of_ciphertexts(party):
    with pytest.raises(CryptoError):
        party.evaluator.dot(party.send([1, 2], (2,)), [[1], [2]])
    with pytest.raises(CryptoError):
        party.evaluator.dot(party.send([], (0, 2)), [[1], [2]])


def test_tables_built_in_pieces_give_the_same_product(party, monkeypatch):
    from fedsdg.crypto.backends import native_ring

    rng = np.random.default_rng(5)
    m, w = rng.integers(-99, 99, (11, 6)), rng.integers(-99, 99, (6, 5))
    sent = party.send(m.ravel().tolist(), m.shape)
    whole = party.receive(party.evaluator.dot(sent, w))
    monkeypatch.setattr(native_ring, "TABLE_BYTES", 1)
    assert party.receive(party.evaluator.dot(sent, w)) == whole == modulo(m @ w, party.n)
    positive = rng.integers(0, 99, (11, 6))
    sums = party.evaluator.shifted_sums(sent, positive, [0, 3, 6, 9, 12, 15])
    weighted = (m * positive * (1 << np.arange(0, 18, 3))).sum(axis=1)
    assert party.receive(sums) == modulo(weighted, party.n)


# -- selected sums ---------------------------------------------------------------------------------------------------


@given(
    values=st.lists(RESIDUES, min_size=1, max_size=12),
    picks=st.lists(st.lists(st.integers(0, 11), max_size=15), min_size=1, max_size=12),
)
def test_sums_of_any_selections_are_exact(party, values, picks):
    picks = [[i % len(values) for i in pick] for pick in picks]
    sums = party.evaluator.sum_selected(party.send(values, (len(values),)), [np.array(p, np.int64) for p in picks])
    assert sums.shape == (len(picks),)
    assert party.receive(sums) == modulo([sum(values[i] for i in pick) for pick in picks], party.n)


def test_an_empty_selection_sums_to_zero_and_no_selection_to_nothing(party):
    sent = party.send([5, 6], (2,))
    nothing = np.array([], np.int64)
    assert party.receive(party.evaluator.sum_selected(sent, [nothing, np.array([1]), nothing])) == [0, 6, 0]
    assert party.receive(party.evaluator.sum_selected(sent, [])) == []


@pytest.mark.parametrize("segments", [1, 2, 31, 32, 33, 200])
def test_few_long_sums_and_many_short_ones_are_exact(party, segments):
    rng = np.random.default_rng(segments)
    values = rng.integers(-1000, 1000, 50)
    lengths = rng.integers(0, 1400 // segments, segments)
    picks = [rng.integers(0, 50, length) for length in lengths]
    sums = party.evaluator.sum_selected(party.send(values.tolist(), (50,)), picks)
    assert party.receive(sums) == modulo([int(values[p].sum()) for p in picks], party.n)


def test_the_sum_of_everything_and_of_one_row_repeated_is_exact(party):
    sent = party.send(list(range(600)), (600,))
    everything, repeated = np.arange(600), np.full(700, 599)
    sums = party.evaluator.sum_selected(sent, [everything, repeated, np.array([], np.int64)])
    assert party.receive(sums) == [600 * 599 // 2, 700 * 599, 0]


def test_selections_use_flat_positions(party):
    sent = party.send([1, 10, 100, 1000], (2, 2))
    assert party.receive(party.evaluator.sum_selected(sent, [np.array([0, 3])])) == [1001]


@pytest.mark.parametrize("position", [-1, 4, 2**40])
def test_a_selection_outside_the_array_is_refused(party, position):
    with pytest.raises(CryptoError, match="outside"):
        party.evaluator.sum_selected(party.send([1, 2, 3, 4], (4,)), [np.array([0]), np.array([position])])


# -- shifted sums ----------------------------------------------------------------------------------------------------


@st.composite
def shiftings(draw):
    outputs, items = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    bits = draw(st.sampled_from([1, 3, 4, 5, 8, 24, 64, 107]))
    weight = st.one_of(st.sampled_from([0, 1, 2**bits - 1]), st.integers(0, 2**bits - 1))
    a = draw(lists_of(RESIDUES, outputs * items))
    w = draw(lists_of(weight, outputs * items))
    shifts = draw(lists_of(st.one_of(st.integers(0, 60), st.sampled_from([0, 1, 200, 511, 512, 1024])), items))
    return np.array(a, object).reshape(outputs, items), np.array(w, object).reshape(outputs, items), shifts, bits


@settings(max_examples=40)
@given(case=shiftings(), fixed=st.booleans())
def test_shifted_sums_are_exact(party, case, fixed):
    a, w, shifts, bits = case
    result = party.evaluator.shifted_sums(party.send(a.ravel().tolist(), a.shape), w, shifts, bits if fixed else None)
    powers = np.array([1 << s for s in shifts], object)
    assert result.shape == (a.shape[0],)
    assert party.receive(result) == modulo((a * w * powers).sum(axis=1), party.n)


def test_the_lowest_shift_need_not_be_zero(party):
    sent = party.send([1, 2, 3, 4], (2, 2))
    assert party.receive(party.evaluator.shifted_sums(sent, [[1, 1], [2, 0]], [5, 9])) == [32 + 1024, 192]


def test_shifted_sums_with_all_weights_zero_are_zero(party):
    sent = party.send([1, 2, 3, 4], (2, 2))
    assert party.receive(party.evaluator.shifted_sums(sent, np.zeros((2, 2), np.int64), [0, 100], 24)) == [0, 0]


@pytest.mark.parametrize(
    ("w", "shifts", "bits"),
    [
        ([[-1]], [0], None),
        ([[1]], [-1], None),
        ([[1]], [1 << 40], None),
        ([[1]], [0, 1], None),
        ([[1, 2]], [0], None),
        ([[16]], [0], 4),
    ],
)
def test_bad_weights_and_shifts_are_refused(party, w, shifts, bits):
    with pytest.raises(CryptoError):
        party.evaluator.shifted_sums(party.send([1], (1, 1)), w, shifts, bits)


# -- masks -----------------------------------------------------------------------------------------------------------


@given(values=st.lists(RESIDUES, min_size=1, max_size=9))
def test_a_mask_is_added_and_comes_off_again(party, values):
    masked, masks = party.evaluator.mask(party.send(values, (len(values),)))
    assert all(0 <= mask < party.n for mask in masks)
    received = party.receive(masked)
    assert modulo([v - mask for v, mask in zip(received, masks, strict=True)], party.n) == modulo(values, party.n)


def test_every_masked_ciphertext_has_its_own_mask(party):
    _, masks = party.evaluator.mask(party.send([0] * 50, (50,)))
    assert len(set(masks)) == 50


@given(values=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6))
def test_squaring_by_masking_squares(party, values):
    squaring = SquareByMasking(party.evaluator, party.send(values, (len(values),)), 32)
    seen = party.receive(squaring.masked)
    assert all(0 <= u < 2 ** (32 + 64 + 1) for u in seen)
    returned = party.evaluator.load(party.encryptor.encrypt(squares(seen)).to_bytes(), (len(values),))
    assert party.receive(squaring.finish(returned)) == [v * v for v in values]


def test_squaring_by_masking_keeps_the_shape_and_takes_the_extremes(party):
    values = [0, 1, 2**32 - 1, 2**32 - 2]
    squaring = SquareByMasking(party.evaluator, party.send(values, (2, 2)), 32, sigma=40)
    returned = party.evaluator.load(party.encryptor.encrypt(squares(party.receive(squaring.masked))).to_bytes(), (4,))
    result = squaring.finish(returned)
    assert result.shape == (2, 2)
    assert party.receive(result) == [v * v for v in values]


def test_squares_that_do_not_fit_the_key_are_refused(party):
    with pytest.raises(DoesNotFit):
        SquareByMasking(party.evaluator, party.send([1], (1,)), 200)


def test_a_square_masked_by_too_few_bits_is_refused(party):
    with pytest.raises(ConfigError, match="sigma"):
        SquareByMasking(party.evaluator, party.send([1], (1,)), 32, sigma=39)


# -- a few at the sizes that jobs use --------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2048, 3072])
def test_every_homomorphism_is_exact_under_real_keys(party_of, backend, bits):
    party = party_of(bits, backend)
    n, ev = int(party.n), party.evaluator
    m = np.array([[1, -1, n // 2], [n - 1, 2**100, 0]], object)
    w = np.array([[2**107 - 1, -(2**107) + 1], [-5, 0], [3, 1]], object)
    sent = party.send(m.ravel().tolist(), m.shape)
    assert party.receive(ev.dot(sent, w, 107)) == modulo(m @ w, n)
    assert party.receive(ev.add(sent, ev.negate(sent))) == [0] * 6
    assert party.receive(ev.add_plain(sent, [n - 1] * 6)) == modulo(m - 1, n)
    assert party.receive(ev.sum_selected(sent, [np.array([0, 0, 3]), np.array([], np.int64)])) == [1, 0]
    weights = np.array([[0, 15, 2**40], [1, 1, 1]], object)
    shifted = (m * weights * np.array([2**3, 2**70, 2**1900], object)).sum(axis=1)
    assert party.receive(ev.shifted_sums(sent, weights, [3, 70, 1900])) == modulo(shifted, n)

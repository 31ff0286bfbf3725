"""A number that is no integer is an error: nothing is rounded, truncated or reinterpreted behind the caller's back."""

import numpy as np
import pytest

from fedsdg.crypto import SlotLayout
from fedsdg.errors import CryptoError

NO_INTEGERS = [1.9, np.float64(2.5), "7", None]
REFUSALS = (CryptoError, TypeError, ValueError)


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_plaintexts_must_be_integers(party, value):
    array = party.send([1], (1,))
    for operation in (
        lambda: party.encryptor.encrypt([value]),
        lambda: party.evaluator.add_plain(array, [value]),
        lambda: party.evaluator.add_fresh(array, [value]),
    ):
        with pytest.raises(REFUSALS):
            operation()


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_packed_values_must_be_integers(value):
    layout = SlotLayout.for_key(512, 60)
    for pack in (layout.pack, layout.pack_wide):
        with pytest.raises(REFUSALS):
            pack([value])


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_weights_in_object_arrays_must_be_integers_too(party, value):
    array = party.send([1], (1, 1))
    for operation in (
        lambda: party.evaluator.dot(array, np.array([[value]], object)),
        lambda: party.evaluator.shifted_sums(array, np.array([[value]], object), [0]),
    ):
        with pytest.raises(REFUSALS):
            operation()


def test_integers_of_every_kind_are_taken(party):
    from gmpy2 import mpz

    values = [5, np.int64(5), np.uint8(5), mpz(5)]
    assert party.receive(party.encryptor.encrypt(values)) == [5] * 4
    assert party.receive(party.encryptor.encrypt(np.array([5, -5]))) == [5, int(party.n) - 5]


def test_weights_between_two_to_the_63_and_64_may_stand_beside_negative_ones(party):
    """numpy turns such a list into floats; 64-bit hashes and shares are like that."""
    assert party.receive(party.evaluator.dot(party.send([1, 1], (1, 2)), [[2**63], [-1]])) == [2**63 - 1]


def test_a_selection_by_truth_values_is_not_mistaken_for_positions(party):
    mask = np.array([True, False, False, True])
    with pytest.raises(REFUSALS):
        party.evaluator.sum_selected(party.send([1, 2, 3, 4], (4,)), [mask])


@pytest.mark.parametrize("selection", [[0.5], np.array([1.7])], ids=repr)
def test_a_selection_by_fractions_is_refused(party, selection):
    with pytest.raises(REFUSALS):
        party.evaluator.sum_selected(party.send([1, 2, 3, 4], (4,)), [selection])


def test_fractional_shifts_are_refused(party):
    with pytest.raises(REFUSALS):
        party.evaluator.shifted_sums(party.send([1, 1], (1, 2)), [[1, 1]], [0.5, 1.7])

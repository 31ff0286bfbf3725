"""Free text as word counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.data.words import frequent_words, word_inputs, words_of

VOCABULARY = tuple(f"w{j}" for j in range(64))
texts = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=80).map(" ".join), min_size=1, max_size=8)


def test_words_are_letters_and_digits_in_lower_case():
    assert words_of("The 2 foxes—and Straße, naïve!") == ["the", "2", "foxes", "and", "strasse", "naïve"]


def test_words_are_ranked_by_the_rows_that_hold_them_and_not_by_how_often_they_say_them():
    held = [("spam spam spam spam", 2), ("ham", 3), ("ham eggs", 1)]
    assert frequent_words(held, most=2, rare_below=1) == ("ham", "spam")
    assert frequent_words(held, most=9, rare_below=2) == ("ham", "spam")


def test_words_that_are_equally_frequent_are_ranked_by_name():
    assert frequent_words([("b a c", 5)], most=2, rare_below=1) == ("a", "b")


@given(texts)
def test_a_text_has_the_same_inputs_to_the_last_bit_alone_and_among_others(some):
    whole = word_inputs(some, VOCABULARY)
    for row, text in enumerate(some):
        assert np.array_equal(word_inputs([text], VOCABULARY)[0], whole[row])


@given(texts)
def test_every_text_with_a_known_word_has_unit_length(some):
    lengths = np.linalg.norm(word_inputs(some, VOCABULARY), axis=1)
    assert np.allclose(lengths, [1.0 if text else 0.0 for text in some])

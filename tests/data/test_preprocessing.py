"""Claims about the preparation of columns."""

from __future__ import annotations

import numpy as np
import pytest

from fedsdg.data.preprocessing import Preprocessor, shape_columns
from fedsdg.errors import DataError


def test_continuous_columns_are_standardised_and_clipped():
    values = np.random.default_rng(0).normal(50, 7, size=(400, 3))
    values[0, 0] = 1e6
    prepared = Preprocessor.fit(values).transform(values)
    assert prepared[:, 1:].mean() == pytest.approx(0, abs=1e-5)
    assert prepared[:, 1:].std() == pytest.approx(1, abs=1e-2)
    assert prepared[0, 0] == 6.0


def test_only_training_rows_teach():
    stream = np.random.default_rng(1)
    training, others = stream.normal(0, 1, (100, 2)), stream.normal(9, 5, (100, 2))
    alone = Preprocessor.fit(training).transform(training)
    together = Preprocessor.fit(training).transform(np.vstack([training, others]))[:100]
    assert np.array_equal(alone, together)


def test_a_constant_column_becomes_zero():
    prepared = Preprocessor.fit(np.full((10, 1), 3.0)).transform(np.full((4, 1), 3.0))
    assert not prepared.any()


def test_many_word_counts_get_rows_of_one_length():
    words = np.random.default_rng(2).poisson(0.1, size=(200, 300)).astype(float)
    preprocessor = Preprocessor.fit(words)
    used = preprocessor.word_counts
    lengths = np.linalg.norm(preprocessor.transform(words)[:, used], axis=1)
    lengths = lengths[lengths > 0]
    assert used.sum() > 250
    assert lengths.std() / lengths.mean() < 1e-5


def test_the_common_words_of_texts_are_prepared_like_the_others():
    random = np.random.default_rng(6)
    texts = np.column_stack([random.poisson(0.1, size=(200, 300)), random.poisson(0.8, size=(200, 10))]).astype(float)
    preprocessor = Preprocessor.fit(texts)
    assert preprocessor.word_counts[300:].all()
    assert not preprocessor.dense_counts.any()


def test_a_few_count_columns_keep_their_size():
    counts = np.random.default_rng(3).poisson(0.15, size=(500, 3)).astype(float)
    counts[:5, 0] = 9
    preprocessor = Preprocessor.fit(counts)
    prepared = preprocessor.transform(counts)
    assert not preprocessor.word_counts.any()
    assert prepared[0, 0] > prepared[counts[:, 0] == 1, 0].max()


def test_dense_counts_are_centred_rows_of_one_length():
    counts = np.random.default_rng(4).poisson(0.9, size=(300, 80)).astype(float)
    preprocessor = Preprocessor.fit(counts)
    assert preprocessor.dense_counts.sum() > 70
    assert np.abs(preprocessor.transform(counts).mean(axis=0)).max() < 1e-5


def test_a_negative_value_in_a_count_column_of_new_rows_is_survived():
    counts = np.random.default_rng(5).poisson(0.1, size=(200, 2)).astype(float)
    counts[0, :] = 5
    assert np.isfinite(Preprocessor.fit(counts).transform(np.array([[-4.0, 0.0]]))).all()


def test_other_columns_than_in_training_are_refused():
    preprocessor = Preprocessor.fit(np.random.default_rng(6).random((20, 3)))
    with pytest.raises(DataError, match="3 columns"):
        preprocessor.transform(np.ones((5, 2)))
    with pytest.raises(DataError, match="NaN"):
        preprocessor.transform(np.full((5, 3), np.nan))


@pytest.mark.parametrize("columns", [7, 64, 113, 300])
def test_a_row_alone_has_the_same_length_to_the_last_bit_as_among_others(columns):
    # Rounding to single precision hides a wrong last bit nearly always, and then one day it does not.
    values = np.random.default_rng(7).poisson(0.5, size=(50, columns)).astype(float)
    counts, nothing = np.ones(columns, dtype=bool), np.zeros(columns, dtype=bool)
    for groups in ((counts, nothing, nothing), (nothing, counts, nothing)):
        whole = shape_columns(values, *groups)
        alone = np.vstack([shape_columns(values[[row]], *groups) for row in range(50)])
        assert np.array_equal(alone, whole)
        assert np.array_equal(shape_columns(values[3:6], *groups), whole[3:6])


def test_it_survives_being_written_and_read_and_cut_down():
    words = np.random.default_rng(2).poisson(0.1, size=(200, 300)).astype(float)
    words = np.column_stack([words, np.random.default_rng(3).normal(size=200)])
    preprocessor = Preprocessor.fit(words)
    again = Preprocessor.from_arrays(preprocessor.to_arrays())
    assert np.array_equal(again.transform(words), preprocessor.transform(words))
    wanted = np.zeros(301, dtype=bool)
    wanted[-1] = True
    assert preprocessor.needed_for(wanted).tolist() == wanted.tolist()
    wanted[np.flatnonzero(preprocessor.word_counts)[0]] = True
    needed = preprocessor.needed_for(wanted)
    assert (needed & preprocessor.word_counts).sum() == preprocessor.word_counts.sum()
    part = preprocessor.restricted(needed).transform(words[:, needed])
    assert np.array_equal(part, preprocessor.transform(words)[:, needed])

"""Claims about bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsdg.config import BinningSettings
from fedsdg.data.binning import bin_column, bin_columns, bin_target
from fedsdg.errors import DataError

columns = hnp.arrays(
    np.float64,
    st.integers(2, 300),
    elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6), st.just(0.0)),
)


@given(columns, st.integers(1, 20))
def test_every_bin_holds_the_minimum_or_there_is_one_bin(column, minimum):
    codes = bin_column(column, BinningSettings(minimum_size=minimum))
    sizes = np.bincount(codes)
    assert len(sizes) == 1 or sizes.min() >= minimum


@given(columns)
def test_bins_are_numbered_without_gaps(column):
    codes = bin_column(column, BinningSettings(minimum_size=1))
    assert sorted(set(codes.tolist())) == list(range(int(codes.max()) + 1))
    assert codes.max() < 10


@given(columns)
def test_equal_values_share_a_bin(column):
    codes = bin_column(column, BinningSettings())
    for value in np.unique(column):
        assert len(set(codes[column == value].tolist())) == 1


@given(columns)
def test_bins_of_a_column_that_is_not_sparse_follow_the_order_of_its_values(column):
    codes = bin_column(column, BinningSettings(sparse_share=1.0))
    order = np.argsort(column, kind="stable")
    assert np.all(np.diff(codes[order]) >= 0)


@given(columns, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(column, shuffler):
    order = list(range(len(column)))
    shuffler.shuffle(order)
    settings = BinningSettings()
    assert np.array_equal(bin_column(column[order], settings), bin_column(column, settings)[order])


def test_a_continuous_column_gets_ten_bins_of_equal_size():
    codes = bin_column(np.random.default_rng(0).standard_normal(1000), BinningSettings())
    assert np.bincount(codes).tolist() == [100] * 10


def test_a_discrete_column_is_binned_by_value():
    column = np.repeat([5.0, 7.0, 2.0], 20)
    assert bin_column(column, BinningSettings()).tolist() == [1] * 20 + [2] * 20 + [0] * 20


def test_a_sparse_column_is_binned_by_presence():
    column = np.concatenate([np.zeros(85), np.arange(1, 16)]).astype(float)
    assert bin_column(column, BinningSettings()).tolist() == [0] * 85 + [1] * 15


def test_a_constant_column_has_one_bin():
    binning = bin_columns(np.column_stack([np.ones(30), np.arange(30.0)]), BinningSettings())
    assert binning.n_bins.tolist() == [1, 3]  # thirty rows make at most three bins of ten


def test_a_regression_target_is_cut_into_classes_of_equal_size():
    codes = bin_target(np.random.default_rng(1).random(500), 5)
    assert np.bincount(codes).tolist() == [100] * 5


def test_a_constant_target_is_refused():
    with pytest.raises(DataError, match="constant"):
        bin_target(np.ones(20), 5)


def test_missing_values_are_refused_by_position():
    values = np.ones((20, 3))
    values[4, 1] = np.nan
    with pytest.raises(DataError, match=r"1 column.*positions 1"):
        bin_columns(values, BinningSettings())

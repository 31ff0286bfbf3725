"""Claims about filter scores: each equals its definition, computed by somebody else where that exists."""

from __future__ import annotations

import numpy as np
import pytest
from baseline_helpers import easy_table, vertical
from scipy.stats import chi2_contingency
from sklearn.feature_selection import f_classif
from sklearn.feature_selection import f_regression as sklearn_f_regression
from sklearn.metrics import mutual_info_score

from fedsdg.baselines.chi2 import chi2_scores, chi2_statistic, standardised_chi2
from fedsdg.baselines.gini import gini_deviations
from fedsdg.baselines.information_value import information_value, information_value_scores
from fedsdg.baselines.ms_gini import mean_split_impurity, ms_gini_scores
from fedsdg.baselines.mutual_information import corrected_information, mutual_information, mutual_information_scores
from fedsdg.baselines.random_choice import random_scores
from fedsdg.baselines.sffs import f_classes, f_regression, f_scores

ALL_FILTERS = (
    gini_deviations,
    f_scores,
    ms_gini_scores,
    chi2_scores,
    mutual_information_scores,
    information_value_scores,
)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sffs_is_the_f_statistic_of_an_analysis_of_variance(n_classes):
    stream = np.random.default_rng(1)
    X, codes = 1e3 + stream.standard_normal((60, 5)), np.arange(60) % n_classes
    # Cells are rounded to 16 bits and a sign, so that the secure version finds the same numbers.
    assert np.allclose(f_classes(X, codes, n_classes), f_classif(X, codes)[0], rtol=1e-4)


def test_sffs_of_a_regression_is_the_f_statistic_of_the_correlation():
    stream = np.random.default_rng(2)
    X = stream.standard_normal((50, 4))
    target = X[:, 2] + stream.standard_normal(50)
    assert np.allclose(f_regression(X, target), sklearn_f_regression(X, target)[0], rtol=1e-4)


def test_ms_gini_is_the_impurity_of_a_split_at_the_mean():
    # Mean 2.5: rows 1, 2 lie below with classes 0, 0; rows 3, 4 above with classes 0, 1.
    values = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [4.0, 5.0]])
    impurity = mean_split_impurity(values, np.array([0, 0, 0, 1]), 2)
    assert impurity[0] == pytest.approx((2 - 4 / 2) + (2 - (1 + 1) / 2))
    assert impurity[1] == np.inf  # a constant column has no split


def test_a_column_of_equal_values_has_no_split_even_where_its_mean_is_rounded():
    values = np.array([[number] * 6 for number in np.arange(1, 200) / 10]).T
    assert (values.mean(axis=0) < values[0]).any()  # rounding errors of the mean
    assert (mean_split_impurity(values, np.array([0, 1, 0, 1, 1, 1]), 2) == np.inf).all()
    assert (f_classes(values, np.array([0, 1, 0, 1, 1, 1]), 2) == -np.inf).all()


def test_chi_square_of_many_rows_is_as_exact_as_documented():
    counts = np.random.default_rng(7).integers(500, 2000, (10, 3)).astype(float)
    error = abs(chi2_statistic(counts) - chi2_contingency(counts)[0])
    assert error < counts.sum() * 1e-7


def test_chi_square_and_mutual_information_are_the_textbook_ones():
    counts = np.array([[10.0, 3, 5], [2, 8, 1], [4, 4, 9]])
    statistic, _, degrees, _ = chi2_contingency(counts)
    assert chi2_statistic(counts) == pytest.approx(statistic)
    assert standardised_chi2(counts) == pytest.approx((statistic - degrees) / np.sqrt(2 * degrees))
    assert mutual_information(counts) == pytest.approx(mutual_info_score(None, None, contingency=counts))
    assert corrected_information(counts) == pytest.approx(mutual_information(counts) - 4 / (2 * counts.sum()))


def test_information_value_is_the_sum_over_bins_with_half_a_row_added():
    counts = np.array([[8.0, 2.0], [1.0, 5.0]])
    p, q = np.array([8.5, 1.5]) / 10, np.array([2.5, 5.5]) / 8
    assert information_value(counts) == pytest.approx(((p - q) * np.log(p / q)).sum())
    one_sided = information_value(np.array([[9.0, 0.0], [0.0, 9.0]]))
    assert np.isfinite(one_sided)
    assert one_sided > information_value(counts)
    doubled = information_value(np.array([[8.0, 2.0, 2.0], [1.0, 5.0, 5.0]]))
    assert doubled > 0


@pytest.mark.parametrize("score", ALL_FILTERS)
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_every_filter_ranks_the_telling_column_first_and_the_constant_one_last(score, task):
    data = vertical(*easy_table(400, task=task))
    first, second = score(data, "a"), score(data, "b")
    assert np.argmax(first) == 1
    assert np.argmax(second) == 2
    assert np.argmin(first) == 5


@pytest.mark.parametrize("score", [*ALL_FILTERS, random_scores])
def test_no_filter_looks_at_validation_or_test_rows(score):
    X, y = easy_table(200)
    data = vertical(X, y)
    unseen = np.setdiff1d(np.arange(len(y)), data.train_rows)
    changed, labels = X.copy(), y.copy()
    changed[unseen] = 100 * np.random.default_rng(0).standard_normal((len(unseen), X.shape[1]))
    labels[data.test_rows] = 1 - labels[data.test_rows]
    other = vertical(changed, labels)
    assert np.array_equal(other.train_rows, data.train_rows)
    assert np.array_equal(score(data, "a"), score(other, "a"))

"""Claims about tables, vertical splits and generated data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.vertical_split import split_columns, split_table
from fedsdg.datasets.named_tables import bank_loans
from fedsdg.datasets.synthetic import friedman_like, madelon_like
from fedsdg.errors import ConfigError, DataError


@pytest.mark.parametrize("n_parties", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [None, 4])
def test_every_column_goes_to_exactly_one_party(n_parties, seed):
    parts = split_columns(17, n_parties, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(17))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_split_table_keeps_names_with_their_columns():
    table = FeatureTable.of(np.arange(12.0).reshape(3, 4), ["a", "b", "c", "d"])
    parts = split_table(table, {"left": [2, 0], "right": [3]})
    assert parts["left"].columns == ("c", "a")
    assert parts["left"].values[:, 0].tolist() == [2.0, 6.0, 10.0]
    assert parts["right"].take([2, 0]).values.tolist() == [[11.0], [3.0]]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"a": []}, "no column"),
        ({"a": [0, 0]}, "twice"),
        ({"a": [0], "b": [0]}, "twice"),
        ({"a": [9]}, "column 9"),
    ],
)
def test_a_wrong_split_is_refused(parts, reason):
    with pytest.raises(ConfigError, match=reason):
        split_table(FeatureTable.of(np.ones((2, 2))), parts)


def test_more_parties_than_columns_are_refused():
    with pytest.raises(ConfigError, match="every client needs one"):
        split_columns(2, 3)
    with pytest.raises(ConfigError, match="at least one"):
        split_columns(2, 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.ones(3), "rows x columns"),
        (np.ones((1, 3)), "1 row"),
        (np.ones((3, 0)), "no feature columns"),
        ([["a", "b"], ["c", "d"]], "not all numbers"),
        ([[1.0, np.inf], [1.0, 1.0]], "positions 1"),
    ],
)
def test_a_table_that_cannot_be_learned_from_says_why(values, reason):
    with pytest.raises(DataError, match=reason):
        FeatureTable.of(values)


def test_a_missing_number_is_no_obstacle():
    assert FeatureTable.of([[1.0, np.nan], [1.0, 1.0]]).kinds == ("number", "number")


def mixed():
    values = np.array([[1.0, 0.0, 1.0], [2.0, 1.0, np.nan]])
    return FeatureTable(("x", "c", "t"), values, ("number", "category", "text"), {"c": ("a", "b"), "t": ("u", "v w")})


def test_rows_and_columns_keep_their_kinds_and_levels():
    assert mixed().take([1]).kinds == mixed().kinds
    assert mixed().take([1]).levels == mixed().levels
    parts = split_table(mixed(), {"left": [2, 0], "right": [1]})
    assert parts["left"].kinds == ("text", "number")
    assert dict(parts["left"].levels) == {"t": ("u", "v w")}
    assert dict(parts["right"].levels) == {"c": ("a", "b")}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kinds": ("number", "category")}, "3 columns and 2 kinds"),
        ({"levels": {"c": ("a", "b")}}, "column 't' is of kind text and has no levels"),
        ({"levels": {"c": ("a",), "t": ("u", "v w")}}, "column 'c': a cell is no code of its 1 levels"),
        ({"values": np.array([[1.0, 0.5, 0.0]])}, "column 'c': a cell is no code"),
        ({"values": np.array([[1.0, 0.0, -1.0]])}, "column 't': a cell is no code"),
    ],
)
def test_codes_must_fit_the_levels(change, reason):
    with pytest.raises(DataError, match=reason):
        dataclasses.replace(mixed(), **change)


def test_names_must_fit_the_columns():
    with pytest.raises(DataError, match="1 column names for 2"):
        FeatureTable.of(np.ones((2, 2)), ["a"])
    with pytest.raises(DataError, match="repeat"):
        FeatureTable.of(np.ones((2, 2)), ["a", "a"])


def test_madelon_like_hides_twenty_columns_of_rank_five():
    data = madelon_like(600, 100, seed=3)
    assert data.relevant.sum() == 20
    singular = np.linalg.svd(data.features[:, data.relevant], compute_uv=False)
    assert singular[4] / singular[5] > 1e6
    assert set(np.unique(data.labels)) == {0, 1}
    assert 0.4 < data.labels.mean() < 0.6


def test_friedman_like_depends_on_its_five_columns_only():
    data = friedman_like(2000, 20, noise=0.0, seed=1)
    assert data.relevant.sum() == 5
    correlation = np.abs(np.corrcoef(data.features.T, data.labels)[-1, :-1])
    assert correlation[~data.relevant].max() < 0.1 < np.sort(correlation[data.relevant])[-3]


@pytest.mark.parametrize("make", [madelon_like, friedman_like])
def test_generated_data_depend_on_the_seed_only(make):
    first, again, other = make(50, 30, seed=1), make(50, 30, seed=1), make(50, 30, seed=2)
    assert np.array_equal(first.features, again.features)
    assert not np.array_equal(first.features, other.features)


def test_the_bank_story_names_its_truth():
    story = bank_loans(500, n_noise=10)
    assert set(story.tables) == {"phone_company", "web_shop"}
    for client, table in story.tables.items():
        assert story.relevant[client] <= set(table.columns)
        assert table.n_columns == 10 + len(story.relevant[client])
        assert table.n_rows == len(story.labels)
    assert story.labels.mean() == pytest.approx(0.3, abs=0.01)


def test_impossible_generated_data_are_refused():
    with pytest.raises(ConfigError, match="room"):
        madelon_like(10, 10)
    with pytest.raises(ConfigError, match="5 columns"):
        friedman_like(10, 4)
    with pytest.raises(ConfigError, match="2 rows"):
        bank_loans(1)

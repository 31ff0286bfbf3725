"""What holds for every table: the same bits alone and in bulk, cut down and whole, written and read again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from table_strategies import tables, word_counts

from fedsdg.config import BinningSettings
from fedsdg.data.binning import bin_columns
from fedsdg.data.encoding import EncodingSettings, TableEncoder
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.preprocessing import CLIP, Preprocessor
from fedsdg.errors import DataError

FEW = EncodingSettings(levels=4, rare_below=2, words=5)


def trained(table, settings=FEW):
    """Train on the first two thirds of the rows."""
    return TableEncoder.fit(table, training_rows(table), settings)


def training_rows(table):
    return np.arange(max(2, 2 * table.n_rows // 3))


def same(left, right):
    return left.dtype == right.dtype and np.array_equal(left, right)


def mixed_table(rows=90):
    """Words, dense counts, numbers, a category and a text: every treatment in one table."""
    stream = np.random.default_rng(3)
    dense = stream.poisson(0.9, size=(rows, 60)).astype(float)
    numbers = np.column_stack([word_counts(rows, 70), dense, stream.normal(size=(rows, 2))])
    numbers[::9, -1] = np.nan
    codes = stream.integers(0, 3, size=(rows, 2)).astype(float)
    names = tuple(f"n{j}" for j in range(numbers.shape[1]))
    return FeatureTable(
        (*names, "colour", "note"),
        np.column_stack([numbers, codes]),
        (*["number"] * len(names), "category", "text"),
        {"colour": ("a", "b", "c"), "note": ("good red thing", "bad blue thing", "good blue idea")},
    )


@given(tables(kinds=("number",), missing=False))
def test_numbers_without_holes_are_prepared_and_binned_as_by_the_numeric_stage_alone(table):
    rows, settings = training_rows(table), BinningSettings(minimum_size=2)
    encoder = trained(table)
    alone = Preprocessor.fit(table.values[rows]).transform(table.values)
    bins = bin_columns(table.values[rows], settings)
    assert same(encoder.transform(table), alone)
    assert same(encoder.bins(table, rows, settings).codes, bins.codes)
    assert same(encoder.bins(table, rows, settings).n_bins, bins.n_bins)
    assert encoder.feature_of_input.tolist() == list(range(table.n_columns))


@pytest.mark.parametrize("order", ["C", "F"])
def test_word_counts_are_prepared_as_by_the_numeric_stage_alone(order):
    counts = np.asarray(word_counts(), order=order)
    rows = np.arange(60)
    preprocessor = Preprocessor.fit(counts[rows])
    assert preprocessor.word_counts.sum() > 50
    assert same(
        TableEncoder.fit(FeatureTable.of(counts), rows).transform(FeatureTable.of(counts)),
        preprocessor.transform(counts),
    )


@given(tables(), st.data())
def test_a_row_gets_the_same_bits_alone_and_among_others(table, data):
    encoder = trained(table)
    whole = encoder.transform(table)
    row = data.draw(st.integers(0, table.n_rows - 1))
    some = data.draw(st.lists(st.integers(0, table.n_rows - 1), min_size=1, max_size=9))
    assert same(encoder.transform(table.take([row])), whole[[row]])
    assert same(encoder.transform(table.take(some)), whole[some])


@pytest.mark.parametrize("columns", [70, 71, 96, 113, 300])
def test_a_row_of_counts_gets_the_same_bits_alone_and_among_others(columns):
    # Row lengths are sums: numpy adds a lone row in another order than a row among others.
    sparse, dense = word_counts(60, columns), word_counts(60, columns, rate=0.9, seed=1)
    table = FeatureTable.of(np.hstack([sparse, dense]))
    encoder = TableEncoder.fit(table, np.arange(40))
    assert encoder.preprocessor.word_counts.any()
    assert encoder.preprocessor.dense_counts.any()
    whole = encoder.transform(table)
    for row in range(table.n_rows):
        assert same(encoder.transform(table.take([row])), whole[[row]])


@given(tables(), st.data())
def test_a_restricted_encoder_gives_the_same_inputs_from_the_columns_it_needs(table, data):
    encoder = trained(table)
    features = data.draw(st.lists(st.integers(0, table.n_columns - 1), min_size=1, unique=True))
    part = encoder.restricted(np.array(features))
    mine = np.isin(encoder.feature_of_input, features)
    order = data.draw(st.permutations([table.positions[name] for name in part.needed_columns]))
    assert same(part.transform(table.select(order)), encoder.transform(table)[:, mine])
    assert part.n_inputs == mine.sum()
    assert set(part.unusable) == set(encoder.unusable) & {table.columns[j] for j in features}


@pytest.mark.parametrize("kept", [[0], [65], [70], [130], [131], [132], [133], [5, 75, 132], list(range(134)), []])
def test_a_restricted_encoder_keeps_the_columns_that_row_lengths_need(kept):
    table = mixed_table()
    encoder = TableEncoder.fit(table, np.arange(60), FEW)
    part = encoder.restricted(np.array(kept, dtype=np.int64))
    only_needed = table.select([table.positions[name] for name in part.needed_columns])
    mine = np.isin(encoder.feature_of_input, kept)
    assert same(part.transform(only_needed), encoder.transform(table)[:, mine])
    assert [code.name for code in part.features] == [table.columns[j] for j in sorted(kept)]
    words = {f"n{j}" for j in np.flatnonzero(encoder.preprocessor.word_counts)}
    if kept == [0]:
        assert set(part.needed_columns) == words
        assert len(words) >= 50
    if kept == [130]:
        assert part.needed_columns == ("n130",)


@given(tables())
def test_an_encoder_survives_being_written_and_read(table):
    encoder = trained(table)
    facts = json.loads(json.dumps(encoder.to_json()))
    arrays = load(save({name: np.ascontiguousarray(value) for name, value in encoder.to_arrays().items()}))
    again = TableEncoder.from_parts(arrays, facts)
    assert same(again.transform(table), encoder.transform(table))
    assert again.to_json() == encoder.to_json()
    assert again.unusable == encoder.unusable
    assert all(same(value, encoder.to_arrays()[name]) for name, value in again.to_arrays().items())
    assert same(again.restricted([0]).transform(table), encoder.restricted([0]).transform(table))


def test_a_restricted_encoder_of_everything_survives_being_written_and_read():
    table = mixed_table()
    part = TableEncoder.fit(table, np.arange(60), FEW).restricted([0, 70, 131, 132, 133])
    again = TableEncoder.from_parts(part.to_arrays(), json.loads(json.dumps(part.to_json())))
    assert same(again.transform(table), part.transform(table))
    assert again.needed_columns == part.needed_columns


@pytest.mark.parametrize("damage", ["fills", "flag_scale", "centre", "format", "numbers", "features", "unusable"])
def test_damaged_preprocessing_is_refused(damage):
    encoder = TableEncoder.fit(mixed_table(), np.arange(60), FEW)
    arrays, facts = encoder.to_arrays(), encoder.to_json()
    if damage in arrays:
        arrays[damage] = arrays[damage][:-1]
    else:
        facts[damage] = {"format": 99, "numbers": ["n0"], "features": [{"name": "n0"}], "unusable": 3}[damage]
    with pytest.raises(DataError, match="damaged" if damage != "format" else "another version"):
        TableEncoder.from_parts(arrays, facts)


@given(tables(), st.integers(0, 2**32))
def test_only_training_rows_teach(table, seed):
    rows = training_rows(table)
    others = np.setdiff1d(np.arange(table.n_rows), rows)
    changed = table.values.copy()
    stream = np.random.default_rng(seed)
    for position, (name, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        fresh = (
            stream.normal(size=len(others))
            if kind == "number"
            else stream.integers(0, len(table.levels[name]), len(others))
        )
        changed[others, position] = np.where(stream.random(len(others)) < 0.2, np.nan, fresh)
    before, after = trained(table), trained(FeatureTable(table.columns, changed, table.kinds, table.levels))
    assert before.to_json() == after.to_json()
    assert all(same(value, after.to_arrays()[name]) for name, value in before.to_arrays().items())


@given(tables(), st.data())
def test_the_numbering_of_the_levels_does_not_matter(table, data):
    values, levels = table.values.copy(), dict(table.levels)
    for position, (name, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        if kind not in ("category", "text"):
            continue
        order = data.draw(st.permutations(range(len(levels[name]))))
        levels[name] = tuple(table.levels[name][code] for code in order)
        present = ~np.isnan(values[:, position])
        values[present, position] = np.argsort(order)[values[present, position].astype(int)]
    renumbered = FeatureTable(table.columns, values, table.kinds, levels)
    assert same(trained(renumbered).transform(table), trained(table).transform(renumbered))


@given(tables())
def test_inputs_are_finite_and_belong_to_columns_in_order(table):
    encoder = trained(table)
    inputs = encoder.transform(table)
    assert inputs.dtype == np.float32
    assert np.isfinite(inputs).all()
    owner = encoder.feature_of_input
    assert inputs.shape == (table.n_rows, encoder.n_inputs) == (table.n_rows, len(owner))
    assert (np.diff(owner) >= 0).all()
    assert set(owner.tolist()) == set(range(table.n_columns))
    of_text = np.array([table.kinds[j] == "text" for j in owner])
    assert np.abs(inputs[:, ~of_text]).max(initial=0) <= CLIP
    assert [fate.inputs for fate in encoder.describe()] == np.bincount(owner).tolist()


@given(tables(max_rows=120), st.integers(2, 6), st.integers(1, 12))
def test_bins_are_few_large_and_numbered_without_gaps(table, most, minimum):
    rows = training_rows(table)
    binning = trained(table).bins(table, rows, BinningSettings(bins=most, minimum_size=minimum))
    assert binning.codes.shape == (len(rows), table.n_columns)
    for codes, count in zip(binning.codes.T, binning.n_bins, strict=True):
        sizes = np.bincount(codes)
        assert len(sizes) == count <= most
        assert sizes.min() > 0
        assert count == 1 or sizes.min() >= minimum


@given(tables(kinds=("number", "category", "ordinal")))
def test_equal_cells_share_a_bin_and_missing_ones_do_too(table):
    rows = training_rows(table)
    binning = trained(table).bins(table, rows, BinningSettings(minimum_size=1))
    for cells, codes in zip(table.values[rows].T, binning.codes.T, strict=True):
        for value in np.unique(cells[~np.isnan(cells)]):
            assert len(set(codes[cells == value].tolist())) == 1
        assert len(set(codes[np.isnan(cells)].tolist())) <= 1

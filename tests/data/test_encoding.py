"""Claims about every treatment: missing cells, categories, orders, texts, and columns that say nothing."""

from __future__ import annotations

import numpy as np
import pytest
from table_strategies import word_counts

from fedsdg.config import BinningSettings
from fedsdg.data.encoding import EncodingSettings, TableEncoder
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import DataError

NAN = np.nan


def coded(kind, cells, levels=None, name="c"):
    """A table of one column of texts (None: missing)."""
    levels = tuple(levels or sorted({cell for cell in cells if cell is not None}))
    codes = [NAN if cell is None else float(levels.index(cell)) for cell in cells]
    return FeatureTable((name,), np.array(codes)[:, None], (kind,), {name: levels})


def fit(table, **settings):
    return TableEncoder.fit(table, np.arange(table.n_rows), EncodingSettings(**settings))


def column(*cells):
    return FeatureTable(("x",), np.array(cells, dtype=float)[:, None])


def joined(*tables):
    return FeatureTable(
        tuple(name for table in tables for name in table.columns),
        np.hstack([table.values for table in tables]),
        tuple(kind for table in tables for kind in table.kinds),
        {name: levels for table in tables for name, levels in table.levels.items()},
    )


class TestMissingNumbers:
    def test_the_median_takes_their_place_and_a_flag_tells(self):
        encoder = fit(column(1, 2, NAN, 3, 9, NAN))
        filled, whole = encoder.transform(column(NAN, 2)), encoder.transform(column(2, 2))
        assert encoder.feature_of_input.tolist() == [0, 0]
        assert filled[0, 0] == whole[0, 0]
        assert filled[0, 1] > 0 > whole[0, 1]

    def test_the_median_is_a_value_that_occurs_so_counts_stay_counts(self):
        assert fit(column(1, 2, NAN, 3, 4)).fills.tolist() == [2.0]

    def test_missing_at_prediction_only_has_no_flag(self):
        encoder = fit(column(1, 2, 3, 9))
        assert encoder.n_inputs == 1
        assert encoder.transform(column(NAN)).tolist() == encoder.transform(column(2)).tolist()

    def test_a_value_that_is_constant_where_it_is_known_still_tells_by_its_absence(self):
        encoder = fit(column(7, 7, NAN, 7, NAN))
        assert not encoder.unusable
        assert not encoder.transform(column(7, 7, NAN))[:, 0].any()

    def test_missing_cells_have_a_bin_of_their_own(self):
        cells = np.concatenate([np.arange(60.0), np.full(20, NAN)])
        table = column(*cells)
        codes = fit(table).bins(table, np.arange(80), BinningSettings(bins=4)).codes[:, 0]
        assert len(set(codes[60:])) == 1
        assert not set(codes[60:]) & set(codes[:60])
        assert set(codes) == {0, 1, 2, 3}

    def test_with_two_bins_there_is_known_and_missing(self):
        table = column(*np.concatenate([np.arange(30.0), np.full(30, NAN)]))
        codes = fit(table).bins(table, np.arange(60), BinningSettings(bins=2)).codes[:, 0]
        assert codes.tolist() == [0] * 30 + [1] * 30

    def test_a_few_missing_cells_are_merged_with_a_neighbour(self):
        table = column(*np.concatenate([np.arange(60.0), np.full(3, NAN)]))
        codes = fit(table).bins(table, np.arange(63), BinningSettings()).codes[:, 0]
        assert np.bincount(codes).min() >= 10

    def test_flags_and_filled_columns_do_not_turn_numbers_into_word_counts(self):
        stream = np.random.default_rng(0)
        values = stream.normal(size=(100, 60))
        values[stream.random(values.shape) < 0.1] = NAN
        many = coded("category", [f"level {i % 70}" for i in range(100)], name="many")
        encoder = fit(joined(FeatureTable.of(values), many), levels=100, rare_below=1)
        assert encoder.n_inputs == 60 * 2 + 70
        assert not encoder.preprocessor.word_counts.any()
        assert not encoder.preprocessor.dense_counts.any()

    def test_word_counts_with_holes_stay_word_counts(self):
        counts = word_counts()
        whole = TableEncoder.fit(FeatureTable.of(counts), np.arange(60))
        counts[5:8, :40] = NAN
        holes = TableEncoder.fit(FeatureTable.of(counts), np.arange(60))
        assert holes.preprocessor.word_counts[:40].sum() > 30
        assert whole.preprocessor.word_counts.sum() == pytest.approx(holes.preprocessor.word_counts.sum(), abs=10)


class TestCategories:
    def test_every_frequent_level_has_a_flag(self):
        cells = ["red", "green", "blue", "green"] * 10
        table = coded("category", cells)
        inputs = fit(table).transform(table)
        assert inputs.shape == (40, 3)
        assert ((inputs > 0).sum(axis=1) == 1).all()
        assert np.allclose(inputs.mean(axis=0), 0, atol=1e-6)
        assert np.allclose(inputs.std(axis=0), 1, atol=1e-5)

    def test_missing_is_a_level_of_its_own(self):
        table = coded("category", ["a", None] * 20)
        encoder = fit(table)
        assert encoder.features[0].levels == ("a", None)
        assert not encoder.features[0].other
        assert not encoder.unusable

    def test_rare_levels_are_grouped_and_unknown_ones_join_them(self):
        table = coded("category", ["a"] * 20 + ["b"] * 20 + ["c"] * 3 + ["d"] * 4)
        encoder = fit(table)
        assert encoder.features[0].levels == ("a", "b")
        new = encoder.transform(coded("category", ["a", "c", "d", "never seen", None]))
        assert new.shape == (5, 3)
        assert new[0].tolist() != new[1].tolist()
        assert new[1].tolist() == new[2].tolist() == new[3].tolist() == new[4].tolist()
        assert new[1, 2] > 0

    def test_without_rare_levels_an_unknown_one_raises_no_flag(self):
        encoder = fit(coded("category", ["a", "b"] * 20))
        assert (encoder.transform(coded("category", ["new"])) < 0).all()

    def test_many_levels_become_the_most_frequent_and_the_others(self):
        cells = [f"{i:02d}" for i in range(30) for _ in range(10 + i)]
        encoder = fit(coded("category", cells))
        assert encoder.n_inputs == 20
        assert encoder.features[0].levels == tuple(f"{i:02d}" for i in range(11, 30))
        assert encoder.features[0].other

    def test_twenty_levels_need_no_group(self):
        encoder = fit(coded("category", [f"{i:02d}" for i in range(20)] * 10))
        assert encoder.n_inputs == 20
        assert not encoder.features[0].other

    def test_twenty_levels_and_rare_ones_stay_within_twenty_inputs(self):
        encoder = fit(coded("category", [f"{i:02d}" for i in range(20)] * 10 + ["rare"]))
        assert encoder.n_inputs == 20

    def test_bins_are_the_most_frequent_levels_and_the_rest(self):
        cells = [f"{i:02d}" for i in range(30) for _ in range(10 + i)]
        table = coded("category", cells)
        binning = fit(table).bins(table, np.arange(table.n_rows), BinningSettings(bins=4))
        assert np.bincount(binning.codes[:, 0]).tolist() == [39, 38, 37, len(cells) - 39 - 38 - 37]

    def test_small_levels_share_a_bin_with_one_another_and_not_with_a_frequent_level(self):
        table = coded("category", ["a"] * 30 + ["b"] * 30 + ["c"] * 6 + ["d"] * 7)
        binning = fit(table).bins(table, np.arange(73), BinningSettings())
        assert np.bincount(binning.codes[:, 0]).tolist() == [30, 30, 13]

    def test_missing_has_a_bin(self):
        table = coded("category", ["a"] * 30 + [None] * 20 + ["b"] * 15)
        codes = fit(table).bins(table, np.arange(65), BinningSettings()).codes[:, 0]
        assert np.bincount(codes).tolist() == [30, 20, 15]

    def test_numbers_are_written_out_where_a_category_was_learned(self):
        encoder = fit(coded("category", ["1", "2.5"] * 20))
        new = FeatureTable(("c",), np.array([[1.0], [2.5], [NAN]]))
        wanted = coded("category", ["1", "2.5", None])
        assert np.array_equal(encoder.transform(new), encoder.transform(wanted))


class TestOrdinals:
    def test_levels_become_ranks_in_their_order(self):
        table = coded("ordinal", ["low", "mid", "high"] * 10, ["low", "mid", "high"])
        inputs = fit(table).transform(coded("ordinal", ["low", "mid", "high"]))[:, 0]
        assert inputs[0] < inputs[1] < inputs[2]
        assert inputs[1] - inputs[0] == pytest.approx(inputs[2] - inputs[1])

    def test_numbers_as_levels_are_sorted_by_size(self):
        table = coded("ordinal", ["2", "10", "9"] * 10, ["2", "9", "10"])
        assert fit(table).features[0].levels == ("2", "9", "10")

    def test_a_new_level_stands_between_its_neighbours_when_levels_are_sorted(self):
        encoder = fit(coded("ordinal", ["a", "c", "e"] * 10))
        new = encoder.transform(coded("ordinal", ["a", "b", "c", "z"]))[:, 0]
        assert new[0] < new[1] < new[2] < new[3]

    def test_a_listed_level_keeps_its_place_though_no_training_row_holds_it(self):
        listed = ["low", "mid", "high"]
        encoder = fit(coded("ordinal", ["low", "high"] * 10, listed))
        new = encoder.transform(coded("ordinal", listed, listed))[:, 0]
        assert new[0] < new[1] < new[2]

    def test_a_level_that_is_not_listed_is_missing(self):
        encoder = fit(coded("ordinal", ["low", "mid", "mid", "high"] * 10, ["low", "mid", "high"]))
        new = encoder.transform(coded("ordinal", ["odd", "mid"]))
        assert new[0].tolist() == new[1].tolist()

    def test_missing_has_the_middle_rank_and_a_flag(self):
        encoder = fit(coded("ordinal", ["a", "b", "c", None] * 10))
        new = encoder.transform(coded("ordinal", [None, "b"], ["a", "b", "c"]))
        assert new.shape == (2, 2)
        assert new[0, 0] == new[1, 0]
        assert new[0, 1] > 0 > new[1, 1]

    def test_bins_follow_the_order(self):
        cells = ["low"] * 20 + ["mid"] * 20 + ["high"] * 20 + [None] * 20
        table = coded("ordinal", cells, ["low", "mid", "high"])
        assert fit(table).bins(table, np.arange(80), BinningSettings()).codes[:, 0].tolist() == [
            *[0] * 20,
            *[1] * 20,
            *[2] * 20,
            *[3] * 20,
        ]


class TestTexts:
    texts = ("The good Red wine!", "the good white wine", "the bad red wine", "nothing of these")

    def test_the_most_frequent_words_are_counted_whatever_their_case(self):
        table = coded("text", list(self.texts) * 10)
        encoder = fit(table, words=4)
        assert encoder.features[0].levels == ("the", "wine", "good", "red")
        inputs = encoder.transform(table)
        lengths = np.linalg.norm(inputs, axis=1)
        assert np.allclose(lengths[:3], lengths[0])
        assert lengths[3] == 0

    def test_more_of_a_word_weighs_more(self):
        encoder = fit(coded("text", list(self.texts) * 10), words=4)
        once, thrice = encoder.transform(coded("text", ["good red", "good red red red"]))
        assert thrice[3] > once[3]
        assert thrice[2] < once[2]

    def test_rare_words_are_not_counted(self):
        table = coded("text", ["common word here"] * 30 + ["rare word here"] * 5)
        assert fit(table).features[0].levels == ("here", "word", "common")

    def test_missing_texts_have_no_words_and_a_flag(self):
        table = coded("text", ["red wine", "white wine", None, "red wine"] * 10)
        encoder = fit(table)
        missing = encoder.transform(coded("text", [None], ["red wine"]))[0]
        assert not missing[:-1].any()
        assert missing[-1] > 0

    def test_a_text_counts_as_one_feature(self):
        table = joined(coded("text", list(self.texts) * 10, name="a"), coded("category", ["x", "y"] * 20, name="b"))
        assert set(fit(table).feature_of_input.tolist()) == {0, 1}
        assert fit(table, words=3).feature_of_input.tolist() == [0, 0, 0, 1, 1]

    def test_bins_tell_groups_of_texts_apart(self):
        cells = ["invoice payment due date"] * 40 + ["football match goal team"] * 40
        table = coded("text", cells)
        codes = fit(table).bins(table, np.arange(80), BinningSettings()).codes[:, 0]
        assert not set(codes[:40]) & set(codes[40:])


class TestColumnsThatSayNothing:
    def test_constant_empty_and_repeated_columns_are_named_with_their_reason(self):
        stream = np.random.default_rng(0)
        x = stream.normal(size=40)
        numbers = np.column_stack([x, np.full(40, 7.0), np.full(40, NAN), x, x + 1])
        table = joined(
            FeatureTable(("x", "seven", "empty", "again", "other"), numbers),
            coded("category", ["a"] * 40, name="always a"),
            coded("category", ["a", "b"] * 20, ["a", "b"], name="ab"),
            coded("category", ["a", "b"] * 20, ["b", "unused", "a"], name="ab again"),
            coded("ordinal", ["a", "b"] * 20, name="ordered ab"),
            coded("category", [f"one of a kind {i}" for i in range(40)], name="rare"),
            coded("text", [f"alone{i} apart{i} unique{i}" for i in range(40)], name="words"),
            coded("category", [None] * 40, ["a"], name="none"),
        )
        encoder = fit(table)
        assert encoder.unusable == {
            "seven": "constant on the training rows",
            "empty": "empty on the training rows",
            "again": "repeats column 'x'",
            "always a": "constant on the training rows",
            "ab again": "repeats column 'ab'",
            "rare": "every level is rare on the training rows",
            "words": "no word is frequent on the training rows",
            "none": "empty on the training rows",
        }
        assert len(encoder.features) == table.n_columns
        assert np.isfinite(encoder.transform(table)).all()

    def test_only_training_rows_decide(self):
        table = FeatureTable(("x", "y"), np.array([[1.0, 1], [1, 2], [2, 2], [3, 3]]))
        assert TableEncoder.fit(table, np.array([0, 1])).unusable == {"x": "constant on the training rows"}
        assert TableEncoder.fit(table, np.array([2, 3])).unusable == {"y": "repeats column 'x'"}

    def test_columns_with_the_same_holes_and_values_repeat_each_other(self):
        cells = np.array([1.0, NAN, 3.0, -0.0])
        table = FeatureTable(("x", "y", "z"), np.column_stack([cells, cells + 0.0, np.nan_to_num(cells)]))
        assert fit(table).unusable == {"y": "repeats column 'x'"}

    def test_texts_that_only_look_alike_when_joined_are_different(self):
        left = coded("category", ["ab", "c"] * 20, name="left")
        right = coded("category", ["a", "bc"] * 20, name="right")
        assert not fit(joined(left, right)).unusable


class TestUse:
    def test_columns_are_found_by_name(self):
        table = joined(column(1, 2, 3), coded("category", ["a", "b", "a"]))
        encoder = fit(table, rare_below=1)
        wide = joined(coded("category", ["a", "b", "a"]), FeatureTable(("extra",), np.zeros((3, 1))), column(1, 2, 3))
        assert np.array_equal(encoder.transform(wide), encoder.transform(table))

    def test_a_missing_column_is_refused_by_name(self):
        with pytest.raises(DataError, match="no column 'x'"):
            fit(column(1, 2, 3)).transform(FeatureTable(("y",), np.ones((1, 1))))

    def test_text_in_a_column_of_numbers_is_refused_by_name(self):
        encoder = fit(FeatureTable(("c",), np.array([[1.0], [2.0]])))
        with pytest.raises(DataError, match="column 'c' held numbers in training and holds text now"):
            encoder.transform(coded("category", ["a"]))

    def test_an_empty_column_of_any_kind_is_missing(self):
        numbers = fit(FeatureTable(("c",), np.array([[1.0], [2.0], [3.0]])))
        assert np.isfinite(numbers.transform(coded("category", [None], ["a"]))).all()
        levels = fit(coded("category", ["a", None] * 20))
        assert np.isfinite(levels.transform(FeatureTable(("c",), np.array([[NAN]])))).all()

    def test_infinite_numbers_are_refused(self):
        with pytest.raises(DataError, match="infinite"):
            fit(column(1, 2, 3)).transform(column(np.inf))

    def test_no_rows_give_no_inputs(self):
        encoder = fit(joined(column(1, 2, NAN), coded("text", ["a b c", "a", None])), rare_below=1)
        empty = joined(column(1, 2, NAN), coded("text", ["a b c", "a", None])).take(np.empty(0, dtype=int))
        assert encoder.transform(empty).shape == (0, encoder.n_inputs)

    def test_a_description_says_what_becomes_of_every_column(self):
        table = joined(
            column(*[1, 2, NAN, 4] * 10),
            coded("category", ["a", "b", None, "c"] * 10, name="colour"),
            coded("ordinal", ["a", "b"] * 20, name="grade"),
            coded("text", ["one two three", "one two"] * 20, name="note"),
            FeatureTable(("seven",), np.full((40, 1), 7.0)),
        )
        told = {fate.name: (fate.kind, fate.inputs, fate.treatment, fate.unusable) for fate in fit(table).describe()}
        assert told == {
            "x": ("number", 2, "standardised, missing: the median and a flag", None),
            "colour": ("category", 4, "a flag for each of: 3 levels, missing", None),
            "grade": ("ordinal", 1, "rank of 2 levels, standardised", None),
            "note": ("text", 3, "counts of 3 words: logarithm, rows of unit length", None),
            "seven": ("number", 1, "standardised", "constant on the training rows"),
        }

    def test_a_description_tells_word_counts(self):
        encoder = TableEncoder.fit(FeatureTable.of(word_counts()), np.arange(60))
        assert encoder.describe()[0].treatment == "word count: logarithm, rows of unit length"

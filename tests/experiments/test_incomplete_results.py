"""Rows that are right and not all there yet: tables show what there is, and say nothing about what there is not."""

from __future__ import annotations

import pytest
from experiment_helpers import row

from fedsdg.experiments import accuracy, rivals
from fedsdg.experiments.catalogue import EXPERIMENTS
from fedsdg.experiments.short_table import short_table
from fedsdg.experiments.statistics import is_regression, lead, paired_test, shared_cells

METHODS = ("fedsdg", "sffs@matched", "all", "centralised")
NOTHING = "No data set has rows both"


def rows_of(dataset="MADELON", methods=METHODS, **changes):
    """Two cells of some methods; `all` and `centralised` use every column."""
    few = {"fedsdg": 13, "sffs@matched": 13}
    return [
        row(dataset, method, fold, accuracy=0.8 + fold / 10, selected=few.get(method, 500), ratio=0.5) | changes
        for method in methods
        for fold in range(2)
    ]


def without(field, rows, methods=METHODS):
    return [{k: v for k, v in each.items() if k != field or each["method"] not in methods} for each in rows]


@pytest.mark.parametrize(
    "rows",
    [
        rows_of(methods=["fedsdg"]),
        rows_of(methods=["sffs@matched", "all"]),
        rows_of(methods=["centralised"]),
        rows_of(methods=["fedsdg", "all"]),
        rows_of(methods=["fedsdg", "centralised"]),
        without("selected", rows_of()),
        without("selected", rows_of(), ["fedsdg"]),
        without("accuracy", rows_of()),
        without("accuracy", rows_of(), ["fedsdg"]),
        rows_of(accuracy=None),
        [each | {"fold": 9} if each["method"] == "fedsdg" else each for each in rows_of()],
        [],
    ],
)
def test_a_set_with_nothing_to_compare_is_left_out_of_the_short_table(rows):
    assert short_table(rows).startswith(NOTHING)
    both = short_table([*rows, *rows_of("PCMAC")])
    assert both.splitlines()[0] == "|  | PCMAC |"
    assert "nan" not in accuracy.table([*rows, *rows_of("PCMAC")])


def test_filters_without_a_score_are_not_the_best():
    rows = [*rows_of(), *rows_of(methods=["gini@matched"], accuracy=None)]
    assert "(Gini, F, chi2, ...), matched | 85.0 |" in short_table(rows)


def test_a_data_set_of_the_users_own_is_shown_and_not_counted_among_the_papers():
    page = EXPERIMENTS["accuracy"].page(rows_of("MY OWN"))
    assert "| MY OWN | 85.0 ± 7.1 / 0.500 | SFFS, matched: 85.0" in page
    assert "genuine classification sets" not in page
    assert "without all rows" not in page
    assert "| FedSDG-FS | **85.0** / 0.500 |" in short_table(rows_of("MY OWN"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_shows_a_data_set_of_the_users_own(name):
    curve = [{"step": 1.0, "open": 3.0, "score": 0.5, "overlap": 0.5}]
    rows = [row("MY OWN", each.name, columns=[1], curve=curve) for each in EXPERIMENTS[name].variants]
    assert "MY OWN" in EXPERIMENTS[name].page(rows)


def test_cells_without_a_score_are_not_compared():
    ours = [row(fold=fold, accuracy=0.9) for fold in range(3)]
    theirs = [row(fold=0, accuracy=None), row(fold=1, accuracy=0.8), row(fold=2, accuracy=0.7)]
    assert [left["fold"] for left, _ in shared_cells(ours, theirs)] == [1, 2]
    assert paired_test(ours, theirs, folds=3).difference == pytest.approx(0.15)
    assert lead(ours, theirs) == pytest.approx(0.15)


def test_a_score_is_r_squared_only_where_there_is_one():
    assert is_regression([row(accuracy=None), row(accuracy=None, r2=-0.2)])
    assert not is_regression([row(r2=None)])
    assert "85.0 ± 7.1" in accuracy.scores_table(rows_of(r2=None))
    assert "0.300 ± 0.000" in accuracy.scores_table(rows_of(accuracy=None, r2=0.3))


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        ([0.03, 0.97], "0.500 (0.03 to 0.97) |"),
        ([0.0251, 0.0349], "0.030 (0.025 to 0.035) |"),
        ([1.0, 0.2], "0.600 (0.2 to 1) |"),
        ([0.5, 0.5], "0.500 |"),
        ([0.5], "0.500 |"),
        ([None, 0.5], "0.500 |"),
        ([None], "- |"),
    ],
)
def test_the_spread_of_the_share_of_columns_stands_beside_its_mean(shares, shown):
    ours = [row("MADELON", "fedsdg", fold, selected=5, ratio=share) for fold, share in enumerate(shares)]
    rows = [*ours, *(row("MADELON", "all", fold, selected=500, ratio=1.0) for fold, _ in enumerate(shares))]
    assert f"/ {shown}" in rivals.runner_up_table(rows)
    assert rivals.runner_up_table(ours) == ""  # nobody to stand beside: no table without lines either


def test_a_single_cell_has_no_spread_and_says_that_it_is_alone():
    page = accuracy.table([row("WINE", "fedsdg", selected=5, ratio=0.4), row("WINE", "all", selected=13, ratio=1.0)])
    assert "±" not in page.split("against the best method")[0].split("|", 1)[1]
    assert page.count("(1 cell)") == 2


def test_leads_over_different_cells_are_not_ranked():
    """A method of one lucky fold must not stand for the best of all; the ceiling is compared on the cells it has."""
    rows = []
    for fold in range(4):
        rows.append(row("WINE", "fedsdg", fold, accuracy=0.90 + fold / 100, selected=5, ratio=0.4))
        rows.append(row("WINE", "all", fold, accuracy=0.95, selected=13, ratio=1.0))
    rows.append(row("WINE", "vflfs@0.5", 0, accuracy=0.99, selected=7, ratio=0.5))
    rows += [row("WINE", "centralised", fold, accuracy=0.97, selected=13, ratio=1.0) for fold in range(2)]
    line = rivals.runner_up_table(rows).splitlines()[-1]
    assert "all features: 95.0 ± 0.0 / 1.000 | behind (-3.5" in line
    assert "VFLFS" not in line
    assert "| 97.0 ± 0.0 (2 cells) | tied (-6.5" in line

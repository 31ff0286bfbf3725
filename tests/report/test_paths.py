"""Curves over rounds: a mean over the same cells at every step, also where gates have closed in some of them."""

from __future__ import annotations

import pytest
from report_helpers import make_rows

from fedsdg.report.figures.catalogue import figures_of
from fedsdg.report.figures.paths import curves


def path(*entries):
    return {
        "curve": [{"step": 10.0 * (n + 1), "open": open_, "score": score} for n, (open_, score) in enumerate(entries)]
    }


def means(*rows, field="score"):
    (series,) = curves({"m": rows}, field)
    return [(point.x, pytest.approx(point.y)) for point in series.points]


def test_a_cell_whose_gates_have_all_closed_stays_in_the_mean():
    survivor, closed = path((9, 0.9), (5, 0.8), (4, 0.8), (3, 0.8)), path((9, 0.7), (0, 0.4))
    assert means(survivor, closed) == [(10, 0.8), (20, 0.6), (30, 0.6), (40, 0.6)]
    assert means(survivor, closed, field="open") == [(10, 9), (20, 2.5), (30, 2), (40, 1.5)]


def test_a_line_ends_where_a_cell_is_missing_for_another_reason():
    assert means(path((9, 0.9), (5, 0.8), (4, 0.7)), path((9, 0.7), (4, 0.6))) == [(10, 0.8), (20, 0.7)]
    unknown = path((9, 0.7), (0, None))  # what no gate is open for can be unknown: overlap, for one
    assert means(path((9, 0.9), (5, 0.8), (4, 0.7)), unknown) == [(10, 0.8)]


def test_a_cell_without_a_path_does_not_count():
    assert means(path((9, 0.9)), {"curve": []}, {}) == [(10, 0.9)]


def stability_over_rounds(rows):
    return next(figure for figure in figures_of("stability", rows) if figure.title.endswith("score over rounds"))


def test_stability_follows_test_rows_where_they_were_scored():
    rows = make_rows("stability", "MADELON")
    on_test = stability_over_rounds(rows)
    assert on_test.chart.y.label == "test accuracy (%)"
    assert "Test rows" in on_test.caption
    assert on_test.chart.series[0].points[0].y == pytest.approx(45)
    del rows[0]["curve"][0]["test"]  # from before test rows were scored: the two must not meet in one line
    on_validation = stability_over_rounds(rows)
    assert on_validation.chart.y.label == "validation accuracy (%)"
    assert "no test scores" in on_validation.caption
    assert on_validation.chart.series[0].points[0].y == pytest.approx(55)


def test_stability_says_in_how_many_cells_nothing_stayed_open():
    rows = make_rows("stability", "MADELON")
    assert "Every gate closed" not in stability_over_rounds(rows).caption
    first = next(row for row in rows if row["method"] == "FedSDG-FS, path")
    first["curve"] = first["curve"][:3]
    first["curve"][-1] |= {"open": 0.0, "test": 0.1}
    figure = stability_over_rounds(rows)
    assert "Every gate closed in 1 of 3 cells (FedSDG-FS), which" in figure.caption
    ours = figure.chart.series[0].points
    assert [point.x for point in ours] == [10, 20, 30, 40, 50]
    assert ours[-1].y == pytest.approx((10 + 65 + 65) / 3)

"""The report of an experiment: the paper's figures redrawn, and refusals of rows that do not belong together."""

from __future__ import annotations

import json
import re

import pytest
from report_helpers import Tags, drawings, make_experiment, make_rows, words

from fedsdg.errors import ConfigError, DataError, FedSDGError
from fedsdg.experiments.catalogue import EXPERIMENTS
from fedsdg.experiments.methods import label
from fedsdg.experiments.paper_numbers import TWO_CLIENTS
from fedsdg.experiments.rivals import as_few
from fedsdg.experiments.statistics import group, metric, summary
from fedsdg.report import html, markdown
from fedsdg.report.build import build_page
from fedsdg.report.charts.bar_chart import BarChart
from fedsdg.report.charts.dot_chart import DotChart
from fedsdg.report.charts.line_chart import LineChart
from fedsdg.report.document import Gallery
from fedsdg.report.figures.catalogue import DRAWERS, figures_of

#: The plots that docs/reports.md promises, of one data set.
PLOTS = {
    "accuracy": ("test accuracy (%)", "score against features"),
    "precision": ("precision", "recall"),
    "motivation": ("score with more redundant columns", "model size with more redundant columns"),
    "overlap": ("overlap with Gini", "open features"),
    "gini_ablation": ("filters against the number of features",),
    "two_by_two": ("test score", "features kept", "values sent"),
    "model_table": ("model size",),
    "paper_preset": ("test score", "selected features"),
    "clients": ("more clients",),
    "stability": (
        "score over numbers of features",
        "score over rounds",
        "open features over rounds",
        "same columns in different cells",
    ),
    "convergence": ("open features", "score on the way"),
    "communication": ("sent for 100 predictions", "sent for training"),
    "security_cost": ("time of a job", "bytes of a job", "test score", "time of a filter", "bytes of a filter"),
    "permuted_labels": ("labels in random order",),
}


def figures_in(folder):
    page = build_page([folder])
    return [item for block in page.sections[0].blocks if isinstance(block, Gallery) for item in block.items]


def test_every_experiment_has_a_figure_of_its_own():
    assert set(DRAWERS) == set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_as_an_experiment_writes_them_give_every_plot_that_is_promised(name):
    dataset = EXPERIMENTS[name].datasets[0]
    figures = figures_of(name, make_rows(name, dataset))
    assert [figure.title for figure in figures] == [f"{dataset}: {what}" for what in PLOTS[name]]


def test_bytes_are_shown_of_every_job_and_every_filter():
    figures = {figure.title: figure.chart for figure in figures_of("security_cost", make_rows("security_cost"))}
    job, of_filter = figures["MADELON: bytes of a job"], figures["MADELON: bytes of a filter"]
    assert [(bar.name, bar.text) for bar in job.bars] == [("plain", "0.0"), ("masked", "2.0")]
    assert job.axis.label == "sent (MB)"
    expected = {variant.name for variant in EXPERIMENTS["security_cost"].variants} - {"plain", "masked"}
    assert {bar.name for bar in of_filter.bars} == expected


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_becomes_a_page_with_plots_and_its_table(name, tmp_path):
    folder = make_experiment(tmp_path / name, name)
    page = build_page([folder])
    written = html.render(page)
    found = drawings(written)
    assert found
    assert EXPERIMENTS[name].question in Tags(written).text
    rows = make_rows(name)
    for dataset in {row["dataset"] for row in rows}:
        assert any(dataset in drawing[0].text for drawing in found)
        assert dataset in Tags(written).text
    for drawing in found:
        assert not any(re.search(r"\b(nan|inf)\b", text) for text in words(drawing))
    assert EXPERIMENTS[name].question in markdown.render(page)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_one_row_alone_is_enough_for_a_page(name, tmp_path):
    folder = make_experiment(tmp_path / name, name, make_rows(name)[:1])
    assert drawings(html.render(build_page([folder]))) or name == "model_table"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_scores_that_could_not_be_computed_are_left_out(name, tmp_path):
    rows = make_rows(name)
    numbers = ("accuracy", "precision", "recall", "bytes", "job_bytes", "parameters")
    unknown = [row | dict.fromkeys(numbers) for row in rows]
    for row in unknown:
        row.pop("r2", None)
    page = html.render(build_page([make_experiment(tmp_path / name, name, unknown)]))
    for drawing in drawings(page):
        for element in drawing.iter():
            assert "nan" not in " ".join(v for k, v in element.attrib.items() if k not in ("id", "aria-labelledby"))


def test_the_headline_bars_have_error_bars_the_papers_number_and_the_ceiling(tmp_path):
    rows = make_rows("accuracy", "MADELON")
    figure = figures_in(make_experiment(tmp_path / "a", "accuracy", rows))[0]
    chart = figure.chart
    assert isinstance(chart, BarChart)
    ours = next(bar for bar in chart.bars if bar.ours)
    expected = summary([metric(row) for row in rows if row["method"] == "fedsdg"])
    assert (ours.value, ours.error) == pytest.approx((100 * expected.mean, 100 * expected.deviation))
    assert ours.published == TWO_CLIENTS["MADELON"]["fedsdg"][0]
    ceiling = summary([metric(row) for row in rows if row["method"] == "centralised"])
    assert chart.limit == ("best centralised model", pytest.approx(100 * ceiling.mean))
    (drawing,) = (d for d in drawings(html.render(build_page([tmp_path / "a"]))) if d[0].text == figure.title)
    classes = " ".join(element.get("class", "") for element in drawing.iter())
    assert "whisker" in classes
    assert "ringed" in classes
    assert "limit" in classes
    assert {"the paper's number", "best centralised model"} <= set(words(drawing))


def test_the_first_figure_puts_all_data_sets_beside_the_model_on_all_features(tmp_path):
    rows = [
        row | {"selected": 90 if row["method"] == "all" else 9}
        for name in ("MADELON", "COIL20", "FRIEDMAN")
        for row in make_rows("accuracy", name)
    ]
    chart = figures_in(make_experiment(tmp_path / "a", "accuracy", rows))[0].chart
    assert isinstance(chart, DotChart)
    assert [line.name for line in chart.lines] == ["MADELON", "COIL20"]  # R squared has another axis
    for line in chart.lines:
        of = group(rows)[line.name]
        mean = {method: 100 * summary([metric(row) for row in found]).mean for method, found in of.items()}
        ours, rival, everything, ceiling = line.dots
        assert ours.value == pytest.approx(mean["fedsdg"])
        assert everything.value == pytest.approx(mean["all"])
        assert ceiling.value == pytest.approx(mean["centralised"])
        assert rival.value == pytest.approx(max(mean[method] for method in as_few(of["fedsdg"], of)))
        assert rival.whose in {label(method) for method in of}


def test_every_method_has_a_mark_of_its_own_beside_the_share_of_features(tmp_path):
    figures = figures_in(make_experiment(tmp_path / "a", "accuracy", make_rows("accuracy", "MADELON")))
    chart = next(figure.chart for figure in figures if "score against features" in figure.title)
    marks = [(series.slot, series.hollow) for series in chart.series]
    assert len(set(marks)) == len(marks) > 10
    assert {"FedSDG-FS", "original-Gate", "group lasso", "random"} <= {series.name for series in chart.series}


def test_a_surrogate_is_called_one_beside_every_number(tmp_path):
    rows = make_rows("accuracy", "GISETTE_SURROGATE", surrogate=True)
    page = html.render(build_page([make_experiment(tmp_path / "s", "accuracy", rows)]))
    assert all("surrogate, not GISETTE" in drawing[0].text for drawing in drawings(page))


def test_precision_is_drawn_against_the_number_of_features(tmp_path):
    figures = figures_in(make_experiment(tmp_path / "p", "precision", make_rows("precision", "MADELON")))
    chart = figures[0].chart
    assert isinstance(chart, LineChart)
    assert chart.x.log
    assert "FedSDG-FS" in {series.name for series in chart.series}
    assert "FedSDG-FS, own number" in {series.name for series in chart.series}
    assert all(0 <= point.y <= 100 for series in chart.series for point in series.points)


def test_paths_over_rounds_are_means_with_a_band(tmp_path):
    rows = make_rows("convergence", "MADELON")
    for row in rows:
        for entry in row["curve"]:
            entry["open"] += row["fold"]
    chart = figures_in(make_experiment(tmp_path / "c", "convergence", rows))[0].chart
    assert all(series.band for series in chart.series)
    assert chart.series[0].points[0].y == pytest.approx(51)
    assert chart.series[0].points[0].error == pytest.approx(1)


def test_an_experiment_without_a_figure_shows_its_scores_as_bars():
    figures = figures_of("something new", make_rows("accuracy", "MADELON"))
    assert [figure.title for figure in figures] == ["MADELON: test score"]


def test_an_unfinished_experiment_says_so(tmp_path):
    there = [row for row in make_rows("accuracy", "MADELON") if row["fold"] < 2]
    folder = make_experiment(tmp_path / "half", "accuracy", there)
    (folder / "failures.jsonl").write_text(json.dumps(make_rows("accuracy", "MADELON")[2] | {"error": "no"}) + "\n")
    text = Tags(html.render(build_page([folder]))).text
    assert "2 of 3: not finished" in text
    assert "1 tasks failed" in text


# --- What is refused -----------------------------------------------------------------------------------------------


def test_rows_of_another_experiment_are_refused(tmp_path):
    rows = [*make_rows("accuracy", "MADELON"), *make_rows("convergence", "MADELON")]
    with pytest.raises(DataError, match="mixes experiments"):
        build_page([make_experiment(tmp_path / "x", "accuracy", rows)])


def test_rows_made_with_other_settings_are_refused(tmp_path):
    rows = [*make_rows("accuracy", "MADELON"), *make_rows("accuracy", "PCMAC", config_hash="others")]
    with pytest.raises(DataError, match="different training settings"):
        build_page([make_experiment(tmp_path / "x", "accuracy", rows)])


def test_an_experiment_without_rows_is_refused(tmp_path):
    folder = make_experiment(tmp_path / "x", "accuracy", [])
    with pytest.raises(ConfigError, match="no rows yet"):
        build_page([folder])
    (folder / "results.jsonl").unlink()
    with pytest.raises(ConfigError, match="no rows yet"):
        build_page([folder])


def test_rows_without_a_description_are_refused(tmp_path):
    folder = make_experiment(tmp_path / "x", "accuracy")
    (folder / "experiment.json").unlink()
    with pytest.raises(ConfigError, match="nobody knows which experiment"):
        build_page([folder])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 3}', '{"question": "?"}'])
def test_a_damaged_description_is_refused(content, tmp_path):
    folder = make_experiment(tmp_path / "x", "accuracy")
    (folder / "experiment.json").write_text(content)
    with pytest.raises(FedSDGError):
        build_page([folder])


@pytest.mark.parametrize("change", [{"accuracy": "high"}, {"selected": "many"}, {"ratio": []}])
def test_a_row_with_something_else_than_numbers_is_refused(change, tmp_path):
    rows = make_rows("accuracy", "MADELON")
    rows[0] |= change
    with pytest.raises(DataError, match=rf"line 1 is not a row of results \({next(iter(change))}: "):
        build_page([make_experiment(tmp_path / "x", "accuracy", rows)])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_data_set_of_the_users_own_is_shown_and_is_no_markup(name, tmp_path):
    rows = make_rows(name, EXPERIMENTS[name].datasets[0], dataset="OURS & 'THEIRS'")
    page = html.render(build_page([make_experiment(tmp_path / "x", name, rows)]))
    assert "OURS & 'THEIRS'" in Tags(page).text
    assert "OURS & '" not in page  # escaped wherever it stands


def test_a_data_set_with_two_kinds_of_scores_is_refused(tmp_path):
    rows = make_rows("accuracy", "MADELON")
    rows[0]["r2"] = rows[0].pop("accuracy")
    with pytest.raises(DataError, match="both accuracy and r2"):
        build_page([make_experiment(tmp_path / "x", "accuracy", rows)])


def test_a_field_that_an_experiment_needs_is_told_with_its_file(tmp_path, monkeypatch):
    def fails(record: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("fedsdg.report.build.experiment_section", fails)
    with pytest.raises(DataError, match=r"x/results\.jsonl: a field .*; repair or remove"):
        build_page([make_experiment(tmp_path / "x", "accuracy")])


@pytest.mark.parametrize("name", ["experiment.json", "results.jsonl", "failures.jsonl"])
def test_a_folder_in_place_of_an_experiments_file_is_named(name, tmp_path):
    folder = make_experiment(tmp_path / "x", "accuracy")
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    with pytest.raises(FedSDGError, match=f"Cannot read .*{name}: Is a directory"):
        build_page([folder])

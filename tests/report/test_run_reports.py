"""The report of a run: what it shows, to whom, and what it never shows."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from report_helpers import EVIL, IDS, LEFT, MARKED_CELL, RIGHT, Tags, drawings, make_run, words

from fedsdg.learning.client_files import read_gate_path
from fedsdg.report import html, markdown
from fedsdg.report.build import build_page
from fedsdg.report.run_figures import gate_paths
from fedsdg.report.run_record import read_run
from fedsdg.results import LEAKAGE


def page_of(*folders) -> str:
    return html.render(build_page(folders))


def titles(page: str) -> list[str]:
    return [drawing[0].text for drawing in drawings(page)]


def test_the_page_of_a_run_shows_selection_scores_cost_and_what_leaks(masked):
    out, _ = masked
    result = json.loads((out / "selection.json").read_text())
    page = page_of(out)
    text = Tags(page).text
    for client in result["clients"].values():
        for column in client["selected"]:
            assert column in text
            assert f"{client['gates'][column]:.3f}" in text
    assert f"{result['metrics']['test']:.3f}" in text
    assert f"{result['truth']['precision']:.2f}" in text
    assert f"{result['truth']['recall']:.2f}" in text
    assert LEAKAGE["masked"] in text
    assert f"{sum(result['messages'].values()):,} messages" in text
    assert set(result["messages"]) <= set(text.split())
    assert all(note in text for note in result["notes"])


def test_the_page_of_a_run_has_every_plot(masked):
    assert set(titles(page_of(masked[0]))) == {
        "Gate paths of left",
        "Gate paths of right",
        "Accuracy against open features",
        "Open features over time",
        "Embedding dimensions over time",
        "Bytes over time",
        "Training loss",
    }


def test_the_bytes_that_are_drawn_end_where_the_record_ends(masked):
    out, _ = masked
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    page = build_page([out])
    (chart,) = (
        figure.chart
        for block in page.sections[0].blocks
        for figure in getattr(block, "items", ())
        if figure.title == "Bytes over time"
    )
    assert chart.y.label == "sent so far (MB)"
    assert chart.series[0].points[-1].y == pytest.approx(last["bytes"] / 1e6)
    assert chart.series[0].points[-1].x == 40


def test_a_column_called_like_a_script_is_only_a_name(masked):
    page = page_of(masked[0])
    assert EVIL in Tags(page).text
    assert {tag for tag, _ in Tags(page).tags}.isdisjoint({"script", "iframe", "object", "embed", "img"})
    assert not any(name.startswith("on") for _, attributes in Tags(page).tags for name in attributes)
    noted = markdown.render(build_page([masked[0]]))
    assert "<" not in noted.replace("\\<", "")
    assert r"\<script\>" in noted
    assert markdown.clean("a | b & [c](d)\n# e") == r"a \| b \& \[c\](d) \# e"


def test_a_page_needs_nothing_but_itself(masked):
    tags = Tags(page_of(masked[0])).tags
    links = [attributes.get(name) for _, attributes in tags for name in ("href", "src", "action", "data", "srcset")]
    assert {link for link in links if link} == {"data:,"}
    policy = [a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_every_figure_has_a_title_a_description_and_a_table(masked):
    page = page_of(masked[0])
    tags = Tags(page).tags
    named = {attributes["id"] for _, attributes in tags if attributes.get("id")}
    assert len(named) == sum("id" in attributes for _, attributes in tags)
    figures = [attributes for tag, attributes in tags if tag == "svg"]
    for attributes in figures:
        assert attributes["role"] == "img"
        assert set(attributes["aria-labelledby"].split()) <= named
    assert page.count("The numbers as a table") == len(figures)


def test_neither_ids_nor_cells_nor_seeds_are_on_a_page(masked):
    out, _ = masked
    for folder in (out, out / "server", out / "clients" / "left"):
        page = page_of(folder)
        assert not any(person in page for person in IDS)
        assert str(MARKED_CELL) not in page
        for seed in out.rglob("private_seed"):
            assert seed.read_text().strip() not in page


def test_the_servers_report_has_no_name_and_no_gate_of_a_client(masked):
    out, simulation = masked
    text = Tags(page_of(out / "server")).text
    assert not any(column in text for column in (*LEFT, *RIGHT))
    assert "gate mean" not in text
    for name, client in simulation.clients.items():
        assert name in text
        assert not any(f"{gate:.3f}" in text for gate in client.final_gates)
    assert LEAKAGE["masked"] in text
    assert titles(page_of(out / "server")) == []


def test_a_clients_report_shows_its_own_columns_and_nobody_elses(masked):
    out, simulation = masked
    for name, others in (("left", RIGHT), ("right", LEFT)):
        page = page_of(out / "clients" / name)
        text = Tags(page).text
        assert all(column in text for column in simulation.clients[name].selected_columns)
        assert not any(column in text for column in others)
        assert titles(page) == [f"Gate paths of {name}"]
        assert LEAKAGE["masked"] in text


def test_columns_that_could_not_be_used_are_told_with_the_reason(masked):
    text = Tags(page_of(masked[0] / "clients" / "right")).text
    assert "columns of right could not be used" in text
    assert "right_copy" in text


def test_a_run_in_the_clear_says_that_nothing_was_sent(plain):
    page = page_of(plain[0])
    assert LEAKAGE["plain"] in Tags(page).text
    assert "no message was sent" in Tags(page).text
    assert "Bytes over time" not in titles(page)


def test_several_runs_stand_side_by_side_on_one_page(masked, plain):
    page = page_of(masked[0], plain[0])
    tags = Tags(page)
    assert "The runs on this page" in tags.text
    assert {a["href"] for tag, a in tags.tags if tag == "a"} == {"#part-0", "#part-1"}
    assert {"part-0", "part-1"} <= {a.get("id") for _, a in tags.tags}


def test_markdown_says_the_same_numbers(masked):
    out, _ = masked
    result = json.loads((out / "selection.json").read_text())
    text = markdown.render(build_page([out]))
    assert f"{result['metrics']['test']:.3f}" in text
    assert (
        f"**{len(result['clients']['left']['selected']) + len(result['clients']['right']['selected'])} of 7**" in text
    )
    assert "| step" not in text
    assert text.count("**Gate paths of") == 2


# --- The recorded gate path ----------------------------------------------------------------------------------------


def test_the_recorded_path_runs_through_the_gates_that_were_chosen(masked):
    out, simulation = masked
    for name, client in simulation.clients.items():
        path = read_gate_path(out / "clients" / name)
        chosen = list(path.steps).index(simulation.result.chosen.step)
        np.testing.assert_array_equal(path.means[chosen], client.final_gates)
        assert path.means.shape == (len(path.steps), client.table.n_columns)
        assert set(path.steps) == {0, *(point.step for point in simulation.result.path)}


def test_the_step_whose_gates_were_kept_is_marked_on_the_path(masked):
    out, simulation = masked
    for part in read_run(out, "run").parts:
        chart = gate_paths(part).chart
        assert [(moment.name, moment.x) for moment in chart.moments] == [("chosen", simulation.result.chosen.step)]


def test_the_number_of_open_gates_along_the_path_is_what_the_server_counted(masked):
    out, simulation = masked
    paths = [read_gate_path(out / "clients" / name) for name in simulation.clients]
    for point in simulation.result.path:
        opened = sum(int((path.means[list(path.steps).index(point.step)] > 0).sum()) for path in paths)
        assert opened == point.n_open


def test_a_secure_run_records_the_same_path_as_a_plain_one(masked, plain):
    for name in ("left", "right"):
        file = f"clients/{name}/gate_path.safetensors"
        assert (masked[0] / file).read_bytes() == (plain[0] / file).read_bytes()


def test_a_run_without_a_recorded_path_is_reported_without_that_plot(plain, tmp_path):
    shutil.copytree(plain[0], tmp_path / "old")
    for path in (tmp_path / "old").rglob("gate_path.safetensors"):
        path.unlink()
    assert not any(title.startswith("Gate paths") for title in titles(page_of(tmp_path / "old")))


def test_a_run_of_hundreds_of_selected_columns_stays_readable(plain, tmp_path):
    shutil.copytree(plain[0], tmp_path / "wide")
    folder = tmp_path / "wide" / "clients" / "left"
    names = [f"column_{number}" for number in range(300)]
    selection = {
        "selected": names[:250],
        "n_features": 300,
        "gates": {name: 1.0 - number / 250 for number, name in enumerate(names)},
        "gate_probabilities": dict.fromkeys(names, 0.9),
        "gini": {},
        "notes": {},
    }
    (folder / "selection.json").write_text(json.dumps(selection))
    (folder / "gate_path.safetensors").unlink()
    text = Tags(page_of(folder)).text
    assert "50 more are listed in selection.json" in text
    assert "column_199" in text
    assert "column_200" not in text


def test_the_legend_of_a_gate_plot_names_the_widest_gates(masked):
    out, _ = masked
    result = json.loads((out / "selection.json").read_text())
    for drawing in drawings(page_of(out)):
        name = drawing[0].text.removeprefix("Gate paths of ")
        if name in result["clients"]:
            assert set(result["clients"][name]["selected"]) <= set(words(drawing))


def test_two_runs_of_one_job_make_the_same_page(plain, tmp_path):
    make_run(tmp_path / "clear", "plain")
    pages = [build_page([folder]) for folder in (plain[0], tmp_path / "clear")]
    firsts = [[block for block in page.sections[0].blocks if "Gate paths" in str(block)] for page in pages]
    assert firsts[0] == firsts[1]
    assert firsts[0]

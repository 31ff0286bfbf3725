"""`fedsdg bench scale`: the record keeps its shape, a case is a real run, and the figure shows what was measured."""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from xml.etree import ElementTree

import pytest

from fedsdg.benchmarks import scale, scale_case
from fedsdg.benchmarks.line_plot import Panel, draw
from fedsdg.benchmarks.scale_case import PHASES, Case, one_epoch, tables
from fedsdg.errors import ConfigError

SMALL = Case(64, 12, 2, 512)
KEYS = {
    *("rows", "columns", "clients", "key_bits", "backend", "steps", "seconds", "step_seconds", "cpu_seconds", "load"),
    *("bytes", "messages", "largest_message_bytes", "tables_mib", "before_mib", "peak_mib_after", "peak_mib"),
}


def made_up(case: Case) -> dict:
    """A record like a real one, with numbers that can be recognised."""
    seconds = {phase: case.rows / 1000 * (place + 1) for place, phase in enumerate(PHASES)}
    return {
        **{name: getattr(case, name) for name in ("rows", "columns", "clients", "key_bits")},
        "backend": "gmpy2",
        "steps": 7,
        "seconds": {**seconds, "total": sum(seconds.values())},
        "step_seconds": 0.1,
        "load": 0.5,
        "cpu_seconds": {**seconds, "total": sum(seconds.values())},
        "bytes": 1_500_000 * case.clients,
        "messages": 99,
        "largest_message_bytes": 400_000,
        "tables_mib": case.rows * case.columns / 2**17,
        "before_mib": 300.0 + case.rows * case.columns / 2**17,
        "peak_mib_after": dict.fromkeys(PHASES, 400.0),
        "peak_mib": 400.0 + case.columns,
    }


@pytest.fixture(scope="module")
def record():
    return scale.run(measure=made_up)


def test_a_case_runs_in_a_process_of_its_own_and_says_what_it_cost():
    found = scale.in_fresh_process(SMALL)
    assert set(found) == KEYS
    assert set(found["seconds"]) == set(found["cpu_seconds"]) == {*PHASES, "total"}
    assert found["messages"] > 50
    assert found["bytes"] > found["largest_message_bytes"] > 0
    assert all(found[clock][phase] >= 0 for clock in ("seconds", "cpu_seconds") for phase in PHASES)
    assert found["seconds"]["gated"] > 0
    assert found["before_mib"] <= found["peak_mib_after"]["keys"] <= found["peak_mib"]
    assert set(made_up(SMALL)) == KEYS


def test_a_case_goes_through_alignment_gini_and_one_epoch():
    seen = []

    class Watched(scale_case.PhaseChannel):
        def carry(self, client, kind, blob, *, to_server):
            super().carry(client, kind, blob, to_server=to_server)
            seen.append(kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale_case, "PhaseChannel", Watched)
        found = scale_case.measure(Case(320, 12, 2, 512))
    order = [seen.index(kind) for kind in ("BlindIds", "CountLabels", "EmbedBatch", "ApplyGradient")]
    assert order == sorted(order)
    assert found["steps"] == 320 * 85 // 100 // 128 == 2
    assert seen.count("ApplyGradient") == 2 * 2
    assert seen.count("StartPhase") == 2  # no compact phase


def test_rows_lie_in_another_order_at_every_party_and_the_ids_bring_them_together():
    data = tables(Case(200, 12, 3))
    assert data.client_ids["client_1"] != data.client_ids["client_2"] != data.ids
    assert all(sorted(ids) == sorted(data.ids) for ids in data.client_ids.values())
    first, label = data.tables["client_1"].values, dict(zip(data.ids, data.labels, strict=True))
    agree = [(row[:4].sum() > 0) == label[name] for row, name in zip(first, data.client_ids["client_1"], strict=True)]
    assert sum(agree) > 150  # the columns of a person go with the label of that person
    assert sum(table.n_columns for table in data.tables.values()) == 12


def test_one_epoch_is_every_batch_of_the_training_rows_once():
    settings = one_epoch(tables(Case(1000, 12, 2)))
    assert settings.training.gated_phase.steps == 850 // 128
    assert settings.training.validation.every == settings.training.gated_phase.steps
    assert not settings.training.retrain
    assert settings.ids == "private"
    assert settings.profile == "masked"


def test_the_full_plan_holds_the_sizes_that_are_promised():
    sizes = {name: [(c.rows, c.columns, c.clients) for c in group] for name, group in scale.FULL.groups().items()}
    assert sizes["large"] == [(1_000, 10_000, 2), (100_000, 1_000, 2)]
    assert sizes["rows"] == [(1_000, 100, 2), (10_000, 100, 2), (100_000, 100, 2)]
    assert sizes["columns"] == [(1_000, 100, 2), (1_000, 1_000, 2), (1_000, 10_000, 2)]
    assert sizes["clients"] == [(10_000, 100, n) for n in (1, 2, 4, 8)]
    assert {case.key_bits for group in scale.FULL.groups().values() for case in group} == {2048}


def test_no_case_is_measured_twice():
    asked = []
    scale.run(measure=lambda case: asked.append(case) or made_up(case))
    assert len(asked) == len(set(asked)) == 9


def test_the_record_has_the_promised_keys(record):
    kept = json.loads(scale.to_json(record))
    assert {"backend", "date", "machine", "versions", "key_bits", "quick", "large", *scale.SIZES} == set(kept)
    assert set(kept["large"][0]) == KEYS


def test_the_page_shows_sizes_phases_memory_and_growth(record):
    page = scale.to_markdown(record)
    assert "| | 10,000 columns x 1,000 rows | 1,000 columns x 100,000 rows |" in page
    assert "| **peak memory, all parties** | **10,400 MiB** | **1,400 MiB** |" in page
    assert "100 times the rows take 100 times the CPU time and 1 times the memory" in page
    assert "![Seconds and peak memory by rows, columns and clients](figures/scale.svg)" in page
    assert record["machine"]["cpu"] in page
    assert "0.5 to 0.5" in page
    for line in page.splitlines():  # every table is whole
        assert not line.startswith("|") or line.endswith("|")


def test_the_figure_is_valid_and_shows_every_line_with_units(record):
    figure = scale.to_svg(record)
    root = ElementTree.fromstring(figure)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"CPU seconds:", "MiB:", "rows", "columns", "clients", "alignment", "Gini", "one epoch", "peak"} <= set(
        texts
    )
    assert "100,000" in texts
    lines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == 3 * 4 + 3 * 2
    assert "prefers-color-scheme: dark" in figure


def test_a_larger_value_stands_higher_and_further_right():
    figure = draw([Panel("rows", "seconds", [10, 100, 1000], {"all": [0.5, 5.0, 50.0]})], 1, "growth")
    points = [tuple(map(float, pair.split(","))) for pair in re.search(r'points="([^"]+)"', figure)[1].split()]
    xs, ys = zip(*points, strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)  # a decade is a decade
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)


def test_values_of_nothing_and_a_single_point_can_be_drawn():
    ElementTree.fromstring(draw([Panel("a<b", "MiB", [5], {"x & y": [0.0]})], 1, "<nothing>"))


@pytest.mark.parametrize(("code", "reason"), [(1, "DataError: no columns"), (-9, "not enough memory")])
def test_a_case_that_fails_is_told_by_name(monkeypatch, code, reason):
    ended = subprocess.CompletedProcess([], code, "", "Traceback ...\nDataError: no columns\n")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: ended)
    with pytest.raises(ConfigError, match=f"64 rows x 12 columns, 2 clients: the measurement did not finish.*{reason}"):
        scale.in_fresh_process(SMALL)


def test_the_command_writes_record_page_and_figure(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from fedsdg.cli.bench import bench

    measured = partial(scale.run, measure=made_up)
    monkeypatch.setattr(scale, "run", measured)
    done = CliRunner().invoke(
        bench, ["scale", "--quick", "--json", str(tmp_path / "s.json"), "--markdown", str(tmp_path / "s.md")]
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "s.json").read_text())["quick"] is True
    assert "tiny sizes" in (tmp_path / "s.md").read_text()
    ElementTree.parse(tmp_path / "figures" / "scale.svg")

"""Claims about running a grid: nothing is computed twice, nothing is lost, failures do not stop the rest."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from experiment_helpers import TINY, small_data

from fedsdg.errors import ConfigError, DataError, StateFileError
from fedsdg.experiments import catalogue, runner
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.grid import left_out, tasks_of
from fedsdg.experiments.results import ResultsFolder, commit, key_of

KEY = ("dataset", "method", "fold", "seed")
asked: list[tuple[str, int, int]] = []


def _first(cell):
    asked.append(("first", cell.fold, cell.seed))
    return {"accuracy": 0.5, "selected": 10 + cell.fold}


def _second(cell):
    asked.append(("second", cell.fold, cell.seed))
    return {"accuracy": 0.25, "selected": cell.earlier["first"]["selected"]}


def _late(cell):
    return {"accuracy": cell.earlier["bad"]["accuracy"]}


def _broken(cell):
    if cell.fold == 1:
        raise DataError("this fold cannot be used")
    return {"accuracy": 1.0}


@pytest.fixture
def small(monkeypatch):
    """An experiment with two variants, the second built on the first, on a made data set."""
    asked.clear()
    experiment = Experiment(
        "small", "?", ("WINE",), (Variant("second", _second, after=("first",)), Variant("first", _first)), str
    )
    broken = Experiment(
        "broken", "?", ("WINE",), (Variant("late", _late, after=("bad",)), Variant("bad", _broken)), str
    )
    monkeypatch.setitem(catalogue.EXPERIMENTS, "small", experiment)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "broken", broken)
    monkeypatch.setattr(runner, "load", lambda name: small_data())
    return runner.Grid("small", (), folds=3, seeds=2, config=TINY)


def test_every_variant_answers_once_per_fold_and_seed(small, tmp_path):
    seen = []
    outcome = runner.run(small, tmp_path / "out", watch=lambda done, total, row: seen.append((done, total)))
    rows = ResultsFolder(tmp_path / "out").rows()
    assert outcome == runner.Outcome(done=12, skipped=0, failed=0)
    assert len({key_of(row) for row in rows}) == 12
    assert seen[-1] == (12, 12)
    assert {row["method"]: row["dataset"] for row in rows} == {"first": "WINE", "second": "WINE"}
    for row in rows:
        assert row["selected"] == 10 + row["fold"]  # the second took the number from the first
        assert row["config_hash"] == runner.config_hash(TINY)
        assert {"python", "fedsdg", "torch"} <= set(row["versions"])
        assert row["seconds"] >= 0


def test_rows_that_are_there_are_not_computed_again(small, tmp_path):
    runner.run(runner.Grid("small", (), folds=3, seeds=1, config=TINY), tmp_path)
    before = len(asked)
    outcome = runner.run(small, tmp_path)
    assert (outcome.done, outcome.skipped) == (6, 6)
    assert len(asked) == before + 6
    assert {seed for _, _, seed in asked[before:]} == {1}


def test_an_interrupted_grid_keeps_what_it_has_and_goes_on(small, tmp_path):
    def stop(done, total, row):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(small, tmp_path, watch=stop)
    assert len(ResultsFolder(tmp_path).rows()) == 4
    assert runner.run(small, tmp_path) == runner.Outcome(done=8, skipped=4, failed=0)
    assert len(asked) == 12


def grid_of(**changes):
    return runner.Grid("small", (), folds=3, config=TINY, **changes)


def test_the_next_seeds_join_those_that_are_there(small, tmp_path):
    runner.run(grid_of(seeds=2, first_seed=4), tmp_path)
    assert runner.run(grid_of(seeds=1, first_seed=6), tmp_path).done == 6
    assert {row["seed"] for row in ResultsFolder(tmp_path).rows()} == {4, 5, 6}
    about = ResultsFolder(tmp_path).description()
    assert (about["first_seed"], about["seeds"]) == (4, 3)
    assert runner.run(grid_of(seeds=1, first_seed=5), tmp_path).done == 0  # nothing is forgotten over a part of them
    assert ResultsFolder(tmp_path).description()["seeds"] == 3


@pytest.mark.parametrize("first", [0, 3, 7, 50])
def test_seeds_that_nobody_has_looked_at_are_not_averaged_with_others(small, tmp_path, first):
    runner.run(grid_of(seeds=2, first_seed=4), tmp_path)
    with pytest.raises(ConfigError, match=f"holds seeds 4 to 5, and seeds from {first} on would be averaged"):
        runner.run(grid_of(seeds=1, first_seed=first), tmp_path)
    assert {row["seed"] for row in ResultsFolder(tmp_path).rows()} == {4, 5}


def test_other_data_under_the_same_name_is_refused(small, tmp_path, monkeypatch):
    runner.run(grid_of(), tmp_path)
    true = runner.load

    def changed(name):
        data = true(name)
        return replace(data, provenance=replace(data.provenance, sha256="f" * 64))

    monkeypatch.setattr(runner, "load", changed)
    with pytest.raises(ConfigError, match=r"holds rows of \w+ with the content \w{12}, and what .* has ffffffffffff"):
        runner.run(grid_of(seeds=2), tmp_path)
    assert {row["seed"] for row in ResultsFolder(tmp_path).rows()} == {0}


def test_every_row_has_the_promised_fields(small, tmp_path):
    runner.run(small, tmp_path)
    wanted = {"dataset", "method", "fold", "seed", "accuracy", "ratio", "selected", "precision", "recall"}
    for row in ResultsFolder(tmp_path).rows():
        assert wanted | {"embedding_open", "bytes"} <= set(row)


def test_a_second_process_is_kept_out_while_one_writes(small, tmp_path):
    out = tmp_path / "out"

    def try_again(done, total, row):
        with pytest.raises(StateFileError, match=f"Process {os.getpid()} is working in"):
            runner.run(small, out)

    assert runner.run(small, out, watch=try_again).done == 12
    assert len((out / "results.jsonl").read_text().splitlines()) == 12
    assert runner.run(small, out).skipped == 12


def test_a_folder_that_a_crash_left_with_a_lock_alone_is_taken(small, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").write_text("1\n")
    assert runner.run(small, tmp_path / "out").done == 12


def test_a_line_that_was_cut_off_is_dropped_and_computed_again(small, tmp_path):
    runner.run(small, tmp_path)
    path = tmp_path / "results.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:20])
    assert runner.run(small, tmp_path).done == 1
    assert sorted(map(key_of, ResultsFolder(tmp_path).rows())) == sorted(key_of(json.loads(line)) for line in lines)


def test_a_failure_is_noted_and_the_others_go_on(small, tmp_path):
    grid = runner.Grid("broken", (), folds=3, seeds=1, config=TINY)
    outcome = runner.run(grid, tmp_path)
    failures = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert outcome.failed == 2  # the broken row, and the one that builds on it
    by_method = {row["method"]: row["error"] for row in failures}
    assert by_method["bad"].startswith("DataError: this fold cannot be used (test_grid.py:")
    assert by_method["late"] == "a row that it builds on failed"
    assert len(ResultsFolder(tmp_path).rows()) == 4
    assert runner.run(grid, tmp_path) == runner.Outcome(done=0, skipped=4, failed=2)  # tried again


def test_a_folder_belongs_to_one_experiment_with_one_configuration(small, tmp_path):
    runner.run(small, tmp_path)
    with pytest.raises(ConfigError, match="config_hash"):
        runner.run(runner.Grid("small", (), folds=3, config=TINY.with_changes(mc_samples=2)), tmp_path)
    with pytest.raises(ConfigError, match=r"config_hash = \w+ \(preset wide\), not \w+ \(preset paper\); use"):
        runner.run(runner.Grid("small", (), folds=3, preset="paper"), tmp_path)
    with pytest.raises(ConfigError, match="folds"):
        runner.run(runner.Grid("small", (), folds=5, config=TINY), tmp_path)
    with pytest.raises(ConfigError, match="name"):
        runner.run(runner.Grid("broken", (), folds=3, config=TINY), tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"method": "mine"}, r"1 of 12 rows .* method that the experiment 'small' does not have.*\('mine'\)"),
        ({"folds": 10}, r"1 of 12 rows were cut into another number of folds than 3"),
        ({"config_hash": "others"}, "1 of 12 rows were made with different training settings"),
        ({"fold": 3}, "1 of 12 rows are of a fold that does not exist"),
    ],
)
def test_rows_that_no_table_would_take_are_refused_before_anything_is_computed(small, change, reason, tmp_path):
    runner.run(small, tmp_path)
    path = tmp_path / "results.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text(json.dumps(json.loads(first) | change) + "\n" + "".join(others))
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    asked.clear()
    with pytest.raises(DataError, match=reason):
        runner.run(replace(small, seeds=3), tmp_path)
    assert asked == []
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_folder_with_other_files_is_left_alone(small, tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        runner.run(small, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_the_description_says_what_was_asked_and_where_the_data_came_from(small, tmp_path):
    runner.run(small, tmp_path)
    about = ResultsFolder(tmp_path).description()
    assert (about["name"], about["folds"], about["seeds"], about["datasets"]) == ("small", 3, 2, ["WINE"])
    assert about["sources"]["WINE"]["source"] == "a test"
    assert about["sources"]["WINE"]["surrogate"] is False
    assert about["config"]["gated_phase"]["steps"] == 6
    started = about["started"]
    runner.run(replace(small, datasets=("BREAST_CANCER",), seeds=1), tmp_path)  # a part of another grid
    about = ResultsFolder(tmp_path).description()
    assert (about["started"], about["seeds"], about["datasets"]) == (started, 2, ["WINE", "BREAST_CANCER"])


def test_chosen_methods_bring_along_what_they_build_on(small, tmp_path):
    grid = runner.Grid("small", (), folds=2, config=TINY, methods=("second",))
    assert runner.run(grid, tmp_path).done == 4


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"datasets": ("NOWHERE",)}, "no data set"),
        ({"methods": ("magic",)}, "no method"),
        ({"seeds": 0}, "at least 1"),
        ({"config": None, "preset": "magic"}, "no preset"),
        ({"config": None, "preset": ""}, "no preset ''"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(small, tmp_path, wrong, complaint):
    with pytest.raises(ConfigError, match=complaint):
        runner.run(runner.Grid(**{"experiment": "small", "datasets": (), "config": TINY, **wrong}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_processes_give_the_rows_of_one(tmp_path):
    methods = ("fedsdg", "sffs@matched")
    grid = runner.Grid("accuracy", ("WINE",), folds=2, config=TINY, methods=methods)
    timing = ("seconds", "cpu_seconds")
    results = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        assert runner.run(grid, out, processes=processes).failed == 0
        rows = sorted(ResultsFolder(out).rows(), key=key_of)
        results.append([{name: value for name, value in row.items() if name not in timing} for row in rows])
    assert results[0] == results[1]
    assert [row["method"] for row in results[0]].count("sffs@matched") == 2
    assert all(a["selected"] == b["selected"] for a, b in zip(results[0], results[0][2:], strict=False))


def test_a_worker_never_hears_ctrl_c_and_its_parent_always_does(small, tmp_path, monkeypatch):
    class Workers(ThreadPoolExecutor):
        def __init__(self, processes, *context, **options):
            super().__init__(1)  # threads take over what is held, as processes do

    monkeypatch.setattr(runner, "ProcessPoolExecutor", Workers)
    monkeypatch.setattr(runner, "run_task", lambda task: {**dict(zip(KEY, task.key, strict=True)), "held": held()})
    runner.run(runner.Grid("small", (), folds=2, config=TINY), tmp_path, processes=2)
    assert all(row["held"] for row in ResultsFolder(tmp_path).rows())
    assert not held()


def held() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_the_commit_is_that_of_the_source_tree():
    found = commit()
    assert found is None or len(found.removesuffix("+changes")) == 40


def test_a_surrogate_is_marked_in_every_row(small, tmp_path, monkeypatch):
    data = small_data()
    stand_in = replace(data, provenance=replace(data.provenance, surrogate=True))
    monkeypatch.setattr(runner, "load", lambda name: stand_in)
    runner.run(small, tmp_path)
    assert all(row["surrogate"] for row in ResultsFolder(tmp_path).rows())


def test_a_row_that_is_no_row_is_an_error_with_its_line(small, tmp_path):
    runner.run(small, tmp_path)
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(DataError, match="line 13"):
        ResultsFolder(tmp_path).rows()


def test_numbers_that_json_does_not_know_become_null(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.append({"dataset": "A", "method": "m", "fold": 0, "seed": 0, "accuracy": float(np.nan)})
    assert folder.rows()[0]["accuracy"] is None


def test_a_stand_in_that_lies_nowhere_is_left_out_unless_it_is_asked_for(monkeypatch, tmp_path):
    usual = runner.Grid("accuracy", ())
    monkeypatch.setenv("FEDSDG_DATA", str(tmp_path))
    assert left_out(usual) == ["GISETTE_SURROGATE"]
    experiment = catalogue.find("accuracy")
    assert {task.dataset for task in tasks_of(usual, experiment)} == {*experiment.datasets} - {"GISETTE_SURROGATE"}
    assert left_out(replace(usual, datasets=("GISETTE_SURROGATE",))) == []
    (tmp_path / "GISETTE_SURROGATE.npz").write_bytes(b"whatever it is: whoever loads it will look")
    assert left_out(usual) == []

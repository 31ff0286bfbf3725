"""Claims about the experiments: every one runs, its table prints, and the statistics behind it are right."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from experiment_helpers import TINY, row, small_cell, small_data
from typer.testing import CliRunner

from fedsdg.cli.experiment import _methods
from fedsdg.cli.experiment import experiment as command
from fedsdg.config import wide_config
from fedsdg.errors import ConfigError
from fedsdg.experiments import accuracy, catalogue, rivals, runner
from fedsdg.experiments.filter_cost import measure_filter
from fedsdg.experiments.gate_paths import record_path, steps_until
from fedsdg.experiments.motivation import noisy_parts, redundant_parts
from fedsdg.experiments.permuted_labels import chance, verdict
from fedsdg.experiments.security_cost import measure_job
from fedsdg.experiments.short_table import short_table
from fedsdg.experiments.stability import agreement, fall, nothing_left
from fedsdg.experiments.statistics import folds_of, paired_test, summary
from fedsdg.results import to_json

NAMES = [
    "accuracy",
    "precision",
    "motivation",
    "overlap",
    "gini_ablation",
    "two_by_two",
    "model_table",
    "paper_preset",
    "clients",
    "stability",
    "convergence",
    "communication",
    "security_cost",
    "permuted_labels",
]


def test_every_question_has_its_experiment_and_names_are_unique():
    assert list(catalogue.EXPERIMENTS) == NAMES
    for experiment in catalogue.EXPERIMENTS.values():
        names = [variant.name for variant in experiment.variants]
        assert len(set(names)) == len(names)
        for variant in experiment.variants:
            assert set(variant.after) <= set(names)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("security_cost", "paper_preset", "clients")])
def test_an_experiment_answers_and_prints(name):
    experiment = catalogue.find(name)
    cell = small_cell(n_columns=210) if name == "motivation" else small_cell()
    rows = []
    earlier = {}
    # The first, the last, and one of the middle: their kinds differ.
    chosen = dict.fromkeys(
        (experiment.variants[0], experiment.variants[len(experiment.variants) // 2], experiment.variants[-1])
    )
    for variant in chosen:
        answer = variant.measure(cell.changed(earlier=earlier))
        # As it comes back from the file.
        stored = json.loads(to_json({"dataset": "MADELON", "method": variant.name, "fold": 0, "seed": 0, **answer}))
        earlier[variant.name] = stored
        rows.append(stored)
    page = experiment.page(rows)
    assert page.count("\n| MADELON") + page.count("| MADELON |") >= 1
    assert "nan" not in page


def test_five_clients_are_five_clients():
    experiment = catalogue.find("clients")
    answer = experiment.variant("all/5").measure(small_cell())
    assert answer["clients"] == 5
    assert answer["embedding_open"] == 5 * TINY.compact_phase.embedding
    page = experiment.page([{"dataset": "ARCENE", "method": "all/5", "fold": 0, "seed": 0, **answer}])
    assert "85.8 / 1.00" in page  # what the paper prints


def test_both_profiles_give_the_same_job():
    cell = small_cell()
    plain, masked = (measure_job(cell, profile, key_bits=512, allow_test_keys=True) for profile in ("plain", "masked"))
    for same in ("accuracy", "columns", "selected", "steps"):
        assert plain[same] == masked[same]
    assert plain["job_bytes"] == 0 < masked["job_bytes"]
    rows = [row(method="plain", **plain), row(method="masked", **masked)]
    assert "1 of 1" in catalogue.find("security_cost").page(rows)


@pytest.mark.parametrize("statistic", ["gini", "ms_gini", "sffs", "chi2"])
def test_both_profiles_of_a_filter_give_the_same_scores(statistic):
    cell, experiment = small_cell(), catalogue.find("security_cost")
    plain, masked = (
        measure_filter(cell, statistic, profile, key_bits=512, allow_test_keys=True) for profile in ("plain", "masked")
    )
    assert sorted(plain["ranking"]) == list(range(24))
    assert {plain["ranking"][0], masked["ranking"][0]} <= {2, 17}
    assert plain["job_bytes"] == 0 < masked["job_bytes"]
    assert masked["messages"] == 16  # two clients: join, prepare, score, finish, and their answers
    both = [row(method=f"{statistic}/plain", **plain), row(method=f"{statistic}/masked", **masked)]
    assert [v.name for v in experiment.variants if v.name.startswith(f"{statistic}/")] == [r["method"] for r in both]
    assert "1 of 1" in experiment.page(both)
    both[1]["scores_digest"] = "another"
    assert "0 of 1" in experiment.page(both)
    assert "1 of 1" not in experiment.page(both)


def test_client_b_gets_two_telling_columns_and_ever_more_noise():
    cell = small_cell()
    relevant = cell.changed(data=small_data(n_columns=24)).data
    many = relevant.__class__(**{**relevant.__dict__, "truth": np.arange(6)})
    parts = noisy_parts(cell.changed(data=many), 9)
    assert np.isin(parts["client_1"], np.arange(6)).sum() == 3
    assert np.isin(parts["client_2"], np.arange(6)).sum() == 2
    assert (len(parts["client_1"]), len(parts["client_2"])) == (10, 9)
    assert not set(parts["client_1"]) & set(parts["client_2"])
    wide = small_cell(n_columns=210)
    assert {name: len(part) for name, part in redundant_parts(wide, 100).items()} == {"client_1": 100, "client_2": 100}


def test_chance_is_the_most_frequent_class_or_nothing():
    assert chance(small_cell(regression=True)) == 0.0
    cell = small_cell()
    assert chance(cell) == max(cell.data.y.mean(), 1 - cell.data.y.mean())


def test_permuted_labels_are_judged_against_the_luck_of_guessing():
    def judged(score):
        return verdict([row(fold=fold, accuracy=score, chance=0.5, test_rows=500) for fold in range(5)])

    # 2,500 guesses at even chances: a standard error of .01.
    assert judged(0.5 + 0.022) == "no better than chance (limit 52.3)"
    assert judged(0.5 + 0.025) == "above chance (limit 52.3)"
    assert judged(0.4) == "no better than chance (limit 52.3)"
    assert verdict([row()]) == "-"


@pytest.mark.parametrize(
    ("name", "method"), [("convergence", "alike"), ("two_by_two", "neither"), ("overlap", "alike")]
)
def test_gates_that_start_alike_do_not_lean_on_an_order_that_they_lack(name, method):
    answer = catalogue.find(name).variant(method).measure(small_cell())
    assert answer["settings_changed"]["gates.rows_for_full_evidence"] == 0.0


def test_no_gate_of_the_comparison_starts_by_scores_that_are_only_counted():
    answer = catalogue.find("overlap").variant("alike").measure(small_cell().changed(config=wide_config()))
    changed = answer["settings_changed"]
    assert changed["gates.gini_span"] == 0.0
    assert changed["gates.embedding_start"] == 0.5


def test_rows_name_the_settings_in_which_their_model_differs():
    assert "settings_changed" not in catalogue.find("accuracy").variant("fedsdg").measure(small_cell())
    answer = catalogue.find("accuracy").variant("original_gate").measure(small_cell())
    assert answer["settings_changed"] == {
        "gates.embedding_gates": False,
        "gates.initialization": "constant",
        "gates.rows_for_full_evidence": 0.0,
    }


def test_the_first_step_with_few_enough_open_features_is_found():
    curve = [{"step": 5.0, "open": 90.0}, {"step": 10.0, "open": 50.0}, {"step": 15.0, "open": 20.0}]
    assert steps_until(curve, 0.5, 100) == 10
    assert steps_until(curve, 0.1, 100) is None


def test_every_copy_of_a_row_is_counted_in_what_training_sends():
    gates = TINY.gates.model_copy(update={"embedding_gates": False})
    config = TINY.with_changes(mc_samples=2, gates=gates, retrain=False)
    phase = config.gated_phase
    sent = record_path(small_cell(config), config)["training_values"]
    values = 2 * phase.embedding * phase.steps * phase.batch_size  # of two clients, every row once, there
    assert sent == 2 * 2 * values  # and back, and every row with two gate draws


def test_agreement_and_fall_measure_stability():
    half = [{"columns": [1, 2], "ratio": 0.2}, {"columns": [2, 3], "ratio": 0.2}]
    # Of 10 columns two differ, each with a variance of 1/2; by lot the variance is 2/10 x 8/10.
    assert agreement(half) == pytest.approx(1 - 0.1 / 0.16)
    assert agreement([half[0], half[0]]) == pytest.approx(1)
    by_lot = [
        {"columns": np.sort(np.random.default_rng(seed).choice(200, 180, replace=False)).tolist(), "ratio": 0.9}
        for seed in range(30)
    ]
    assert agreement(by_lot) == pytest.approx(0, abs=0.05)  # keeping nearly everything is no agreement
    assert np.isnan(agreement([{"columns": [0, 1], "ratio": 1.0}] * 2))
    path = [{"open": 9, "score": 0.7}, {"open": 5, "score": 0.9}, {"open": 2, "score": 0.8}, {"open": 0, "score": 0.1}]
    assert fall({"curve": path}) == pytest.approx(0.8)  # a path that ends with nothing has fallen all the way
    assert fall({"curve": path[:3]}) == pytest.approx(0.1)
    tested = [{**point, "test": test} for point, test in zip(path, (0.6, 0.7, 0.7, 0.5), strict=True)]
    assert fall({"curve": tested}) == pytest.approx(0.2)
    assert nothing_left({"curve": path})
    assert not nothing_left({"curve": path[:3]})


def test_the_corrected_test_is_more_cautious_than_the_plain_one():
    differences = np.array([0.02, 0.03, 0.01, 0.02, 0.04])
    ours = [row(fold=fold, accuracy=0.8 + d) for fold, d in enumerate(differences)]
    theirs = [row(fold=fold, accuracy=0.8) for fold in range(5)]
    found = paired_test(ours, theirs, folds=5)
    # t = .024 / sqrt((1/5 + 1/4) * .00013) = 3.138, 4 degrees of freedom: p = .035; the plain test has p = .0093.
    assert found.difference == pytest.approx(0.024)
    assert found.p_value == pytest.approx(0.035, abs=0.001)
    assert found.half_width == pytest.approx(2.776 * 0.024 / 3.138, rel=0.001)  # just short of the difference
    assert found.verdict == "ahead"
    assert paired_test(theirs, ours, folds=5).verdict == "behind"
    assert paired_test(ours, ours, folds=5).verdict == "tied"
    assert paired_test(ours[:1], theirs, folds=5) is None


def test_only_cells_that_both_have_are_compared():
    ours = [row(fold=0, accuracy=0.9), row(fold=1, accuracy=0.8), row(fold=2, accuracy=0.1)]
    theirs = [row(fold=1, accuracy=0.7), row(fold=0, accuracy=0.6)]
    assert paired_test(ours, theirs, folds=3).difference == pytest.approx(0.2)


def test_a_summary_leaves_out_what_is_missing():
    assert summary([0.5, float("nan"), 0.7]).count == 2
    assert summary([0.5, 0.7]).deviation == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert summary([]).count == 0


def test_the_runner_up_is_the_best_method_with_as_few_features():
    rows = []
    for fold in range(5):
        rows += [
            row("MADELON", "fedsdg", fold, accuracy=0.88 + fold / 1000, selected=13, ratio=0.026),
            row("MADELON", "sffs@matched", fold, accuracy=0.85, selected=13, ratio=0.026),
            row("MADELON", "random@matched", fold, accuracy=0.5, selected=13, ratio=0.026),
            row("MADELON", "all", fold, accuracy=0.9, selected=500, ratio=1.0),
            row("MADELON", "centralised", fold, accuracy=0.92, selected=500, ratio=1.0),
        ]
    line = next(text for text in rivals.runner_up_table(rows).splitlines() if text.startswith("| MADELON"))
    assert "SFFS, matched: 85.0" in line
    assert re.search(r"ahead \(\+3\.2", line)
    assert "all features: 90.0" in line
    assert "92.0" in line
    assert "99.2 / 0.03" in accuracy.table(rows)
    assert "Of 1 genuine classification sets" in rivals.standing(rows)
    assert "features on 1, and statistically tied on 0" in rivals.standing(rows)


def test_every_rival_is_met_on_its_own_over_all_genuine_sets():
    scores = {"gini@matched": (0.80, 0.90, 0.70), "group_lasso@matched": (0.91, 0.85, 0.80), "all": (0.99, 0.99, 0.99)}
    rows = []
    for place, name in enumerate(("MADELON", "PCMAC", "GISETTE_SURROGATE")):
        for fold in range(3):
            rows.append(row(name, "fedsdg", fold, accuracy=0.9 + fold / 1000, selected=9, ratio=0.1))
            rows.append(row(name, "fedsdg@small", fold, accuracy=0.95, selected=9, ratio=0.1))
            for method, of in scores.items():
                kept = 90 if method == "all" else 9
                rows.append(row(name, method, fold, accuracy=of[place], selected=kept, ratio=kept / 90))
    lines = rivals.rivals_table(rows).splitlines()[2:]
    assert lines == [  # the hardest first; no stand-in, no method with more columns, none of our own
        "| group lasso, matched | 2 | 1 | 1 / 0 / 1 | +2.1 | +2.1 | -0.9 to +5.1 |",
        "| FedSDG-FS-gini, matched | 2 | 2 | 1 / 1 / 0 | +5.1 | +5.1 | +0.1 to +10.1 |",
    ]
    assert lines[0] in accuracy.table(rows)


def test_whoever_is_met_on_most_sets_is_counted_and_the_others_are_named():
    sets = ("MADELON", "ARCENE", "BASEHOCK", "RELATHE", "PCMAC", "COIL20")
    rows = []
    for place, name in enumerate(sets):
        scores = {
            "fedsdg": 0.9,
            "gini@matched": 0.95 if place == 0 else 0.9,
            "sffs@matched": 0.95 if place < 2 else 0.8,
        }
        for fold in range(2):
            rows += [row(name, method, fold, accuracy=score, selected=9, ratio=0.1) for method, score in scores.items()]
            if place < 3:
                rows.append(row(name, "less_vfl", fold, accuracy=0.99, selected=9, ratio=0.1))
    assert rivals.one_by_one(rows) == (
        "Taken one by one, it is at or above 1 of the 2 methods on at least 5 sets, but not SFFS, matched (4)."
    )
    assert rivals.one_by_one(rows) in accuracy.table(rows)
    assert rivals.one_by_one([each for each in rows if each["dataset"] in sets[:3]]) == ""


def test_what_dimensions_of_ones_own_choice_are_worth_stands_beside_what_they_save():
    scores = {"all": 0.9, "fedsdg@no embedding gates": 0.86, "fedsdg@width 32": 0.85, "fedsdg": 0.855}
    rows = [
        row("MADELON", name, fold, accuracy=score, bytes=100 if name == "all" else 30, selected=5)
        for name, score in scores.items()
        for fold in range(2)
    ]
    page = catalogue.find("communication").page(rows)
    assert "at most one point: MADELON (70%, -0.5)." in page
    assert "starts with 32 values instead: MADELON +0.5." in page


def test_a_page_says_which_code_computed_its_rows():
    rows = [row("MADELON", "fedsdg", fold, commit=commit, selected=5, ratio=0.1) for fold, commit in enumerate("aab")]
    rows[0]["commit"] = rows[1]["commit"] = "1234567890abcdef"
    rows[2]["commit"] = "fedcba0987654321+changes"
    assert accuracy.EXPERIMENT.page(rows).endswith("Rows by commit: 12345678 (2), fedcba09+ (1).")
    rows[2]["cpu_seconds"] = 150.0
    assert accuracy.EXPERIMENT.page(rows).endswith("fedcba09+ (1). CPU time: 2 min.")


def test_differences_that_happen_to_be_equal_prove_nothing():
    """Two cells of 40 test rows each easily differ by one row both: that is no p of zero."""
    ours = [row("ARCENE", "fedsdg", fold, accuracy=score) for fold, score in enumerate((0.85, 0.875))]
    theirs = [row("ARCENE", "all", fold, accuracy=score) for fold, score in enumerate((0.825, 0.85))]
    assert paired_test(ours, theirs, 5) is None
    same = paired_test(ours, ours, 5)
    assert same is not None
    assert (same.difference, same.p_value, same.verdict) == (0.0, 1.0, "tied")


def test_a_line_is_bold_only_if_nobody_is_above_it():
    rows = []
    for name, score in (("fedsdg", 0.80), ("group_lasso@matched", 0.81), ("original_gate", 0.90)):
        rows += [row("MADELON", name, fold, accuracy=score, selected=9, ratio=0.1) for fold in range(3)]
    assert "**" not in short_table(rows)  # the best of all, original-Gate with its own number, has no line here


def test_the_correction_of_the_test_knows_the_folds_of_a_grid_that_is_not_finished():
    assert folds_of([row(fold=0, folds=5), row(fold=1, folds=5)]) == 5
    assert folds_of([row(fold=0), row(fold=2)]) == 3
    assert folds_of([]) == 2


def test_a_method_with_fewer_seeds_is_judged_by_the_folds_that_it_has():
    rows = []
    for seed, score in ((0, 0.8), (1, 0.9)):
        rows += [
            row("MADELON", "fedsdg", fold, seed, accuracy=score, selected=13 - seed, ratio=0.026) for fold in range(3)
        ]
        rows += [row("MADELON", "all", fold, seed, accuracy=0.7, selected=9, ratio=0.018) for fold in range(3)]
    # As good as no spread, for a verdict; none at all would be no evidence of anything.
    rows += [
        row("MADELON", "less_vfl", fold, 0, accuracy=0.82 + fold / 1e5, selected=13, ratio=0.026) for fold in range(3)
    ]
    line = next(text for text in rivals.runner_up_table(rows).splitlines() if text.startswith("| MADELON"))
    assert "LESS-VFL: 82.0 ± 0.0 / 0.026 (3 cells) | behind (-2.0" in line  # although 82.0 is less than our mean
    assert "features on 0, and statistically tied on 0" in rivals.standing(rows)
    assert "| FedSDG-FS | 85.0 / 0.026 |" in short_table(rows)  # not in bold: somebody is above it


def test_the_short_table_has_a_line_for_every_kind_of_method_and_its_average():
    scores = {"fedsdg": 0.9, "group_lasso@matched": 0.92, "gini@matched": 0.7, "sffs@matched": 0.8, "all": 0.95}
    rows = []
    for name, better in (("MADELON", 0.0), ("PCMAC", 0.05)):
        for method, score in scores.items():
            folds = 1 if method == "group_lasso@matched" else 2
            score += better if method == "fedsdg" else 0
            kept = {"selected": 90, "ratio": 0.9} if method == "all" else {"selected": 9, "ratio": 0.09}
            rows += [row(name, method, fold, accuracy=score, **kept) for fold in range(folds)]
    assert short_table(rows).splitlines() == [
        "|  | MADELON | PCMAC | average of 2 |",
        "|---|---|---|---|",
        "| FedSDG-FS | 90.0 / 0.090 | **95.0** / 0.090 | 92.5 |",
        "| group lasso, matched | **92.0 (1 cell)** | 92.0 (1 cell) | 92.0 |",
        "| best of the filters (Gini, F, chi2, ...), matched | 80.0 | 80.0 | 80.0 |",
        "| all columns | 95.0 | 95.0 | 95.0 |",
    ]


def test_a_surrogate_is_called_one_in_tables_and_has_no_number_of_the_paper():
    names = ("fedsdg", "sffs@matched")
    rows = [
        row("GISETTE_SURROGATE", name, fold, selected=5, ratio=0.1, surrogate=True)
        for fold in range(2)
        for name in names
    ]
    page = accuracy.table(rows)
    assert "GISETTE_SURROGATE (surrogate, not GISETTE)" in page
    assert "99.5" not in page
    assert "genuine classification sets" not in page


def test_the_command_lists_runs_resumes_and_prints(tmp_path, monkeypatch):
    monkeypatch.setattr(runner.Grid, "settings", lambda self: TINY)
    shell = CliRunner()
    listed = shell.invoke(command, ["list"])
    assert listed.exit_code == 0
    assert "accuracy" in listed.output
    asked = ["run", "accuracy", "--out", str(tmp_path / "a"), "--datasets", "WINE,BREAST_CANCER", "--folds", "2"]
    asked += ["--methods", "all,fedsdg", "--processes", "1"]
    first = shell.invoke(command, asked)
    assert first.exit_code == 0, first.output
    assert "8 rows computed, 0 were there" in " ".join(first.output.split())
    again = shell.invoke(command, asked)
    assert "0 rows computed, 8 were there" in " ".join(again.output.split())
    twice = shell.invoke(command, [word.replace("WINE,", "WINE,wine,") for word in asked])
    assert "0 rows computed, 8 were there" in " ".join(twice.output.split())  # each data set counts once
    printed = shell.invoke(command, ["table", str(tmp_path / "a"), "--markdown"])
    assert printed.exit_code == 0
    assert "| FedSDG-FS |" in printed.output
    assert printed.output.index("FedSDG-FS |") < printed.output.index("all features |")  # the order of the experiment
    assert shell.invoke(command, ["table", str(tmp_path / "a")]).exit_code == 0


def test_the_methods_of_an_experiment_are_listed_as_the_option_takes_them():
    listed = CliRunner().invoke(command, ["list", "accuracy"])
    lines = [line.split() for line in listed.output.splitlines()]
    assert lines[1] == ["fedsdg", "FedSDG-FS"]
    assert ["iv@matched", "IV,", "matched"] in lines
    assert ["fedsdg@0.05", "FedSDG-FS,", "0.05", "COIL20"] in lines


def test_more_folds_than_the_rarest_class_has_rows_are_refused_before_anything_is_written(tmp_path):
    asked = ["run", "accuracy", "--out", str(tmp_path / "a"), "--datasets", "WINE", "--folds", "100"]
    found = CliRunner().invoke(command, asked)
    assert "WINE can be cut into at most 48 folds, not 100: every fold needs every class" in str(found.exception)
    found = CliRunner().invoke(command, [word.replace("WINE", "DIABETES").replace("100", "443") for word in asked])
    assert "DIABETES can be cut into at most 442 folds, not 443: every fold needs rows" in str(found.exception)
    assert not (tmp_path / "a").exists()


def test_a_method_that_runs_on_none_of_the_data_sets_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda *_, **__: runner.Outcome(0, 0, 0))
    asked = ["run", "accuracy", "--out", str(tmp_path / "a"), "--methods", "all,gini@validated", "--datasets"]
    told = "gini@validated is left out: it runs on MADELON, COIL20, ISOLET, and on none of these data sets.\n"
    assert told in CliRunner().invoke(command, [*asked, "WINE,DIGITS"]).output
    assert "left out" not in CliRunner().invoke(command, [*asked, "WINE,MADELON"]).output
    assert "left out" not in CliRunner().invoke(command, [*asked, "WINE", "--quiet"]).output


def test_the_headline_names_the_methods_that_are_still_missing():
    rows = [
        row("MADELON", variant.name, fold, selected=13, ratio=0.026)
        for variant in accuracy.EXPERIMENT.variants
        for fold in range(3)
        if variant.name != "less_vfl" and (variant.name, fold) != ("iv@matched", 1)
    ]
    assert "Methods without all rows yet: LESS-VFL (none), IV, matched (2 to 2 cells)." in accuracy.table(rows)


def test_communication_says_where_more_than_half_is_saved_for_at_most_a_point():
    page = catalogue.find("communication").page(
        [
            row(dataset, method, fold, accuracy=score, bytes=count, embedding_open=count / 400, training_bytes=1)
            for fold in range(2)
            for dataset, method, score, count in (
                ("MADELON", "all", 0.6, 80000),
                ("MADELON", "fedsdg@no embedding gates", 0.89, 80000),
                ("MADELON", "fedsdg", 0.885, 25600),
                ("ISOLET", "all", 0.95, 80000),
                ("ISOLET", "fedsdg@no embedding gates", 0.93, 80000),
                ("ISOLET", "fedsdg", 0.91, 25600),
            )
        ]
    )
    assert "at most one point: MADELON (68%, -0.5). Not: ISOLET (68%, -2.0)." in page


def test_a_folder_without_an_experiment_cannot_be_printed(tmp_path):
    found = CliRunner().invoke(command, ["table", str(tmp_path)])
    assert found.exit_code != 0
    assert "holds no experiment" in str(found.exception)


def test_methods_are_separated_by_commas_or_semicolons_and_may_have_commas_in_their_names():
    assert _methods("all, fedsdg;original_gate", "accuracy") == ("all", "fedsdg", "original_gate")
    assert _methods("FedSDG-FS, path; SFFS, 0.1", "stability") == ("FedSDG-FS, path", "SFFS, 0.1")
    for nothing in ("", ",", ";", " ", " ; , "):
        with pytest.raises(ConfigError, match="names nothing"):
            _methods(nothing, "accuracy")


def test_an_unset_variable_does_not_ask_for_everything(tmp_path):
    for option in ("--datasets", "--methods"):
        found = CliRunner().invoke(command, ["run", "accuracy", "--out", str(tmp_path / "a"), option, ""])
        assert "'' names nothing; leave the option out" in str(found.exception)
    assert not (tmp_path / "a").exists()


def test_what_is_nearly_a_method_is_guessed():
    with pytest.raises(ConfigError, match=r"has no method 'ginni@matched' \(did you mean gini@matched\?\); there are"):
        catalogue.find("accuracy").variant("ginni@matched")


def test_precision_says_where_nobody_knows_the_truth():
    page = catalogue.find("precision").page([row("WINE", "fedsdg", selected=5), row("WINE", "all", selected=13)])
    assert "Nobody knows which columns of WINE matter" in page
    known = [row("MADELON", "fedsdg", selected=5, precision=1.0, recall=0.2)]
    assert "Nobody" not in catalogue.find("precision").page(known)


def test_a_method_that_is_not_made_for_a_data_set_says_where_it_runs(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing to run on WINE: it runs on ARCENE, MADELON, MADELON_LIKE, FRIEDM"):
        runner.run(runner.Grid("motivation", ("WINE",)), tmp_path / "out")
    grid = runner.Grid("accuracy", ("MADELON_LIKE",), methods=("fedsdg@0.15",))
    with pytest.raises(ConfigError, match=r"nothing to run on MADELON_LIKE: fedsdg@0\.15 runs on ARCENE, "):
        runner.run(grid, tmp_path / "out")

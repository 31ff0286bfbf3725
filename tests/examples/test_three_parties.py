"""The walkthrough from raw tables to predictions, run as a reader runs it: with the shell script, and in Python."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from fedsdg.job import load_job

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "three_parties"
PARTIES = ("bank", "phone_company", "web_shop")
IDS = {"bank": "customer_id", "phone_company": "subscriber", "web_shop": "member"}
#: Far beyond what it takes (a minute): a machine may be busy.
PATIENCE = 1800


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"three_parties_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_tables, judge = _module("make_tables"), _module("judge")


@dataclass
class Walk:
    """What a walkthrough printed and left behind."""

    code: int
    text: str
    folder: Path

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def selected(self) -> set[tuple[str, str]]:
        result = json.loads((self.run / "selection.json").read_text())
        return {(party, column) for party, client in result["clients"].items() for column in client["selected"]}


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    """Both walkthroughs, side by side: each is mostly one thread at a time."""
    base = tmp_path_factory.mktemp("walkthrough")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    commands = {
        "shell": ["bash", str(EXAMPLE / "walkthrough.sh"), str(base / "shell")],
        "python": [sys.executable, str(EXAMPLE / "walkthrough.py"), str(base / "python")],
    }
    started = {
        name: subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=base
        )
        for name, command in commands.items()
    }
    try:
        texts = {name: process.communicate(timeout=PATIENCE)[0] for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
    return {name: Walk(process.returncode, texts[name], base / name) for name, process in started.items()}


@pytest.fixture(params=["shell", "python"])
def walk(walks: dict[str, Walk], request: pytest.FixtureRequest) -> Walk:
    """Each of the two."""
    return walks[request.param]


def test_the_walkthrough_ends_well(walk):
    assert walk.code == 0, walk.text


def test_an_interrupted_run_went_on_to_the_end(walk):
    assert re.search(r"The run was stopped after step \d+\.", walk.text)
    assert "each recorded once, in spite of the interruption" in walk.text
    assert not walk.folder.joinpath("run.partial").exists()


def test_the_selected_columns_are_those_that_matter(walk):
    truth = {(party, column) for party, columns in make_tables.TRUTH.items() for column in columns}
    assert walk.selected
    assert len(walk.selected & truth) / len(walk.selected) >= 0.9
    unusable = {("bank", "currency"), ("phone_company", "delay_days_archive"), ("phone_company", "sim_card")}
    assert not walk.selected & unusable


def test_predictions_come_true_far_more_often_than_guesses(walks):
    scores = pl.read_csv(walks["shell"].folder / "scores.csv")
    known = scores.filter(pl.col("status") == "scored").join(make_tables.next_month()[1], on="customer_id")
    defaulted = known["defaulted"] == "yes"
    assert (known["prediction"] == known["defaulted"]).mean() > max(defaulted.mean(), 1 - defaulted.mean()) + 0.15
    risky = known.sort("probability_yes", descending=True).head(50)
    assert (risky["defaulted"] == "yes").mean() > 0.8  # the order of probabilities means something, too


def test_everybody_is_scored_whom_all_parties_know_and_nobody_else(walks):
    tables, _ = make_tables.next_month()
    held = {party: set(tables[party][IDS[party]]) for party in PARTIES}
    scores = pl.read_csv(walks["shell"].folder / "scores.csv")
    assert scores["customer_id"].to_list() == tables["bank"]["customer_id"].to_list()
    for person, status, prediction in scores.select("customer_id", "status", "prediction").iter_rows():
        lacking = ", ".join(party for party in PARTIES if person not in held[party])
        assert status == (f"not held by {lacking}" if lacking else "scored")
        assert (prediction is None) == bool(lacking)
    assert {"not held by web_shop", "not held by phone_company"} <= set(scores["status"])


def test_no_party_s_folder_names_another_s_columns_and_nothing_in_a_run_names_a_person(walk):
    tables = make_tables.this_month()
    words = {
        party: re.compile(rb"\b(" + "|".join(map(re.escape, tables[party].columns)).encode() + rb")\b")
        for party in PARTIES
    }
    people = re.compile(rb"\bC[1-9]\d{5}\b")
    for party in PARTIES:
        files = [path for path in (walk.run / "clients" / party).rglob("*") if path.is_file()]
        assert any(words[party].search(path.read_bytes()) for path in files)  # its own, so the search finds names
        for path in files:
            for other in PARTIES:
                assert other == party or not words[other].search(path.read_bytes()), path
    for path in (walk.run / "server").iterdir():
        assert not words["phone_company"].search(path.read_bytes()), path
        assert not words["web_shop"].search(path.read_bytes()), path
    assert people.search(tables["bank"]["customer_id"][0].encode())
    for path in walk.run.rglob("*"):
        assert path.is_dir() or not people.search(path.read_bytes()), path


def test_each_party_s_common_rows_are_its_own_and_in_one_order(walks):
    tables, common = make_tables.this_month(), walks["shell"].folder / "common"
    rows = {party: pl.read_parquet(common / party / f"{party}.parquet") for party in PARTIES}
    ids = {party: rows[party][IDS[party]].to_list() for party in PARTIES}
    assert ids["bank"] == ids["phone_company"] == ids["web_shop"]
    assert set(ids["bank"]) == set.intersection(*(set(tables[party][IDS[party]]) for party in PARTIES))
    for party in PARTIES:
        assert set(rows[party].columns) == set(tables[party].columns)


def test_the_tables_are_as_raw_as_the_story_says(tmp_path):
    make_tables.write_tables(tmp_path)
    bank = pl.read_csv(tmp_path / "this_month" / "bank.csv")
    phone = pl.read_parquet(tmp_path / "this_month" / "phone_company.parquet")
    with sqlite3.connect(tmp_path / "this_month" / "web_shop.db") as database:
        members = [row[0] for row in database.execute("SELECT member FROM members")]
    database.close()
    assert bank["currency"].n_unique() == 1
    assert phone["delay_days_archive"].equals(phone["invoice_delay_days"])
    assert phone["sim_card"].n_unique() == phone.height
    assert 0 < phone["invoice_delay_days"].null_count() < phone.height / 5
    rare = phone["tariff"].value_counts().filter(pl.col("count") < 10)
    assert rare.height >= 2
    assert set(bank["customer_id"]) - set(phone["subscriber"])
    assert set(phone["subscriber"]) - set(bank["customer_id"])
    assert set(bank["customer_id"]) - set(members)
    later = pl.read_parquet(tmp_path / "next_month" / "phone_company.parquet")
    assert set(later["tariff"]) - set(phone["tariff"])
    assert "defaulted" not in pl.read_csv(tmp_path / "next_month" / "bank.csv").columns


def test_the_tables_are_the_same_whenever_they_are_made():
    for month in (make_tables.this_month, lambda: make_tables.next_month()[0]):
        first, second = month(), month()
        assert all(first[party].equals(second[party]) for party in PARTIES)


def test_the_judge_can_say_no():
    truth = make_tables.TRUTH
    assert judge.judge_selection(truth, truth).startswith("selected: 6 columns, 6 of them matter")
    with pytest.raises(SystemExit, match="only 6 of 7"):
        judge.judge_selection({**truth, "web_shop": [*truth["web_shop"], "device"]}, truth)
    outcomes = make_tables.next_month()[1]
    guesses = outcomes.select("customer_id", prediction=pl.lit("no"), status=pl.lit("scored"))
    with pytest.raises(SystemExit, match="hardly better than guessing"):
        judge.judge_scores(guesses, outcomes)
    steps = [json.dumps({"phase": "gated", "step": step}) for step in (1, 2, 2)]
    with pytest.raises(SystemExit, match="not recorded once each"):
        judge.judge_steps(steps)


def test_the_python_job_is_the_job_file(walks):
    # Both tell one story: the settings that the two runs recorded are equal.
    recorded = [json.loads((walk.run / "settings.json").read_text()) for walk in walks.values()]
    assert recorded[0] == recorded[1]
    assert load_job(EXAMPLE / "job.toml").settings.model_dump(mode="json") == recorded[0]


def test_the_page_shows_commands_and_answers_of_the_walkthrough(walks):
    page = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ (fedsdg .*)$", page, re.MULTILINE)
    run = re.findall(r"^\$ (fedsdg .*)$", walks["shell"].text, re.MULTILINE)
    names = [command.split()[1] for command in run]
    assert [command.split()[1] for command in shown] == names
    for command, real in zip(shown, run, strict=True):
        assert re.sub(r"--ids \S+", "", command) == re.sub(r"--ids \S+", "", real)

"""`fedsdg inspect`: what a party's columns are taken for, before anything runs."""

from __future__ import annotations

import re

import polars as pl
import pytest
import typer

from fedsdg.cli.inspect import inspect
from fedsdg.errors import ConfigError, DataError

ROWS = 60


@pytest.fixture
def show(monkeypatch, capsys, job_folder):
    """Inspect the job and return what is printed, in lines wide enough to stay whole."""

    def run(**options):
        monkeypatch.setenv("COLUMNS", "220")
        inspect(job_folder.write(), **options)
        return capsys.readouterr().out

    return run


def line(text, start):
    return next(line for line in text.splitlines() if re.match(rf"{re.escape(start)}\s", line))


def bring(job_folder, **columns):
    job_folder.frames["right"] = job_folder.frames["right"].with_columns(
        **{n: pl.Series(v) for n, v in columns.items()}
    )


def test_every_column_is_shown_with_its_kind_treatment_inputs_and_missing_cells(job_folder, show):
    bring(
        job_folder,
        colour=["red", "blue", None, "green"] * 15,
        since=[f"2024-01-{1 + i % 28:02d}" for i in range(ROWS)],
        grade=["low", "high", "mid"] * 20,
        note=[f"the {('quick', 'slow')[i % 2]} fox number {i}" for i in range(ROWS)],
        key=[f"k{i}" for i in range(ROWS)],
        seven=[7] * ROWS,
        copy=job_folder.frames["right"]["b0"],
    )
    job_folder.extra_client = (
        '[clients.right.schema]\ngrade = { kind = "ordinal", levels = ["low", "mid", "high"] }\n'
        "[clients.right.encoding]\nwords = 3\n"
    )
    text = show()
    assert "bank: 60 rows, labels 'label' with 2 different values" in text
    assert "left: 60 rows, 3 columns, 3 inputs" in text
    assert "right: 60 rows, 9 columns, 13 inputs" in text
    assert re.search(r"number +inferred +1 +0\.0% +standardised", line(text, "b0"))
    assert re.search(r"category +inferred +4 +25\.0% +a flag for each of: 3 levels, missing", line(text, "colour"))
    assert re.search(r"date +inferred +1 +0\.0% +standardised", line(text, "since"))
    assert re.search(r"ordinal +pinned +1 +0\.0% +rank of 3 levels", line(text, "grade"))
    assert re.search(r"text +inferred +3 +0\.0% +counts of 3 words", line(text, "note"))
    assert re.search(r"ignore +inferred +- +0\.0% +- +left out: .*identifier", line(text, "key"))
    assert "never selected: constant on the training rows" in line(text, "seven")
    assert "never selected: repeats column 'b0'" in line(text, "copy")


def test_no_cell_and_no_id_is_shown(job_folder, show):
    bring(job_folder, colour=["scarlet", "azure"] * 30, note=[f"secret words of person {i}" for i in range(ROWS)])
    text = show()
    for cell in ("scarlet", "azure", "secret", "person-"):
        assert cell not in text


def test_one_party_is_shown_without_the_others_files(job_folder, show):
    job_folder.missing = {"owner", "left"}
    text = show(party="right")
    assert "right: 60 rows" in text
    assert "bank" not in text


def test_an_unknown_party_is_refused(show):
    with pytest.raises(ConfigError, match="--party: there is no party 'middle'; there are bank, left, right"):
        show(party="middle")


def test_the_label_owners_own_columns_are_shown(job_folder, show):
    job_folder.server_settings = 'columns = "all"'
    assert re.search(r"number +inferred", line(show(), "age"))


def test_names_are_shown_as_they_are(job_folder, show):
    job_folder.frames["right"] = job_folder.frames["right"].rename({"b0": "[bold]b0[/]"})
    assert "[bold]b0[/]" in show()


def test_what_a_run_would_refuse_is_refused_here_too(job_folder, show):
    job_folder.missing = {"left"}
    with pytest.raises(DataError, match="left: there is no file"):
        show()


def test_it_is_a_command():
    app = typer.Typer()
    app.command()(inspect)
    command = typer.main.get_command(app)
    assert {parameter.name for parameter in command.params} >= {"job", "party"}

"""`fedsdg experiment table`: nothing is cut off on a screen, and no name in a row is markup on a page."""

from __future__ import annotations

import sys

import pytest
from experiment_helpers import row
from rich.console import Console
from rich.markdown import Markdown
from test_damaged_results import ABOUT, folder_of
from typer.testing import CliRunner

from fedsdg.cli import experiment as commands
from fedsdg.cli.app import app
from fedsdg.errors import FedSDGError
from fedsdg.experiments.catalogue import EXPERIMENTS
from fedsdg.experiments.results import ResultsFolder
from fedsdg.report.markdown_tables import needed_width

LONG = "A DATA SET OF MINE WITH A LONG NAME"
ROWS = [
    row(dataset, method, fold, selected=13, ratio=0.1 + fold / 10)
    for dataset in ("MADELON", LONG)
    for method in ("fedsdg", "sffs@matched", "mutual_information@matched", "all")
    for fold in range(3)
]
EVIL = ("<script>", "![x](http://example.org/x.png)", "[x](http://example.org)", "`x`", "a|b", "&lt;script>")


@pytest.fixture
def terminal(monkeypatch):
    """Pretend that standard output is a terminal of some width, and return what a command printed there."""

    def show(folder, width: int, *options: str) -> str:
        class Screen(Console):
            def __init__(self, *arguments, **others):
                super().__init__(*arguments, width=width, **others)

        class System:
            stdout = type("Terminal", (), {"isatty": staticmethod(lambda: True)})

        monkeypatch.setattr(commands, "Console", Screen)
        monkeypatch.setattr(commands, "sys", System)
        outcome = CliRunner().invoke(app, ["experiment", "table", str(folder), *options])
        assert outcome.exception is None
        return outcome.output

    return show


def test_a_pipe_gets_markdown(tmp_path, monkeypatch):
    folder_of(tmp_path, ABOUT, *ROWS)
    monkeypatch.setenv("COLUMNS", "1000")
    asked = ["experiment", "table", str(tmp_path)]
    assert CliRunner().invoke(app, asked).output == CliRunner().invoke(app, [*asked, "--markdown"]).output
    assert not sys.stdout.isatty()


def test_a_terminal_that_is_too_narrow_gets_markdown_and_no_name_is_cut_off(tmp_path, terminal):
    folder_of(tmp_path, ABOUT, *ROWS)
    page = terminal(tmp_path, 1000, "--markdown")
    width = needed_width(page)
    assert width > 80
    for narrow in (20, 80, width - 1):
        assert terminal(tmp_path, narrow) == page
    wide = terminal(tmp_path, width)
    assert "|---" not in wide
    assert "…" not in wide
    assert all(name in wide for name in (LONG, "mutual information, matched"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_width_that_a_page_needs_is_enough_for_every_cell(name):
    curve = [{"step": 1.0, "open": 3.0, "score": 0.5, "overlap": 0.5}]
    rows = [row(LONG, each.name, columns=[1], curve=curve) for each in EXPERIMENTS[name].variants]
    page = EXPERIMENTS[name].page(rows)
    console = Console(width=max(needed_width(page), 20))
    with console.capture() as caught:
        console.print(Markdown(page))
    shown = caught.get()
    assert "…" not in shown
    cells = {cell.strip() for line in page.splitlines() if line.startswith("| ") for cell in line.split("|")}
    assert all(cell.replace("**", "") in shown for cell in cells)


def test_a_page_without_a_table_needs_no_width():
    assert needed_width("# accuracy: ?\n\nNo rows yet.") == 0


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("field", ["dataset", "method", "commit"])
def test_markup_in_a_row_is_refused(field, name, tmp_path):
    folder = folder_of(tmp_path, ABOUT, ROWS[0], ROWS[1] | {field: name})
    outcome = CliRunner().invoke(app, ["experiment", "table", str(tmp_path)])
    assert isinstance(outcome.exception, FedSDGError)
    assert outcome.output == ""
    if field != "method" or "[" not in name:  # a method with brackets may be one of ours; this one is none
        with pytest.raises(FedSDGError, match=rf"line 2 .*{field}: should hold none of .*; repair or remove it"):
            folder.rows()


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("field", ["question", "datasets"])
def test_markup_in_a_description_is_refused(field, name, tmp_path):
    folder_of(tmp_path, ABOUT | {field: [name] if field == "datasets" else name}, *ROWS)
    with pytest.raises(FedSDGError, match=rf"experiment\.json is damaged \({field}.*should hold none of .*; put back"):
        ResultsFolder(tmp_path).description()


@pytest.mark.parametrize("name", ["original_gate[mean 3]", "FedSDG-FS, 0.05", "clients/10@no embedding gates", "ä = 1"])
def test_a_method_may_be_called_as_ours_are(name, tmp_path):
    assert folder_of(tmp_path, ABOUT, row("MY OWN (2)", name)).rows()[0]["method"] == name


def test_every_name_of_ours_may_stand_in_a_row(tmp_path):
    rows = [row(name, each.name) for of in EXPERIMENTS.values() for name in of.datasets for each in of.variants]
    assert folder_of(tmp_path, ABOUT, *rows).rows()


@pytest.mark.parametrize("name", ["convergence", "gini_ablation", "model_table", "motivation", "precision"])
def test_methods_go_by_their_names_and_not_by_their_keys(name):
    """A reader knows original-Gate and not ``original_gate``."""
    page = EXPERIMENTS[name].table(
        [row("MADELON", method, curve=[]) for method in ("fedsdg", "original_gate", "sffs@0.5")]
    )
    for named in ("original-Gate", "SFFS, 0.5", "FedSDG-FS"):
        assert named in page
    for key in ("original_gate", "sffs", "fedsdg"):
        assert key not in page

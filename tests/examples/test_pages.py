"""What the pages about data name exists: commands, options, job keys, Python names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

import fedsdg
from fedsdg.cli.app import app
from fedsdg.job import load_job

ROOT = Path(__file__).parents[2]
PAGES = ("docs/data.md", "docs/walkthrough.md", "docs/operators.md", "examples/three_parties/README.md", "README.md")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_of_a_page_exist(page):
    commands = typer.main.get_command(app).commands
    told = re.findall(r"(?:^|[`$] ?)fedsdg ([a-z]+)((?: [^\n`#(]*)?)", text_of(page), re.MULTILINE)
    assert told or page.startswith("examples")
    for name, rest in told:
        assert name in commands, name
        command, words = commands[name], rest.split()
        if hasattr(command, "commands") and words:  # a group, such as `fedsdg deploy flare`
            command = command.commands[words[0].rstrip("`,")]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options, (name, rest)


def test_the_job_file_of_the_data_page_is_one(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", text_of("docs/data.md"), re.DOTALL)
    path = tmp_path / "job.toml"
    path.write_text(block, encoding="utf-8")
    job = load_job(path)
    assert job.server.pins["salary_band"].levels == ("low", "middle", "high")
    assert job.clients["phone_company"].pins["phone_number"].kind == "ignore"


def test_the_defaults_that_the_data_page_names_are_the_defaults():
    (block,) = re.findall(r"\[clients.phone_company.encoding\].*?\n(.*?)```", text_of("docs/data.md"), re.DOTALL)
    said = {name: int(value) for name, value in re.findall(r"^(\w+) = (\d+)$", block, re.MULTILINE)}
    assert said == fedsdg.ClientSource().encoding.model_dump()


@pytest.mark.parametrize("page", PAGES)
def test_python_names_of_a_page_exist(page):
    for name in re.findall(r"\bfedsdg\.([A-Za-z]\w*)\(", text_of(page)):
        assert hasattr(fedsdg, name), name

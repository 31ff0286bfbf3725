"""docs/reliability.md names a test for every claim; the tests exist, and the numbers it gives are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from fedsdg.config import TrainingConfig
from fedsdg.job import RunSettings
from fedsdg.state_files import Checkpoints

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests/\w+/)?test_\w+\.py)::(\w+)`", PAGE)))


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists():
    assert len(NAMED) > 35
    missing = []
    for file, name in NAMED:
        path = ROOT / file if "/" in file else Path(__file__).parent / file
        if not path.is_file() or name not in names_in(path):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_fault_of_the_table_names_a_test():
    start = PAGE.index("| fault | what happens |")
    rows = PAGE[start:].split("\n\n")[0].splitlines()[2:]
    assert len(rows) > 20
    for row in rows:
        assert re.search(r"`\S*test_\w+\.py::test_\w+`", row), row


def test_every_file_of_this_folder_stands_behind_something_on_the_page():
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert {file for file, _ in NAMED if "/" not in file} == files


def test_the_numbers_on_the_page_are_those_of_the_code():
    fixed = TrainingConfig().fixed_point
    assert f"lowest {fixed.forward_dither_bits} of the {fixed.forward_fraction_bits} fraction bits" in PAGE
    assert f"(default {RunSettings().checkpoint_every})" in PAGE
    assert f"sigma = {RunSettings().sigma}" in PAGE
    assert Checkpoints.KEPT == 2

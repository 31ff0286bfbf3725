"""What the documentation shows is run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import fedsdg.crypto

ROOT = Path(__file__).parents[2]


def test_the_worked_example_of_the_packing_page_is_true():
    failed, tried = doctest.testfile(
        str(ROOT / "docs" / "packing.md"), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert tried > 10
    assert failed == 0


def test_the_example_in_the_package_docstring_is_true():
    failed, tried = doctest.testmod(fedsdg.crypto)
    assert tried > 5
    assert failed == 0


def test_the_python_examples_of_the_readme_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert set(np.flatnonzero(names["selector"].get_support())) == {3, 11}


def test_a_method_and_a_data_set_of_ones_own_are_compared_as_the_page_says(capsys):
    block = re.search(r"```python\n(.*?)```", (ROOT / "docs/experiments.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    threads = torch.get_num_threads()
    try:
        exec(compile(block[1], "experiments.md", "exec"), {})
    finally:
        torch.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["fedsdg", "spread@k=2"] * 2
    assert all(float(line.split()[-1]) > 0.5 for line in lines[::2])
    assert all(line.endswith("precision 0.00") for line in lines[1::2])


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("**/*.md") if ".venv" not in p.parts)
)
def test_relative_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target

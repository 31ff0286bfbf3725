"""Numbers in the documents are those of the recorded rows."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
found = importlib.util.spec_from_file_location("recorded_tables", ROOT / "docs" / "recorded_tables.py")
recorded_tables = importlib.util.module_from_spec(found)
found.loader.exec_module(recorded_tables)


@pytest.mark.parametrize("document", recorded_tables.DOCUMENTS, ids=lambda path: path.name)
def test_the_tables_of_a_document_are_what_the_rows_say(document: Path):
    text = document.read_text(encoding="utf-8")
    assert recorded_tables.BLOCK.search(text)
    assert recorded_tables.refreshed(text) == text, "`make tables` writes them anew"


def test_a_number_that_was_changed_by_hand_is_noticed():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = recorded_tables.BLOCK.search(text)
    changed = text.replace(block[0], re.sub(r"(\| FedSDG-FS \| \**)", r"\g<1>1", block[0], count=1))
    assert changed != text
    assert recorded_tables.refreshed(changed) == text

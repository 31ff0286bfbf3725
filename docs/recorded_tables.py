"""Put the recorded results into the documents: what stands between two ``recorded`` marks is never typed by hand.

A block starts with ``<!-- recorded: FOLDER -->`` and holds what ``fedsdg experiment table results/FOLDER`` prints
(``FOLDER, short``: the headline in a few lines). ``<!-- minutes: FOLDER -->`` is followed by the CPU minutes behind all
rows of a folder. ``python docs/recorded_tables.py`` writes all blocks anew; a test
holds the documents to the rows.
"""

from __future__ import annotations

import re
from pathlib import Path

from fedsdg.experiments.recorded import read_recorded
from fedsdg.experiments.short_table import short_table

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "reproduction.md")
BLOCK = re.compile(r"<!-- recorded: (?P<folder>\w+)(?P<short>, short)? -->\n.*?\n<!-- end of recorded -->", re.DOTALL)
MINUTES = re.compile(r"<!-- minutes: (?P<folder>\w+) -->\d*")


def recorded(block: re.Match[str]) -> str:
    """Return a block as it should be."""
    found = read_recorded(ROOT / "results" / block["folder"])
    table = found.experiment.page(found.rows, short_table if block["short"] else None)
    head = block[0].partition("\n")[0]
    return f"{head}\n\n{table}\n\n<!-- end of recorded -->"


def minutes(mark: re.Match[str]) -> str:
    """Return the CPU minutes that the rows of a folder took."""
    rows = read_recorded(ROOT / "results" / mark["folder"]).rows
    total = sum(float(row.get("cpu_seconds") or row["seconds"]) for row in rows) / 60
    return f"<!-- minutes: {mark['folder']} -->{max(1, round(total))}"


def refreshed(text: str) -> str:
    """Return a document with all its blocks and minutes written anew."""
    return MINUTES.sub(minutes, BLOCK.sub(recorded, text))


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(refreshed(document.read_text()))

"""The experiments' own Markdown tables, read back into blocks: their words and numbers exist once."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from fedsdg.report.document import Block, Paragraph, Table

BETWEEN = 3
"""Characters around a cell, a little too many: better Markdown than a cell that is cut off."""


def blocks_of(markdown: str, title: str) -> Iterator[Block]:
    """Yield the paragraphs and tables of a page that `fedsdg.experiments.tables` wrote.

    What stands above a table is its title.
    """
    above: str | None = None
    for part in markdown.split("\n\n"):
        lines = part.strip().splitlines()
        if len(lines) >= 2 and all(line.startswith("|") for line in lines):
            header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            yield Table(above or title, tuple(header), tuple(tuple(row) for row in rows))
            above = None
        elif lines:
            if above is not None:
                yield Paragraph(above)
            above = " ".join(lines)
    if above is not None:
        yield Paragraph(above)


def needed_width(markdown: str) -> int:
    """Return how many characters a terminal needs across to show the tables of such a page unbroken."""
    tables = (block for block in blocks_of(markdown, "") if isinstance(block, Table))
    return max((_width(table) for table in tables), default=0)


def _width(table: Table) -> int:
    columns = zip(table.header, *table.rows, strict=True)
    return sum(max(map(cell_len, cells)) + BETWEEN for cells in columns)

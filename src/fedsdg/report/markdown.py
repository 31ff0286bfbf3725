"""A page as Markdown: the same words and numbers; a figure becomes its table, below its picture if there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from fedsdg.report.charts.svg import possible
from fedsdg.report.document import (
    Block,
    Callout,
    Facts,
    Figure,
    Folded,
    Gallery,
    Heading,
    Page,
    Paragraph,
    Table,
)

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def render(page: Page, links: Mapping[Figure, str] | None = None) -> str:
    """Return the whole file; `links` lead to pictures of the figures."""
    links = links or {}
    parts = [f"# {clean(page.title)}", clean(page.lead)]
    for block in page.foreword:
        parts += _block(block, links)
    for section in page.sections:
        parts += [f"## {clean(section.title)}"] if len(page.sections) > 1 else []
        parts.append(clean(section.kicker))
        for block in section.blocks:
            parts += _block(block, links)
    return "\n\n".join(part for part in parts if part) + "\n"


def clean(text: str) -> str:
    """Return text in which nothing is taken for markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(possible(text).split()))


def _block(block: Block, links: Mapping[Figure, str], level: int = 3) -> Iterator[str]:
    match block:
        case Paragraph(text):
            yield clean(text)
        case Heading(text):
            yield f"{'#' * level} {clean(text)}"
        case Callout(title, text):
            yield f"> **{clean(title)}** {clean(text)}"
        case Facts(facts):
            yield "\n".join(
                f"- {clean(fact.name)}: **{clean(fact.value)}**" + (f" ({clean(fact.detail)})" if fact.detail else "")
                for fact in facts
            )
        case Table():
            yield f"{clean(block.title)}:"
            yield _table(block)
        case Gallery(items):
            for item in items:
                if isinstance(item, Table):
                    yield from _block(item, links)
                else:
                    yield f"**{clean(item.title)}.** {clean(item.caption)}"
                    if item in links:
                        yield f"![{clean(item.title)}]({quote(links[item], errors='surrogateescape')})"
                    yield _table(item.chart.numbers(item.title))
        case Folded(title, blocks):
            yield f"**{clean(title)}**"
            for inner in blocks:
                yield from _block(inner, links, level + 1)


def _table(table: Table) -> str:
    lines = ["| " + " | ".join(clean(cell) for cell in table.header) + " |", "|" + "---|" * len(table.header)]
    lines += ["| " + " | ".join(clean(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines)

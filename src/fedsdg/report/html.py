"""A page as one HTML file that needs nothing else: no script, no font, no picture, no network."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fedsdg.report.charts.svg import clean
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
    Section,
    Table,
)
from fedsdg.report.style import CHART, COLOURS, PAGE

#: The browser itself refuses whatever is not in the file, should anything ever ask for it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_NUMBER = re.compile(r"^[-+]?[\d,.]+( ?(%|B|kB|MB|GB|s|min|h))?( ± [\d.,]+)?( / [\d.]+)?$|^-?$")


def render(page: Page) -> str:
    """Return the whole file."""
    return "\n".join([*_Writer().page(page), ""])


class _Writer:
    """Writes one page; counts what needs a name of its own."""

    def __init__(self) -> None:
        self._count = 0
        self._level = 2  # of the next heading: no level is left out

    def page(self, page: Page) -> Iterator[str]:
        yield "<!DOCTYPE html>"
        yield '<html lang="en"><head><meta charset="utf-8">'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        yield '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        yield '<link rel="icon" href="data:,">'
        yield f"<title>{clean(page.title)}</title><style>{COLOURS}{CHART}{PAGE}</style></head><body>"
        yield f'<header><h1 id="title">{clean(page.title)}</h1><p class="lead">{clean(page.lead)}</p>'
        if len(page.sections) > 1:
            items = "".join(
                f'<li><a href="#part-{n}">{clean(part.title)}</a></li>' for n, part in enumerate(page.sections)
            )
            yield f'<nav aria-label="Contents"><ul>{items}</ul></nav>'
        yield "</header><main>"
        for block in page.foreword:
            yield from self.block(block)
        for number, section in enumerate(page.sections):
            yield from self.section(section, number, alone=len(page.sections) == 1)
        yield "</main><footer>Written by <code>fedsdg report</code>. "
        yield "This file is complete: it runs no script and loads nothing.</footer></body></html>"

    def section(self, section: Section, number: int, alone: bool) -> Iterator[str]:
        """Write a section; one that is alone has its title at the top of the page already."""
        title = "title" if alone else f"part-{number}-title"
        yield f'<section id="part-{number}" aria-labelledby="{title}">'
        self._level = 2 if alone else 3
        if not alone:
            yield f'<h2 id="{title}">{clean(section.title)}</h2>'
        yield f'<p class="kicker">{clean(section.kicker)}</p>'
        for block in section.blocks:
            yield from self.block(block)
        yield "</section>"

    def block(self, block: Block) -> Iterator[str]:
        match block:
            case Paragraph(text):
                yield f"<p>{clean(text)}</p>"
            case Heading(text):
                yield f'<h{self._level} class="heading">{clean(text)}</h{self._level}>'
            case Callout(title, text):
                yield f'<div class="callout" role="note"><strong>{clean(title)}</strong><p>{clean(text)}</p></div>'
            case Facts(facts):
                items = (
                    f"<div><dt>{clean(fact.name)}</dt><dd>{clean(fact.value)}"
                    + (f"<small>{clean(fact.detail)}</small>" if fact.detail else "")
                    + "</dd></div>"
                    for fact in facts
                )
                yield f'<dl class="facts">{"".join(items)}</dl>'
            case Table():
                yield from self.table(block)
            case Gallery(items):
                yield '<div class="gallery">'
                for item in items:
                    yield from self.table(item) if isinstance(item, Table) else self.figure(item)
                yield "</div>"
            case Folded(title, blocks):
                yield f'<details class="folded"><summary>{clean(title)}</summary>'
                for inner in blocks:
                    yield from self.block(inner)
                yield "</details>"

    def figure(self, figure: Figure) -> Iterator[str]:
        self._count += 1
        name = f"figure-{self._count}"
        heading = f"h{self._level + 1}"
        yield f'<figure aria-labelledby="{name}-heading">'
        yield f'<{heading} class="about" id="{name}-heading">{clean(figure.title)}</{heading}>'
        yield f"<figcaption>{clean(figure.caption)}</figcaption>"
        yield figure.chart.svg(figure.title, figure.caption, name)
        yield "<details><summary>The numbers as a table</summary>"
        yield from self.table(figure.chart.numbers(figure.title))
        yield "</details></figure>"

    @staticmethod
    def table(table: Table) -> Iterator[str]:
        numeric = [
            bool(table.rows) and index > 0 and all(_NUMBER.match(row[index]) for row in table.rows)
            for index in range(len(table.header))
        ]

        def cell(tag: str, text: str, index: int) -> str:
            kind = "number" if numeric[index] else "name" if index == 0 and tag == "td" else ""
            scope = ' scope="col"' if tag == "th" else ""
            return f"<{tag}{scope}" + (f' class="{kind}"' if kind else "") + f">{clean(text)}</{tag}>"

        # The title stands outside: it wraps on a phone while a wide table scrolls.
        yield f'<div class="table"><p class="caption">{clean(table.title)}</p>'
        yield f'<div class="scroll" role="region" tabindex="0" aria-label="{clean(table.title)}"><table><thead><tr>'
        yield "".join(cell("th", text, index) for index, text in enumerate(table.header)) + "</tr></thead><tbody>"
        for row in table.rows:
            yield "<tr>" + "".join(cell("td", text, index) for index, text in enumerate(row)) + "</tr>"
        yield "</tbody></table></div></div>"

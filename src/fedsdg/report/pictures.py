"""Every plot of a page as an SVG file of its own, for a README, a slide or a paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedsdg.errors import ConfigError
from fedsdg.report.document import Block, Figure, Folded, Gallery, Page
from fedsdg.report.style import CHART, COLOURS

Pictures = dict[Figure, Path]


def places(page: Page, folder: Path) -> Pictures:
    """Return where each plot of a page lies when it is written into a folder."""
    found: Pictures = {}
    blocks = (*page.foreword, *(block for section in page.sections for block in section.blocks))
    for figure in _figures(blocks):
        if figure not in found:
            found[figure] = folder / f"{len(found) + 1:02d}-{_slug(figure.title)}.svg"
    return found


def make_folder(folder: Path) -> None:
    """Make the folder of the plots, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"Cannot write to {folder}: {problem.strerror or problem}.") from None


def alone(figure: Figure) -> str:
    """Return a plot that brings its own colours, light and dark, and its own background."""
    drawing = figure.chart.svg(figure.title, figure.caption, "figure")
    start = drawing.index(">") + 1
    style = f'<style>{COLOURS}{CHART}</style><rect width="100%" height="100%" fill="var(--page)"/>'
    return f"{drawing[:start]}{style}{drawing[start:]}\n"


def _figures(blocks: Iterable[Block]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Gallery):
            yield from (item for item in block.items if isinstance(item, Figure))
        elif isinstance(block, Folded):
            yield from _figures(block.blocks)


def _slug(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:60]

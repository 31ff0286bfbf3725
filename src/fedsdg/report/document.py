"""What a report is made of: blocks that know nothing of HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Callout:
    """A few sentences that must not be missed."""

    title: str
    text: str


@dataclass(frozen=True)
class Fact:
    """One number with its name, and what belongs to it in small print."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Facts:
    """The numbers that a reader wants first."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; every row is as long as the header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.header) for row in self.rows), self.title


class Chart(Protocol):
    """A plot that can draw itself and say its numbers."""

    def svg(self, title: str, description: str, name: str) -> str:
        """Return the drawing as one SVG element whose ids begin with `name`."""
        ...

    def numbers(self, title: str) -> Table:
        """Return what is drawn as a table, for those who cannot see it."""
        ...


@dataclass(frozen=True)
class Figure:
    """A plot with its title and a caption that says how to read it."""

    title: str
    caption: str
    chart: Chart


@dataclass(frozen=True)
class Gallery:
    """Figures and tables that stand side by side where there is room."""

    items: tuple[Figure | Table, ...]


@dataclass(frozen=True)
class Folded:
    """Details that are hidden until somebody wants them."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


Block: TypeAlias = Paragraph | Callout | Facts | Table | Gallery | Folded | Heading


@dataclass(frozen=True)
class Section:
    """What the page says about one folder."""

    title: str
    kicker: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    foreword: tuple[Block, ...] = field(default=())

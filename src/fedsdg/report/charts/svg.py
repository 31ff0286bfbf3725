"""SVG elements as text. Every attribute and every text is escaped here, so nothing else has to think of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

#: Mean widths of a letter of the plots' font, in units of its size: enough to leave room for a text, bold or not.
LETTER, WIDE_LETTER = 0.56, 0.74
#: What is wide beside capitals.
WIDE = "mw_%±"
FONT = 12.0

#: What XML cannot hold at all, whatever it is escaped to.
_IMPOSSIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def possible(text: str) -> str:
    """Return text without characters that no document can hold."""
    return _IMPOSSIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def clean(text: str) -> str:
    """Return text for a page: escaped, and without characters that no document can hold."""
    return escape(possible(text), quote=True)


def element(tag: str, content: str | Iterable[str] = "", /, **attributes: str | float) -> str:
    """Return an element. `content` is markup already; a trailing underscore of a name goes, others become hyphens."""
    inner = content if isinstance(content, str) else "".join(content)
    return f"<{tag}{_attributes(attributes)}>{inner}</{tag}>" if inner else f"<{tag}{_attributes(attributes)}/>"


def text(x: float, y: float, words: str, **attributes: str | float) -> str:
    """Return a text at a place."""
    return element("text", clean(words), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """Return the path data of a line through points."""
    return "M" + "L".join(f"{_number(x)},{_number(y)}" for x, y in points)


def drawing(width: float, height: float, body: Iterable[str], title: str, description: str, name: str) -> str:
    """Return a whole drawing that grows and shrinks with its place; a screen reader says title and description."""
    return element(
        "svg",
        [
            element("title", clean(title), id=f"{name}-title"),
            element("desc", clean(description), id=f"{name}-desc"),
            *body,
        ],
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def width_of(words: str, font: float = FONT) -> float:
    """Return about how wide a text is."""
    wide = sum(letter.isupper() or letter in WIDE for letter in words)
    return font * (LETTER * (len(words) - wide) + WIDE_LETTER * wide)


def shortened(words: str, most: int) -> str:
    """Return a text of at most so many letters."""
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def _attributes(attributes: dict[str, str | float]) -> str:
    parts = []
    for name, value in attributes.items():
        written = clean(value) if isinstance(value, str) else _number(value)
        key = name if name == "viewBox" else name.rstrip("_").replace("_", "-")
        parts.append(f' {key}="{written}"')
    return "".join(parts)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

"""Small line plots as SVG text: logarithmic axes with units, one legend per row, readable on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 250, 200
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 40
LEGEND = 26

#: Colours of the lines on light and on dark; the background changes with them.
LIGHT = ("#1f6fc4", "#c4501b", "#0e7a52", "#55555f")
DARK = ("#74b3ff", "#ff9d6b", "#52d6a4", "#c0c0ca")
STYLE = """
.back { fill: #ffffff } .text { fill: #26262b; font: 11px sans-serif } .grid { stroke: #dcdce0; stroke-width: 1 }
.axis { stroke: #8a8a92; stroke-width: 1 } .line { fill: none; stroke-width: 1.8 }
"""
DARK_STYLE = ".back { fill: #16161a } .text { fill: #e8e8ec } .grid { stroke: #37373d } .axis { stroke: #8a8a92 }"


@dataclass(frozen=True)
class Panel:
    """Some lines over one axis: what stands below it, the unit of the values, and the lines by name."""

    x_label: str
    unit: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class _Scale:
    """A logarithmic axis of some pixels."""

    low: float
    high: float
    start: float
    length: float

    def at(self, value: float) -> float:
        """Return the pixel of a value; what is too small for the axis lies on its edge."""
        low, high = math.log10(self.low), math.log10(self.high)
        share = (math.log10(max(value, self.low)) - low) / (high - low)
        return self.start + share * self.length


def draw(panels: Sequence[Panel], columns: int, title: str) -> str:
    """Return an SVG picture with so many panels per row; those of a row share their unit, their axis and a legend."""
    rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    width, height = columns * WIDTH, len(rows) * (HEIGHT + LEGEND) + 6
    dark = DARK_STYLE + " ".join(_colours(DARK))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{' '.join(_colours(LIGHT))}\n@media (prefers-color-scheme: dark) {{ {dark} }}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]
    for number, row in enumerate(rows):
        top = number * (HEIGHT + LEGEND)
        parts += _legend(row[0], top)
        low, high = _decades([value for panel in row for line in panel.lines.values() for value in line])
        for position, panel in enumerate(row):
            parts += _panel(panel, position * WIDTH, top + LEGEND, low, high)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, left: float, top: float, low: float, high: float) -> list[str]:
    plot_left, plot_right, bottom = left + LEFT, left + WIDTH - RIGHT, top + HEIGHT - BOTTOM
    across = _Scale(min(panel.x), _above(panel.x), plot_left + 8, plot_right - plot_left - 24)
    upward = _Scale(low, high, bottom, top + TOP - bottom)
    parts = []
    for exponent in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = upward.at(10.0**exponent)
        parts.append(f'<line class="grid" x1="{plot_left}" x2="{plot_right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(plot_left - 6, y + 4, f"{10.0**exponent:,g}", "end"))
    parts.append(f'<line class="axis" x1="{plot_left}" x2="{plot_right}" y1="{bottom}" y2="{bottom}"/>')
    for value in panel.x:
        x = across.at(value)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(_text(x, bottom + 16, f"{value:,.0f}", "middle"))
    parts.append(_text((plot_left + plot_right) / 2, bottom + 32, panel.x_label, "middle"))
    for number, line in enumerate(panel.lines.values()):
        points = [(across.at(x), upward.at(y)) for x, y in zip(panel.x, line, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line stroke{number}" points="{path}"/>')
        parts += [f'<circle class="fill{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in points]
    return parts


def _legend(panel: Panel, top: float) -> list[str]:
    parts, x = [_text(8, top + 18, f"{panel.unit}:", "start")], 24 + 6.5 * len(panel.unit)
    for number, name in enumerate(panel.lines):
        parts.append(f'<line class="line stroke{number}" x1="{x}" x2="{x + 18}" y1="{top + 14}" y2="{top + 14}"/>')
        parts.append(_text(x + 24, top + 18, name, "start"))
        x += 46 + 6.5 * len(name)
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="text" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _colours(palette: Sequence[str]) -> list[str]:
    return [f".stroke{n} {{ stroke: {colour} }} .fill{n} {{ fill: {colour} }}" for n, colour in enumerate(palette)]


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten around all values; nothing and next to nothing lie on the lower edge."""
    seen = [value for value in values if value > 0.01] or [1.0]
    low, high = math.floor(math.log10(min(seen))), math.ceil(math.log10(max(seen)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _above(values: Sequence[float]) -> float:
    """Return the largest value, or something above it where an axis would have no length."""
    return max(values) if max(values) > min(values) else 2 * max(values)

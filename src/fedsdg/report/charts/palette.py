"""Colours, dashes and shapes of series: told apart without colour, and by people who see colours differently.

The colours are spread over hue and lightness; each has a contrast of at least 3 to 1 against its page, light or dark.
"""

from __future__ import annotations

#: Background, panels, text, quiet text, lines, grid.
LIGHT_PAGE = {
    "page": "#ffffff",
    "panel": "#f5f6f8",
    "text": "#1c1f24",
    "quiet": "#565d68",
    "edge": "#c9ced6",
    "grid": "#e4e7ec",
    "muted": "#8b95a5",
    "accent": "#0b62a8",
    "warn": "#8a4b00",
    "warn-panel": "#fff6e8",
}
DARK_PAGE = {
    "page": "#121417",
    "panel": "#1b1e23",
    "text": "#e9ecf0",
    "quiet": "#a6aebb",
    "edge": "#3d444f",
    "grid": "#2a2f37",
    "muted": "#7f8a9b",
    "accent": "#6db6ff",
    "warn": "#ffc078",
    "warn-panel": "#2b2317",
}
LIGHT_SERIES = ("#0b62a8", "#c4480a", "#00795a", "#8f3d8f", "#8a6a00", "#3d8fbf", "#b0264f", "#4a4f58")
DARK_SERIES = ("#6db6ff", "#ff9a5c", "#3fd0a4", "#dd94dd", "#e0bd45", "#9ad4f5", "#ff8fae", "#c6ccd6")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 5", "12 3", "3 2 1 2", "1 2")
SHAPES = ("circle", "square", "diamond", "up", "down", "cross", "circle", "square")


def shape(slot: int, x: float, y: float, radius: float = 3.4) -> str:
    """Return the path data of a series' marker."""
    r = radius
    match SHAPES[slot % len(SHAPES)]:
        case "circle":
            return f"M{x - r:.1f},{y:.1f}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0Z"
        case "square":
            s = 0.9 * r
            return f"M{x - s:.1f},{y - s:.1f}h{2 * s:.1f}v{2 * s:.1f}h{-2 * s:.1f}Z"
        case "diamond":
            s = 1.3 * r
            return f"M{x:.1f},{y - s:.1f}l{s:.1f},{s:.1f}l{-s:.1f},{s:.1f}l{-s:.1f},{-s:.1f}Z"
        case "up":
            return f"M{x:.1f},{y - 1.2 * r:.1f}l{1.2 * r:.1f},{2.2 * r:.1f}h{-2.4 * r:.1f}Z"
        case "down":
            return f"M{x:.1f},{y + 1.2 * r:.1f}l{1.2 * r:.1f},{-2.2 * r:.1f}h{-2.4 * r:.1f}Z"
    return f"M{x - r:.1f},{y - r:.1f}l{2 * r:.1f},{2 * r:.1f}m0,{-2 * r:.1f}l{-2 * r:.1f},{2 * r:.1f}"


def variables(page: dict[str, str], series: tuple[str, ...]) -> str:
    """Return the colours as CSS variables."""
    named = {**page, **{f"s{slot}": colour for slot, colour in enumerate(series)}}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())

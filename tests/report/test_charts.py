"""Plots: values where they belong, whatever they are; colours that everybody can tell from the page."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import words

from fedsdg.report.charts.axes import Axis, Scale, scale_for, tick_text
from fedsdg.report.charts.bar_chart import Bar, BarChart
from fedsdg.report.charts.dot_chart import Dot, DotChart, DotLine
from fedsdg.report.charts.line_chart import Level, LineChart, Moment, Point, Series, thinned
from fedsdg.report.charts.palette import DARK_PAGE, DARK_SERIES, LIGHT_PAGE, LIGHT_SERIES
from fedsdg.report.charts.svg import clean, width_of
from fedsdg.report.quantities import byte_unit, plain, time_unit

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)
ERRORS = st.none() | st.floats(0, 1e6, allow_nan=False)
NAMES = st.text(st.characters(), max_size=60)


def parse(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def places(drawing: ElementTree.Element) -> list[tuple[str, float]]:
    """Return every coordinate that is given as an attribute."""
    found = []
    for element in drawing.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2"):
            if name in element.attrib:
                found.append((name[0], float(element.attrib[name])))
    return found


def inside(drawing: ElementTree.Element) -> bool:
    _, _, width, height = map(float, drawing.attrib["viewBox"].split())
    return all(0 <= value <= (width if name == "x" else height) for name, value in places(drawing))


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, ERRORS), min_size=1, max_size=40), NAMES, NAMES, st.booleans(), st.booleans()
)
def test_any_points_and_any_names_make_a_drawing_inside_its_frame(values, name, label, log, band):
    points = tuple(Point(*value) for value in values)
    chart = LineChart(
        Axis(label, log=log),
        Axis(label),
        (Series(name, points, 0, band=band), Series("other", points[:1], 3)),
        levels=(Level(name, values[0][1]),),
        moments=(Moment(name, abs(values[0][0]) + 1),),
        backdrop=(tuple((p.x, p.y) for p in points),),
        backdrop_name=name,
    )
    drawing = parse(chart.svg(name, label, "figure"))
    assert inside(drawing)
    assert chart.numbers(name).rows


@given(st.lists(st.tuples(NAMES, NUMBERS, st.floats(0, 1e6), st.none() | NUMBERS), min_size=1, max_size=25), NUMBERS)
def test_any_bars_make_a_drawing_inside_its_frame(values, limit):
    bars = tuple(Bar(name, value, error, published=published) for name, value, error, published in values)
    chart = BarChart(Axis("value"), bars, limit=("limit", limit))
    assert inside(parse(chart.svg("title", "description", "figure")))
    assert len(chart.numbers("t").rows) == len(bars) + 1


DOTS = st.none() | st.builds(Dot, NUMBERS | st.just(math.nan), st.floats(0, 1e6), NAMES)


@given(st.lists(st.tuples(NAMES, st.tuples(DOTS, DOTS)), min_size=1, max_size=25))
def test_any_dots_make_a_drawing_inside_its_frame(values):
    chart = DotChart(Axis("value"), ("one", "other"), tuple(DotLine(name, "text", dots) for name, dots in values))
    drawing = parse(chart.svg("title", "description", "figure"))
    assert inside(drawing)
    drawn = sum(dot is not None and math.isfinite(dot.value) for _, dots in values for dot in dots)
    assert len([e for e in drawing.iter() if e.get("class", "").startswith("marker")]) == drawn + 2  # the legend's
    assert len(chart.numbers("t").rows) == len(values)


def test_dots_of_a_line_never_cover_each_other_and_need_no_zero():
    dots = (Dot(98.5, 0.4), Dot(98.5, 0.4, "group lasso"), None)
    chart = DotChart(Axis("accuracy (%)"), ("ours", "best rival", "all"), (DotLine("A", "98.5", dots),))
    drawing = chart.svg("t", "d", "f")
    marks = [e.get("d") for e in parse(drawing).iter() if e.get("class", "").startswith("marker")][3:]
    heights = [float(re.match(r"M[\d.]+,([\d.]+)", mark)[1]) for mark in marks]
    assert len(marks) == 2
    assert abs(heights[0] - heights[1]) > 4
    assert not {e.text for e in parse(drawing).iter() if e.get("class") == "tick middle"} & {"0", "50"}
    assert chart.numbers("t").rows == (("A", "98.5 ± 0.4", "98.5 ± 0.4 (group lasso)", "-"),)


@given(NAMES, st.text("0123456789 ±.%abcM", max_size=36))
def test_the_name_of_a_bar_ends_before_its_value_or_has_a_line_of_its_own(name, value):
    drawing = parse(BarChart(Axis("value"), (Bar(name, 1.0, text=value), Bar("next", 1.0))).svg("t", "d", "f"))
    named, valued, following, _ = (e for e in drawing.iter() if e.get("class", "").startswith("name"))
    assert float(following.get("y")) - float(valued.get("y")) >= 30
    if named.get("y") == valued.get("y"):
        end = float(named.get("x")) + width_of(named.text or "", 11.5)
        assert end < float(valued.get("x")) - width_of(valued.text or "", 11.5)
    else:
        assert float(valued.get("y")) - float(named.get("y")) >= 13


@given(NUMBERS, NUMBERS, st.booleans())
def test_a_scale_has_round_ticks_inside_and_keeps_the_order(one, other, log):
    low, high = sorted((abs(one) + 1e-6, abs(other) + 1e-3))
    scale = scale_for(Axis("x", log=log), [low, high], 10, 110)
    assert 10 <= scale.at(low) <= scale.at(high) <= 110
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 13
    assert all(scale.low * 0.999 <= tick <= scale.high * 1.001 for tick in ticks)


def test_a_tick_stands_at_its_value():
    scale = Scale(0, 100, 0, 200)
    assert scale.at(25) == 50
    assert scale.ticks() == [0, 20, 40, 60, 80, 100]
    assert Scale(1, 1000, 0, 300, log=True).at(10) == pytest.approx(100)
    assert Scale(1, 1000, 0, 300, log=True).ticks() == [1, 10, 100, 1000]


def test_ticks_are_short():
    assert [tick_text(v) for v in (0, 0.25, 1500, 20_000, 3_500_000, 2e9)] == [
        "0",
        "0.25",
        "1,500",
        "20k",
        "3.5M",
        "2G",
    ]


def test_an_error_bar_reaches_from_below_to_above_its_point():
    chart = LineChart(Axis("x"), Axis("y"), (Series("s", (Point(1, 10, 2), Point(2, 20, 2)), 0),))
    drawing = parse(chart.svg("t", "d", "f"))
    (first, _) = [e for e in drawing.iter() if e.get("class") == "whisker s0"]
    top, bottom = (float(v) for v in re.search(r"h6M[\d.]+,([\d.]+)V([\d.]+)M", first.get("d")).groups())
    markers = [e for e in drawing.iter() if e.get("class") == "marker s0"]
    centre = float(re.match(r"M[\d.]+,([\d.]+)", markers[0].get("d"))[1])
    assert top < centre < bottom
    assert centre - top == pytest.approx(bottom - centre, abs=0.2)


def test_bars_begin_at_zero():
    chart = BarChart(Axis("accuracy (%)", within=(0, 100)), (Bar("a", 50.0), Bar("b", 25.0)))
    drawing = parse(chart.svg("t", "d", "f"))
    first, second = (e for e in drawing.iter() if e.get("class") == "bar")
    assert first.get("x") == second.get("x")
    assert float(first.get("width")) == pytest.approx(2 * float(second.get("width")), abs=0.2)


def test_a_plot_names_both_axes_and_every_series():
    chart = LineChart(
        Axis("step"), Axis("bytes (MB)"), (Series("a", (Point(1, 2),), 0), Series("b", (Point(2, 3),), 1))
    )
    assert {"step", "bytes (MB)", "a", "b"} <= set(words(parse(chart.svg("t", "d", "f"))))


def test_series_differ_in_dash_and_shape_and_not_only_in_colour():
    series = tuple(Series(str(n), (Point(0, n), Point(1, n)), n) for n in range(6))
    drawing = parse(LineChart(Axis("x"), Axis("y"), series).svg("t", "d", "f"))
    dashes = {e.get("stroke-dasharray") for e in drawing.iter() if "line s" in e.get("class", "")}
    shapes = {
        re.sub(r"^M[\d.]+,[\d.]+", "", e.get("d")) for e in drawing.iter() if e.get("class", "").startswith("marker")
    }
    assert len(dashes) == 6
    assert len(shapes) == 6


def test_a_long_line_is_thinned_and_keeps_its_ends():
    kept = thinned(range(10_000), 100)
    assert len(kept) == 100
    assert (kept[0], kept[-1]) == (0, 9_999)


def test_text_is_escaped_and_impossible_characters_are_replaced():
    assert clean("<a href='x'>&\x00") == "&lt;a href=&#x27;x&#x27;&gt;&amp;\N{REPLACEMENT CHARACTER}"


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("page", "series"), [(LIGHT_PAGE, LIGHT_SERIES), (DARK_PAGE, DARK_SERIES)])
def test_every_colour_can_be_told_from_the_page(page, series):
    assert all(contrast(colour, page["page"]) >= 3 for colour in (*series, page["muted"]))
    for name in ("text", "quiet", "accent"):
        assert contrast(page[name], page["page"]) >= 4.5
        assert contrast(page[name], page["panel"]) >= 4.5
    assert contrast(page["warn"], page["warn-panel"]) >= 4.5


def seen_without(cone: str, colour: str) -> tuple[float, ...]:
    """Return a colour as somebody sees it who lacks a kind of cones (Viénot, Brettel and Mollon, 1999)."""
    r, g, b = (((int(colour[i : i + 2], 16) / 255) ** 2.2) for i in (1, 3, 5))
    if cone == "red":
        return 0.1124 * r + 0.8876 * g, 0.1124 * r + 0.8876 * g, 0.004 * r - 0.004 * g + b
    return 0.2927 * r + 0.7073 * g, 0.2927 * r + 0.7073 * g, -0.0223 * r + 0.0223 * g + b


@pytest.mark.parametrize("series", [LIGHT_SERIES, DARK_SERIES])
@pytest.mark.parametrize("cone", ["red", "green"])
def test_the_first_colours_differ_for_people_who_see_colours_differently(cone, series):
    found = [seen_without(cone, colour) for colour in series[:4]]
    assert all(math.dist(a, b) > 0.08 for i, a in enumerate(found) for b in found[:i])


def test_units_fit_the_largest_value():
    assert byte_unit(2_500_000) == (1e6, "MB")
    assert byte_unit(10) == (1.0, "B")
    assert time_unit(50) == (1.0, "s")
    assert time_unit(600) == (60.0, "min")
    assert time_unit(9000) == (3600.0, "h")
    assert plain(float("nan")) == "-"
    assert plain(1234567) == "1,234,567"

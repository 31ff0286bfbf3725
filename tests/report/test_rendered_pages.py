"""Pages in a real browser: nothing goes wrong, nothing is asked for, and everything can be seen on every screen."""

from __future__ import annotations

import pytest
from report_helpers import EVIL, make_experiment, make_rows

from fedsdg.experiments.catalogue import EXPERIMENTS
from fedsdg.report.build import build_page, write_report
from fedsdg.report.document import Gallery
from fedsdg.report.pictures import alone

SCREENS = {"desktop": (1280, 900), "phone": (390, 844), "small phone": (320, 640)}
PAGE_COLOURS = {False: "rgb(255, 255, 255)", True: "rgb(18, 20, 23)"}


@pytest.fixture(scope="module")
def pages(masked, plain, tmp_path_factory):
    """A run, a client's part, several runs, and experiments."""
    folder = tmp_path_factory.mktemp("pages")
    # A surrogate has the longest name of all, and the chart of all data sets has the longest values.
    rows = [row for of in ("MADELON", "FRIEDMAN", "GISETTE_SURROGATE") for row in make_rows("accuracy", of)]
    headline = make_experiment(folder / "accuracy", "accuracy", rows)
    others = [make_experiment(folder / n, n) for n in ("precision", "stability", "security_cost", "clients", "overlap")]
    wanted = {
        "run": [masked[0]],
        "client": [masked[0] / "clients" / "left"],
        "server": [masked[0] / "server"],
        "runs": [masked[0], plain[0]],
        "experiment": [headline],
        "experiments": others,
        "every experiment": [make_experiment(folder / "every" / n, n) for n in EXPERIMENTS],
    }
    for name, folders in wanted.items():
        write_report(folders, folder / f"{name}.html")
    first = next(item for item in build_page([headline]).sections[0].blocks if isinstance(item, Gallery)).items[0]
    (folder / "picture.svg").write_text(alone(first))
    return {name: folder / f"{name}.html" for name in wanted} | {"picture": folder / "picture.svg"}


NAMES = ("run", "client", "server", "runs", "experiment", "experiments")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_quiet_loads_nothing_and_fits_the_screen(name, screen, dark, pages, browser):
    width, height = SCREENS[screen]
    seen = browser.show(pages[name], width, height, dark)
    assert browser.value("getComputedStyle(document.body).backgroundColor") == PAGE_COLOURS[dark]
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("innerWidth") == width  # a phone has not zoomed out to make something fit
    assert browser.value("document.scripts.length") == 0
    assert seen.complaints == []
    assert seen.requests == [pages[name].as_uri()]


@pytest.mark.parametrize("screen", SCREENS)
def test_plots_and_their_words_are_visible_and_large_enough_to_read(screen, pages, browser):
    width, height = SCREENS[screen]
    browser.show(pages["run"], width, height)
    boxes = browser.value(
        "[...document.querySelectorAll('svg.chart')].map(s => { const b = s.getBoundingClientRect();"
        " return [b.left, b.right, b.width, b.height]; })"
    )
    assert len(boxes) == 7
    for left, right, wide, high in boxes:
        assert 0 <= left < right <= width
        assert wide > 250
        assert high > 150
    smallest = browser.value(
        "Math.min(...[...document.querySelectorAll('svg.chart text')].map(t =>"
        " parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"
    )
    assert smallest >= (9 if screen != "small phone" else 7.5)


@pytest.mark.parametrize("name", ["run", "experiment", "experiments"])
def test_no_text_of_a_plot_is_cut_off_at_its_edge(name, pages, browser):
    browser.show(pages[name], *SCREENS["desktop"])
    cut = browser.value(
        "[...document.querySelectorAll('svg.chart')].flatMap(s => { const f = s.getBoundingClientRect();"
        " return [...s.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect();"
        " return b.left < f.left - 1 || b.right > f.right + 1 || b.bottom > f.bottom + 1 })"
        ".map(t => t.textContent); })"
    )
    assert cut == []


#: Pairs of texts that lie on each other. A text's box is higher than its letters: a fifth of it may be shared.
OVERLAPS = """
[...document.querySelectorAll('svg.chart')].flatMap(s => {
  const texts = [...s.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([other, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.2 * Math.min(a.height, b.height)
  ).map(([other, b]) => one + ' | ' + other));
})
"""


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["run", "client", "experiment", "every experiment", "picture"])
def test_no_text_of_a_plot_lies_on_another(name, screen, pages, browser):
    browser.show(pages[name], *SCREENS[screen])
    if name in ("experiment", "picture"):
        assert "(surrogate, not GISETTE)" in browser.value("document.querySelector('svg.chart').textContent")
    assert browser.value(OVERLAPS) == []


def test_texts_that_lie_on_each_other_are_noticed(pages, browser):
    browser.show(pages["picture"], *SCREENS["phone"])
    browser.value(
        "(() => { const [name, value] = [...document.querySelectorAll('text.name')].slice(-2);"
        " name.setAttribute('y', value.getAttribute('y')); })()"  # as both were drawn once
    )
    assert len(browser.value(OVERLAPS)) == 1


def test_the_bars_of_a_plot_are_drawn_in_their_colours_in_light_and_dark(pages, browser):
    colours = set()
    for dark in (False, True):
        browser.show(pages["experiment"], *SCREENS["desktop"], dark)
        colours.add(browser.value("getComputedStyle(document.querySelector('.bar.s0')).fill"))
    assert colours == {"rgb(11, 98, 168)", "rgb(109, 182, 255)"}


def test_a_column_called_like_a_script_is_shown_as_it_is_called(pages, browser):
    browser.show(pages["client"], *SCREENS["phone"])
    cells = browser.value("[...document.querySelectorAll('td.name')].map(c => c.textContent)")
    assert EVIL in cells


def test_a_screen_reader_hears_what_each_plot_shows(pages, browser):
    browser.show(pages["run"], *SCREENS["desktop"])
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    heard = [
        (node["name"]["value"], node["role"]["value"])
        for node in nodes
        if node.get("role", {}).get("value") in ("img", "image") and node.get("name", {}).get("value")
    ]
    assert len(heard) == 7
    assert any(name.startswith("Gate paths of left") and "gates were selected" in name for name, _ in heard)
    levels = browser.value("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_the_table_behind_a_plot_opens_without_a_script(pages, browser):
    browser.show(pages["experiment"], *SCREENS["phone"])
    assert browser.value("document.querySelector('figure table').checkVisibility()") is False
    browser.value("document.querySelector('figure summary').click()")
    assert browser.value("document.querySelector('figure table').checkVisibility()") is True
    assert browser.value("document.documentElement.scrollWidth") <= 390

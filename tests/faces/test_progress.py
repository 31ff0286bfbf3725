"""A long run shows phase, batch, remaining time, loss, open gates and bytes: on a terminal, in a log, as JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from fedsdg.cli.progress import LiveProgress, duration, json_lines, plain_lines, size
from fedsdg.simulation import Update


def updates():
    yield Update("gini", 0, 1, None, None, None, None, 1_000, 0.0)
    for step in range(1, 121):
        open_features = 450 if step % 25 == 0 else None
        yield Update("gated", step, 250, 0.6931, open_features, 16, None, 123_400_000 + step, step * 0.1)
    for step in range(1, 601):
        yield Update("compact", step, 600, 0.25, None, 16, None, 987_600_000 + step, 12 + step * 0.1)


def shown(width, feed, *, fail=False):
    """Return what a terminal of that width shows, without the control characters."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=20, color_system=None)
    try:
        with LiveProgress(console) as watch:
            for update in feed:
                watch(update)
            if fail:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    return console.file.getvalue().split("\x1b[2K")[-1]


@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_shows_everything_on_one_line_per_phase(width):
    lines = [line.strip() for line in shown(width, updates()).splitlines() if "loss" in line]
    gated = next(line for line in lines if line.startswith("gated"))
    compact = next(line for line in lines if line.startswith("compact"))
    assert "loss 0.693, 450 features, 16 dims, 123.4 MB" in gated
    assert "loss 0.250, 16 dims, 987.6 MB" in compact
    assert "600/600" in compact
    assert "…" not in gated + compact
    assert all(len(line) <= width for line in lines)


def test_a_phase_that_ended_early_is_shown_as_finished():
    gated = next(line for line in shown(120, updates()).splitlines() if line.startswith("gated"))
    assert "120/120" in gated


def test_a_running_phase_shows_its_steps_and_the_remaining_time():
    feed = list(updates())[:60]
    screen = shown(80, feed, fail=True)
    gated = next(line for line in screen.splitlines() if line.startswith("gated"))
    assert " 59/250 " in gated
    assert "00:" in gated or "--:--" in gated


def test_every_json_line_is_valid_json_even_if_a_loss_is_not_a_number(capsys):
    for update in updates():
        json_lines(update)
    json_lines(Update("gated", 1, 2, float("nan"), None, 3, float("inf"), 0, 0.5))
    lines = [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 722
    assert lines[-1]["loss"] is None
    assert set(lines[0]) == set(Update.__dataclass_fields__)


def test_a_log_gets_a_line_now_and_then_and_the_last_one(capsys):
    show = plain_lines(50)
    for update in updates():
        show(update)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("gated 50/250 loss 0.693 123.4 MB")
    assert lines[-1].startswith("compact 600/600")
    assert len(lines) == 2 + 12


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e6, "2.5 MB"), (3e12, "3000.0 GB")]
)
def test_bytes_are_shown_in_words(count, text):
    assert size(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (99, "99.0 s"), (150, "2.5 min"), (9000, "2.5 h")])
def test_seconds_are_shown_in_words(seconds, text):
    assert duration(seconds) == text

"""Folders that were edited, cut off or filled with nonsense: a right page or one clear line, and no old page lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_helpers import Tags, drawings, make_experiment, make_rows
from safetensors.numpy import save

from fedsdg.errors import ConfigError, FedSDGError, StateFileError
from fedsdg.report import html
from fedsdg.report.build import build_page, write_report
from fedsdg.report.charts.axes import Axis, scale_for

SCRIPT = "<script>alert(1)</script>"
NONSENSE = (
    *(None, True, -1, 0.5, 1e308, -1e308, 1e-320, 10**30, 10**400, float("nan"), float("inf")),
    *("x", SCRIPT, "|a\n\n|b|", "\x00", "\ud800", "long" * 5000, [], {}, [[[1]]], [None], {"a": 1}),
)
BROKEN_FILES = (b"", b"{", b"[1]", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 6000)
NOT_ALLOWED = {"script", "img", "iframe", "object", "embed", "form", "input", "base"}


def leaves(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything in a JSON document; of a list, of its first two entries."""
    inner = content.items() if isinstance(content, dict) else list(enumerate(content))[:2]
    for key, value in inner:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def changed(content: Any, path: tuple[Any, ...], *value: Any) -> bytes:
    """Return a document with something else at a place, or with nothing there."""
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    if value and isinstance(inner, list):
        inner.insert(path[-1], value[0])
    elif value:
        inner[path[-1]] = value[0]
    return json.dumps(copy).encode()


def nonsense(file: Path) -> Iterator[bytes]:
    """Yield a file with every part of its first document dropped, and with nonsense in its place."""
    whole = file.read_bytes()
    first, rest = (whole, b"") if file.suffix == ".json" else whole.split(b"\n", 1)
    content, others = json.loads(first), cycle(NONSENSE)
    for path in leaves(content):
        yield changed(content, path) + b"\n" + rest
        for _ in range(3):
            yield changed(content, path, next(others)) + b"\n" + rest


def told_or_right(folder: Path) -> None:
    """Check that a folder is refused in words of ours that name it, or becomes a page without foreign markup."""
    page, refusal = "", ""
    try:
        page = html.render(build_page([folder]))
    except FedSDGError as problem:
        refusal = str(problem)
    assert page or str(folder) in refusal
    assert not NOT_ALLOWED & {tag for tag, _ in Tags(page).tags}
    page.encode()
    for drawing in drawings(page):
        for element in drawing.iter():
            for name, value in element.attrib.items():
                assert name in ("id", "class", "aria-labelledby") or not {"nan", "inf"} & set(value.split(","))


@pytest.mark.parametrize(
    ("part", "file"),
    [
        ("", "selection.json"),
        ("", "metrics.jsonl"),
        ("server", "model.json"),
        ("clients/left", "selection.json"),
        ("clients/left", "model.json"),
    ],
)
def test_no_field_of_a_run_can_break_a_report(part, file, plain, tmp_path):
    folder = Path(shutil.copytree(plain[0] / part, tmp_path / "copied"))
    for content in nonsense(folder / file):
        (folder / file).write_bytes(content)
        told_or_right(folder)


@pytest.mark.parametrize("name", ["accuracy", "stability", "communication"])
@pytest.mark.parametrize("file", ["experiment.json", "results.jsonl"])
def test_no_field_of_an_experiment_can_break_a_report(file, name, tmp_path):
    folder = make_experiment(tmp_path / "copied", name, make_rows(name, folds=2)[:6])
    for content in nonsense(folder / file):
        (folder / file).write_bytes(content)
        told_or_right(folder)


@pytest.mark.parametrize(
    "file",
    ["selection.json", "settings.json", "metrics.jsonl", "server/model.json", "clients/left/gate_path.safetensors"],
)
def test_a_file_that_is_none_of_ours_is_named(file, plain, tmp_path):
    folder = Path(shutil.copytree(plain[0], tmp_path / "copied"))
    for content in BROKEN_FILES:
        if content or not file.endswith("jsonl"):
            (folder / file).write_bytes(content)
            with pytest.raises(FedSDGError, match=file):
                build_page([folder])
    (folder / file).unlink()
    (folder / file).mkdir()
    with pytest.raises(FedSDGError, match=r"not finished|Is a directory|it is no file|neither a finished run"):
        build_page([folder])


def test_a_wrong_field_is_told_with_file_line_field_and_what_to_do(plain, tmp_path):
    folder = Path(shutil.copytree(plain[0], tmp_path / "copied"))
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join([lines[0], '{"phase": "gated", "step": -4}']))
    with pytest.raises(
        StateFileError, match=r"metrics\.jsonl: line 2 is not a training step \(step: .*repair or remove"
    ):
        build_page([folder])
    record = make_experiment(tmp_path / "e", "accuracy")
    (record / "experiment.json").write_text('{"name": "accuracy"}')
    with pytest.raises(StateFileError, match=r"experiment\.json is damaged \(question: Field required\); put back"):
        build_page([record])


@pytest.mark.parametrize(
    ("steps", "means", "reason"),
    [
        ([5, 10], [[0.1] * 3, [np.nan] * 3], "a gate is no number"),
        ([5, 10], [[0.1] * 3, [np.inf] * 3], "a gate is no number"),
        ([10, 5], [[0.1] * 3] * 2, "steps do not follow"),
        ([-1, 5], [[0.1] * 3] * 2, "steps do not follow"),
        ([5], [[0.1] * 4], "does not fit its selection"),
        ([5, 10], [[0.1] * 3], "damaged"),
    ],
)
@pytest.mark.parametrize("part", ["", "clients/left"])
def test_gates_that_cannot_have_been_are_refused(part, steps, means, reason, plain, tmp_path):
    folder = Path(shutil.copytree(plain[0] / part, tmp_path / "copied"))
    (file,) = folder.rglob("left/gate_path.safetensors") if not part else [folder / "gate_path.safetensors"]
    file.write_bytes(save({"steps": np.array(steps), "means": np.array(means, np.float32)}))
    with pytest.raises(StateFileError, match=rf"gate_path\.safetensors.*{reason}"):
        build_page([folder])


@pytest.mark.parametrize("name", ["../right", "/etc", "..", "a\nb"])
def test_a_clients_name_leads_nowhere_but_into_the_run(name, plain, tmp_path):
    folder = Path(shutil.copytree(plain[0], tmp_path / "copied"))
    result = json.loads((folder / "selection.json").read_text())
    result["clients"] = {name: result["clients"]["left"]}
    (folder / "selection.json").write_text(json.dumps(result))
    with pytest.raises(StateFileError, match="no name of a folder"):
        build_page([folder])


def test_numbers_that_could_not_be_computed_are_dashes(plain, tmp_path):
    folder = Path(shutil.copytree(plain[0], tmp_path / "copied"))
    result = json.loads((folder / "selection.json").read_text())
    result["metrics"]["test_standard_error"] = result["truth"]["precision"] = None
    result["clients"]["left"]["gini"] = dict.fromkeys(result["clients"]["left"]["gini"])
    (folder / "selection.json").write_text(json.dumps(result))
    text = Tags(html.render(build_page([folder]))).text
    assert "precision\n-\n" in text
    assert "±" not in text.split("test accuracy")[1].split("validation accuracy")[0]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_that_fails_leaves_older_ones_as_they_were(plain, tmp_path):
    folder, out = Path(shutil.copytree(plain[0], tmp_path / "run")), tmp_path / "out"
    out.mkdir()
    everything = (out / "page.html", out / "page.md", out / "figures")
    write_report([folder], *everything)
    before = files_of(out)
    (folder / "metrics.jsonl").write_text("{")
    with pytest.raises(StateFileError):
        write_report([plain[0], folder], *everything)
    assert files_of(out) == before


def test_nothing_is_written_before_everything_is_drawn(plain, tmp_path, monkeypatch):
    def fails(*arguments: object) -> str:
        raise StateFileError("cannot be drawn")

    monkeypatch.setattr("fedsdg.report.markdown.render", fails)
    with pytest.raises(StateFileError):
        write_report([plain[0]], tmp_path / "page.html", tmp_path / "page.md", tmp_path / "figures")
    assert list(tmp_path.iterdir()) == []


def test_a_report_never_takes_the_place_of_what_it_reports(plain, tmp_path):
    folder = Path(shutil.copytree(plain[0], tmp_path / "run"))
    before = files_of(folder)
    with pytest.raises(ConfigError, match="belongs to what is reported"):
        write_report([folder], folder / "selection.json")
    with pytest.raises(ConfigError, match="is a folder"):
        write_report([folder], folder / "plots", None, folder / "plots")
    assert files_of(folder) == before


def test_a_name_that_is_no_text_can_be_reported(plain, tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    shutil.copytree(plain[0], folder)
    write_report([folder], tmp_path / "page.html", folder / "page.md", tmp_path / os.fsdecode(b"pl\xe9ts"))
    assert "Run caf\N{REPLACEMENT CHARACTER}" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "/pl%E9ts/01-" in (folder / "page.md").read_text(encoding="utf-8")


def test_a_path_that_the_system_refuses_is_told(tmp_path):
    with pytest.raises(ConfigError, match="File name too long"):
        write_report([tmp_path / ("n" * 400)], tmp_path / "page.html")
    with pytest.raises(ConfigError, match="File name too long"):
        write_report([tmp_path], tmp_path / ("n" * 400))


@pytest.mark.parametrize("values", [[0.0, 5e-324], [1e-320] * 2, [1.0, 1.0 + 1e-15], [1e30, -1e30], [0.0], []])
def test_every_axis_has_a_few_ticks_in_its_range(values):
    for axis in (Axis("a"), Axis("a", zero=True), Axis("a", log=True), Axis("a", within=(0.0, 100.0))):
        scale = scale_for(axis, values, 0, 100)
        assert len(scale.ticks()) < 12
        assert all(0 <= scale.at(tick) <= 100 for tick in (*scale.ticks(), *values))

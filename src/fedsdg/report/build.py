"""From folders to a page, and from a page to files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedsdg.errors import ConfigError
from fedsdg.experiments.recorded import told_if_unusable
from fedsdg.experiments.results import CUT_OFF
from fedsdg.report import html, markdown
from fedsdg.report.document import Block, Page
from fedsdg.report.experiment_record import read_experiment
from fedsdg.report.experiment_section import experiment_section
from fedsdg.report.folders import kind_of
from fedsdg.report.pictures import alone, make_folder, places
from fedsdg.report.run_record import RunRecord, read_run
from fedsdg.report.run_section import overview, run_section
from fedsdg.state_files import damaged_if_unreadable, write_atomically

#: What a run or an experiment keeps its own files in.
OWN_FILES = (".json", ".jsonl", CUT_OFF, ".safetensors", ".state", ".toml")


def build_page(folders: Sequence[Path]) -> Page:
    """Return the report of some folders: a section each, and an overview of several runs."""
    if not folders:
        raise ConfigError("A report needs at least one folder of a run or of an experiment.")
    sections, runs = [], list[RunRecord]()
    for folder in folders:
        with _told_if_closed(folder), damaged_if_unreadable(folder):
            kind = kind_of(folder)
            if kind == "experiment":
                with told_if_unusable(folder):
                    sections.append(experiment_section(read_experiment(folder)))
            else:
                runs.append(read_run(folder, kind))
                sections.append(run_section(runs[-1]))
    foreword: tuple[Block, ...] = (overview(runs),) if len(runs) > 1 else ()
    title = sections[0].title if len(sections) == 1 else "Report"
    lead = "A report of fedsdg: feature selection and training in vertical federated learning."
    return Page(title, lead, tuple(sections), foreword)


def write_report(
    folders: Sequence[Path],
    html_file: Path | None = None,
    markdown_file: Path | None = None,
    figures: Path | None = None,
) -> None:
    """Write the report of some folders; a file appears whole or not at all, readable by its owner only.

    With `figures`, every plot is written into that folder as an SVG file, and the Markdown shows it. Nothing is written
    before everything is drawn: a report that fails leaves an older one as it was.
    """
    files = [path for path in (html_file, markdown_file) if path is not None]
    if not files and figures is None:
        raise ConfigError("Say where the report goes: --html FILE, --markdown FILE, --figures FOLDER.")
    if html_file is not None and markdown_file is not None and html_file.resolve() == markdown_file.resolve():
        raise ConfigError("--html and --markdown name the same file.")
    for path in files:
        with _told_if_closed(path):
            _refuse_unusable(path, folders, figures)
    page = build_page(folders)
    pictures = places(page, figures) if figures is not None else {}
    drawn = {path: alone(figure) for figure, path in pictures.items()}
    if html_file is not None:
        drawn[html_file] = html.render(page)
    if markdown_file is not None:
        here = markdown_file.resolve().parent
        links = {figure: Path(os.path.relpath(path.resolve(), here)).as_posix() for figure, path in pictures.items()}
        drawn[markdown_file] = markdown.render(page, links)
    for path in drawn:
        _refuse_special(path)
    if figures is not None:
        make_folder(figures)
    for path, text in drawn.items():
        write_atomically(path, text.encode())


def _refuse_unusable(path: Path, folders: Sequence[Path], figures: Path | None) -> None:
    place = path.resolve()
    if path.is_dir() or (figures is not None and figures.resolve() == place):
        raise ConfigError(f"{path} is a folder; the report is a file.")
    _refuse_special(path)
    if not place.parent.is_dir():
        raise ConfigError(f"There is no folder {place.parent} to write {path.name} to.")
    inside = any(place.is_relative_to(folder.resolve()) for folder in folders)
    if inside and path.exists() and path.suffix in OWN_FILES:
        raise ConfigError(f"{path} belongs to what is reported; give the report another name.")


def _refuse_special(path: Path) -> None:
    """Refuse a link, a device or a pipe: a report takes the place of what is there, and theirs is nobody's to take."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise ConfigError(f"{path} is there and is no regular file (a link, a device, a pipe); name another file.")


@contextmanager
def _told_if_closed(path: Path) -> Iterator[None]:
    """Say so in one line when the system does not even let us look at a path."""
    try:
        yield
    except OSError as problem:
        raise ConfigError(f"Cannot read {path}: {problem.strerror or problem}.") from None

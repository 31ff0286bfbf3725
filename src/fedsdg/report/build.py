"""From folders to a page, and from a page to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedsdg.errors import ConfigError
from fedsdg.report import html, markdown
from fedsdg.report.document import Block, Page
from fedsdg.report.experiment_record import read_experiment
from fedsdg.report.experiment_section import experiment_section
from fedsdg.report.folders import kind_of
from fedsdg.report.pictures import write_pictures
from fedsdg.report.run_record import RunRecord, read_run
from fedsdg.report.run_section import overview, run_section
from fedsdg.state_files import damaged_if_unreadable, write_atomically


def build_page(folders: Sequence[Path]) -> Page:
    """Return the report of some folders: a section each, and an overview of several runs."""
    if not folders:
        raise ConfigError("A report needs at least one folder of a run or of an experiment.")
    sections, runs = [], list[RunRecord]()
    for folder in folders:
        kind = kind_of(folder)
        with damaged_if_unreadable(folder):
            if kind == "experiment":
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

    With `figures`, every plot is written into that folder as an SVG file, and the Markdown shows it.
    """
    files = [path for path in (html_file, markdown_file) if path is not None]
    if not files and figures is None:
        raise ConfigError("Say where the report goes: --html FILE, --markdown FILE, --figures FOLDER.")
    if html_file is not None and markdown_file is not None and html_file.resolve() == markdown_file.resolve():
        raise ConfigError("--html and --markdown name the same file.")
    for path in files:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder; the report is a file.")
        if not path.resolve().parent.is_dir():
            raise ConfigError(f"There is no folder {path.resolve().parent} to write {path.name} to.")
    page = build_page(folders)
    pictures = write_pictures(page, figures) if figures is not None else {}
    if html_file is not None:
        write_atomically(html_file, html.render(page).encode())
    if markdown_file is not None:
        here = markdown_file.resolve().parent
        links = {figure: Path(os.path.relpath(path.resolve(), here)).as_posix() for figure, path in pictures.items()}
        write_atomically(markdown_file, markdown.render(page, links).encode())

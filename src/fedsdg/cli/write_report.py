"""`fedsdg report`: a page about finished runs and experiments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fedsdg.report.build import write_report


def report(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of finished runs, of one party's part of a run, or of experiments.")
    ],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained HTML page.", metavar="FILE")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown.", metavar="FILE")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Write each plot as an SVG file; Markdown shows it.", metavar="FOLDER")
    ] = None,
) -> None:
    """Write a page with plots: selection, gates, scores, cost and leakage of a run; the figures of an experiment."""
    write_report(folders, html, markdown, figures)
    for path in (html, markdown, figures):
        if path is not None:
            print(f"written: {os.fsencode(path).decode(errors='replace')}")

"""One experiment as a section of a page: the figure that answers its question, then its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fedsdg.report.document import Block, Fact, Facts, Folded, Gallery, Paragraph, Section, Table
from fedsdg.report.experiment_record import ExperimentRecord
from fedsdg.report.figures.catalogue import figures_of
from fedsdg.report.markdown_tables import blocks_of

SURROGATE = "GISETTE_SURROGATE is made from MNIST's fours and nines in place of GISETTE: it is not the genuine set."


def experiment_section(record: ExperimentRecord) -> Section:
    """Return what there is to say about an experiment."""
    rows, about = record.rows, record.about
    blocks: list[Block] = [Facts(tuple(_facts(record)))]
    if record.failures:
        blocks.append(Paragraph(f"{record.failures} tasks failed and are missing here; failures.jsonl says why."))
    if any(row.get("surrogate") for row in rows):
        blocks.append(
            Paragraph(
                "GISETTE_SURROGATE is made from MNIST's fours and nines in place of GISETTE: it is not the genuine set."
            )
        )
    figures = figures_of(record.experiment.name, rows)
    if figures:
        blocks.append(Gallery(figures))
    blocks += blocks_of(record.experiment.page(rows), record.experiment.question)
    blocks += _details(record)
    return Section(f"{about['name']}: {record.experiment.question}", f"Experiment in {record.folder}", tuple(blocks))


def _facts(record: ExperimentRecord) -> Iterator[Fact]:
    rows, about = record.rows, record.about
    sets = dict.fromkeys(row["dataset"] for row in rows)
    yield Fact("data sets", str(len(sets)), ", ".join(sets))
    yield Fact("methods", str(len({row["method"] for row in rows})))
    cells = {(row["seed"], row["fold"]) for row in rows}
    folds, seeds = int(about["folds"]), max(int(about["seeds"]), len({row["seed"] for row in rows}))
    wanted = "" if len(cells) >= folds * seeds else f" of {folds * seeds}: not finished"
    yield Fact("cells", f"{len(cells)}{wanted}", f"folds: {folds}, seeds: {seeds}")
    lines = Counter((row["dataset"], row["method"]) for row in rows)
    fewer = sum(count < len(cells) for count in lines.values())
    if fewer:
        yield Fact("not finished", f"{fewer} of {len(lines)}", "methods on a data set that lack some of these cells")
    yield Fact("rows", f"{len(rows):,}", f"preset {about.get('preset', '?')}")


def _details(record: ExperimentRecord) -> Iterator[Block]:
    about = record.about
    commits = sorted({str(row.get("commit") or "unknown") for row in record.rows})
    lines = [
        ("started", str(about.get("started") or "unknown")),
        ("settings", str(about["config_hash"])),
        *(("commit", commit) for commit in commits),
        *((f"version of {name}", str(version)) for name, version in dict(about.get("versions") or {}).items()),
        *(
            (f"source of {name}", f"{source.get('source', '')} {source.get('sha256') or ''}".strip())
            for name, source in dict(about.get("sources") or {}).items()
        ),
    ]
    yield Folded("What it ran on", (Table("What it ran on", ("", "value"), tuple(lines)),))

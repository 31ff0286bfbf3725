"""One run as a section of a page: selection, the way there, cost, and what the profile leaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fedsdg.report.document import (
    Block,
    Callout,
    Fact,
    Facts,
    Folded,
    Gallery,
    Heading,
    Paragraph,
    Section,
    Table,
)
from fedsdg.report.quantities import duration, plain, size
from fedsdg.report.run_figures import gate_paths, over_time, score_against_features
from fedsdg.report.run_record import Part, RunRecord

MOST_FEATURES = 200
HOLDINGS = {
    "run": "Run of all parties on one machine: this page shows every party's part.",
    "server": "The server's own folder: numbers only, no client's column names, gates or scores.",
    "client": "This client's own folder: its columns and gates, nobody else's.",
}


def run_section(run: RunRecord) -> Section:
    """Return what there is to say about a run."""
    blocks: list[Block] = [Facts(tuple(_facts(run)))]
    blocks += _selection(run)
    way = [figure for figure in (score_against_features(run), *over_time(run)) if figure is not None]
    if way:
        blocks += [Heading("The way there"), Gallery(tuple(way))]
    blocks += [*_cost(run), *_leaks(run), *_details(run)]
    return Section(f"Run {_title(run)}", HOLDINGS[run.kind], tuple(blocks))


def overview(runs: list[RunRecord]) -> Table:
    """Return several runs side by side."""
    rows = []
    for run in runs:
        kept, columns = sum(p.n_selected for p in run.parts), sum(p.n_features for p in run.parts)
        rows.append(
            (
                _title(run),
                run.profile,
                f"{kept:,} of {columns:,}",
                _score(run, "validation"),
                _score(run, "test"),
                size(run.total_bytes) if run.total_bytes else "-",
                duration(run.seconds["total"]) if "total" in run.seconds else "-",
            )
        )
    return Table(
        "The runs on this page", ("run", "profile", "features", "validation", "test", "sent", "time"), tuple(rows)
    )


def _title(run: RunRecord) -> str:
    return run.name if run.kind == "run" else f"{run.name}: {run.party}"


def _facts(run: RunRecord) -> Iterator[Fact]:
    kept, columns = sum(part.n_selected for part in run.parts), sum(part.n_features for part in run.parts)
    share = f"{kept / columns:.1%} of all columns" if columns else ""
    yield Fact("features selected", f"{kept:,} of {columns:,}", share)
    metrics = run.metrics
    if metrics.get("test") is not None:
        yield Fact(f"test {run.score_name}", f"{metrics['test']:.3f}", _certainty(metrics))
    if metrics.get("validation") is not None:
        yield Fact(
            f"validation {run.score_name}", f"{metrics['validation']:.3f}", f"kept: the {metrics.get('kept')} model"
        )
    if run.truth is not None:
        relevant = f"{_number(run.truth['relevant'], 'g')} columns are known to matter"
        yield Fact("precision", _number(run.truth["precision"], ".2f"), "selected columns that matter")
        yield Fact("recall", _number(run.truth["recall"], ".2f"), relevant)
    yield Fact("profile", run.profile, f"{run.key_bits}-bit keys" if run.key_bits else "")
    if run.total_bytes:
        yield Fact("sent", size(run.total_bytes), f"{sum(run.messages.values()):,} messages")
    if "total" in run.seconds:
        yield Fact("time", duration(run.seconds["total"]))


def _certainty(metrics: Mapping[str, Any]) -> str:
    """Return how sure a test score is, as far as it is known."""
    error, rows = metrics.get("test_standard_error"), metrics.get("test_rows")
    off = [] if error is None else [f"± {error:.3f}"]
    return ", ".join([*off, *([] if rows is None else [f"{rows:,} rows nobody learned from"])])


def _number(value: float | None, form: str) -> str:
    """Return a number, or a dash for one that could not be computed."""
    return "-" if value is None else plain(value, form)


def _selection(run: RunRecord) -> Iterator[Block]:
    yield Heading("Selected features")
    rows = tuple(
        (
            part.name,
            f"{part.n_features:,}",
            f"{part.n_selected:,}",
            "-" if part.embedding is None else str(part.embedding),
        )
        for part in run.parts
    )
    yield Table("Per client", ("client", "columns", "selected", "embedding values per row"), rows)
    for part in run.parts:
        if part.selection is not None:
            yield from _own_columns(part)


def _own_columns(part: Part) -> Iterator[Block]:
    selection = part.selection
    assert selection is not None
    by_gate = sorted(selection.selected, key=lambda column: -selection.gates[column])
    rows = tuple(
        (
            column,
            plain(selection.gates[column], ".3f"),
            f"{selection.gate_probabilities[column]:.1%}",
            _number(selection.gini.get(column), ".4f"),
        )
        for column in by_gate[:MOST_FEATURES]
    )
    figure = gate_paths(part)
    header = ("feature", "gate mean", "open while training", "Gini impurity")
    table = Table(f"Selected by {part.name}, widest gate first", header, rows)
    if figure is not None or rows:
        yield Gallery((*((figure,) if figure is not None else ()), *((table,) if rows else ())))
    if len(by_gate) > MOST_FEATURES:
        yield Paragraph(f"{len(by_gate) - MOST_FEATURES:,} more are listed in selection.json.")
    if selection.notes:
        unusable = tuple((column, why) for column, why in list(selection.notes.items())[:MOST_FEATURES])
        table = Table(f"Columns of {part.name} that could not be used", ("column", "why"), unusable)
        yield Folded(f"{len(selection.notes):,} columns of {part.name} could not be used", (table,))


def _cost(run: RunRecord) -> Iterator[Block]:
    if not run.seconds and not run.messages:
        return
    yield Heading("Cost")
    tables = []
    if run.seconds:
        rows = tuple((phase, duration(seconds)) for phase, seconds in run.seconds.items())
        tables.append(Table("Time by phase", ("phase", "time"), rows))
    if run.profile == "plain":
        yield Paragraph("This run was in the clear and in one process, so no message was sent.")
    if run.messages:
        ordered = sorted(run.messages, key=lambda kind: -(run.to_clients.get(kind, 0) + run.to_server.get(kind, 0)))
        known = bool(run.to_clients or run.to_server)
        bytes_header = ("to clients", "to the server") if known else ()
        lines = tuple(
            (
                kind,
                f"{run.messages[kind]:,}",
                *((_sent(run.to_clients, kind), _sent(run.to_server, kind)) if known else ()),
            )
            for kind in ordered
        )
        tables.append(Table("Messages by kind", ("kind", "messages", *bytes_header), lines))
    yield Gallery(tuple(tables))


def _sent(sizes: Mapping[str, int], kind: str) -> str:
    return size(sizes[kind]) if kind in sizes else "-"


def _leaks(run: RunRecord) -> Iterator[Block]:
    yield Heading("What this profile leaks")
    yield Callout(f"Profile {run.profile}.", run.leakage)
    for note in run.notes:
        yield Paragraph(f"Note: {note}")
    yield Paragraph("docs/threat_model.md measures what each party can infer, message by message.")


def _details(run: RunRecord) -> Iterator[Block]:
    if not run.settings:
        return
    settings = Table("Settings", ("setting", "value"), tuple(_flat("", run.settings)))
    versions = Table("Versions", ("package", "version"), tuple(run.versions.items()))
    back_end = (Paragraph(f"Arithmetic back end: {run.backend}."),) if run.backend not in ("", "none") else ()
    yield Folded("Settings and versions", (*back_end, settings, versions))


def _flat(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{where}.{name}" if where else str(name), inner)
    else:
        yield where, "-" if value is None else str(value)


def _score(run: RunRecord, name: str) -> str:
    value = run.metrics.get(name)
    return "-" if value is None else f"{value:.3f}"

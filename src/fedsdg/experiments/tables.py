"""Results as Markdown: pieces that the experiments' own tables are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import label
from fedsdg.experiments.statistics import Summary, group, is_regression, metric, summary


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    rows += ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join(rows)


def score_text(rows: Sequence[Row]) -> str:
    """Return ``88.4 ± 1.2`` for accuracies, ``.938 ± .004`` for R squared; one cell alone has no spread."""
    of = summary([metric(row) for row in rows])
    if of.count == 0:
        return "-"
    factor, digits = (1, 3) if is_regression(rows) else (100, 1)
    spread = f" ± {factor * of.deviation:.{digits}f}" if of.count > 1 else ""
    return f"{factor * of.mean:.{digits}f}{spread}"


def cells_text(rows: Sequence[Row]) -> str:
    """Return ``5 cells``, or ``1 cell``."""
    return f"{len(rows)} cell{'s' * (len(rows) != 1)}"


def field_summary(rows: Sequence[Row], name: str) -> Summary:
    """Return mean and deviation of a field over the rows that have it."""
    return summary([float(row[name]) for row in rows if row.get(name) is not None])


def field_text(rows: Sequence[Row], name: str, form: str = ".2f") -> str:
    """Return the mean of a field, or a dash."""
    of = field_summary(rows, name)
    return "-" if math.isnan(of.mean) else format(of.mean, form)


def range_text(rows: Sequence[Row], name: str) -> str:
    """Return `` (0.03 to 0.97)``: the smallest and the largest value of a field, or nothing if all are alike."""
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    ends = [f"{end(values):.2g}" for end in (min, max)] if values else []
    return f" ({ends[0]} to {ends[1]})" if len(set(ends)) > 1 else ""


def label_of(dataset: str, rows: Sequence[Row]) -> str:
    """Return a data set's name; a surrogate says so wherever it appears."""
    return f"{dataset} (surrogate, not GISETTE)" if any(row.get("surrogate") for row in rows) else dataset


def method_table(columns: Sequence[tuple[str, Callable[[Sequence[Row]], str]]]) -> Callable[[Sequence[Row]], str]:
    """Return a table function with one line per data set and method and the given columns."""

    def table(rows: Sequence[Row]) -> str:
        lines = [
            [label_of(dataset, of), label(method), *(text(of) for _, text in columns)]
            for dataset, methods in group(rows).items()
            for method, of in methods.items()
        ]
        return markdown(["data set", "method", *(name for name, _ in columns)], lines)

    return table


def column(name: str, field: str, form: str = ".2f") -> tuple[str, Callable[[Sequence[Row]], str]]:
    """Return a column of :func:`method_table` with the mean of a field."""
    return name, lambda rows: field_text(rows, field, form)


SCORE: tuple[str, Callable[[Sequence[Row]], str]] = ("test", score_text)
CELLS: tuple[str, Callable[[Sequence[Row]], str]] = ("cells", lambda rows: str(len(rows)))

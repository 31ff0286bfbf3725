"""The headline in a few lines: who is how good with as few columns, beside all columns and the ceiling.

Every kind of method has a line of its own, and the filters share one, with their best on each set: a line of whoever
happens to be best would belong to nobody. Bold is the best of a column among methods with as few columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import CEILING, FILTERS, MATCHED, label
from fedsdg.experiments.rivals import as_few, genuine, strongest
from fedsdg.experiments.statistics import group, is_regression, lead, metric, summary
from fedsdg.experiments.tables import cells_text, field_text, markdown, score_text

KINDS = tuple(f"{base}@{MATCHED}" for base in ("original_gate", "group_lasso", "less_vfl", "vflfs"))
CHANCE = f"random@{MATCHED}"
"""What somebody gets who chooses as many columns without looking: on images and speech, more than most methods."""
RANKINGS = tuple(f"{base}@{MATCHED}" for base in FILTERS if base != "random")
OURS, FILTER = label("fedsdg"), "best of the filters (Gini, F, chi2, ...), matched"
BESIDE = {
    "FedSDG-FS, default preset": "fedsdg@small",
    "all columns": "all",
    "best of a few centralised models, all columns": CEILING,
}
LINES = (OURS, *map(label, KINDS), FILTER, label(CHANCE), *BESIDE)
NOTHING = "No data set has rows both of FedSDG-FS and of a baseline with as few columns yet."


@dataclass(frozen=True)
class _Entry:
    """One cell of the table."""

    mean: float
    text: str


def short_table(rows: Sequence[Row]) -> str:
    """Return one line per kind of method; surrogates, and sets with nothing to compare yet, are left out."""
    columns: dict[str, dict[str, _Entry]] = {}
    counted: list[dict[str, _Entry]] = []
    for name, of in group(rows).items():
        ours = of.get("fedsdg", [])
        rivals = as_few(ours, of)
        if not rivals or any(row.get("surrogate") for row in ours):
            continue
        column = _column(of, rivals)
        columns[f"{name} (R²)" if is_regression(ours) else name] = column
        if genuine(name) and not is_regression(ours):
            counted.append(column)
    if not columns:
        return NOTHING
    lines = [
        [line, *(column[line].text if line in column else "-" for column in columns.values()), *_average(line, counted)]
        for line in LINES
        if any(line in column for column in columns.values())
    ]
    return markdown(["", *columns, *([f"average of {len(counted)}"] if len(counted) > 1 else [])], lines)


def _column(of: Mapping[str, list[Row]], rivals: dict[str, list[Row]]) -> dict[str, _Entry]:
    """Return the lines of one data set."""
    ours = of["fedsdg"]
    filters = {method: rivals[method] for method in RANKINGS if method in rivals}
    shown = {label(method): rivals[method] for method in (*KINDS, CHANCE) if method in rivals}
    if filters:
        shown[FILTER] = filters[strongest(ours, filters)]
    best = _best(ours, shown, rivals)
    shown = {OURS: ours, **shown, **{line: of[method] for line, method in BESIDE.items() if method in of}}
    column = {line: _entry(found, len(ours)) for line, found in shown.items() if score_text(found) != "-"}
    if best in column:
        column[best] = replace(column[best], text=f"**{column[best].text}**")
    column[OURS] = replace(column[OURS], text=f"{column[OURS].text} / {field_text(ours, 'ratio', '.3f')}")
    return column


def _best(ours: Sequence[Row], shown: dict[str, list[Row]], rivals: dict[str, list[Row]]) -> str | None:
    """Return the line to be printed bold: none where somebody without a line is ahead of all."""
    best = strongest(ours, rivals)
    if lead(ours, rivals[best]) >= 0:
        return OURS
    return next((line for line, found in shown.items() if found is rivals[best]), None)


def _entry(rows: Sequence[Row], usual: int) -> _Entry:
    """Return a mean score, with the number of cells where that is not the usual one."""
    scores = [metric(row) for row in rows]
    fewer = f" ({cells_text(rows)})" if len(scores) < usual else ""
    return _Entry(summary(scores).mean, score_text(rows).partition(" ")[0] + fewer)


def _average(line: str, counted: Sequence[dict[str, _Entry]]) -> list[str]:
    """Return the mean over the genuine classification sets, for lines that have them all."""
    if len(counted) < 2:
        return []
    means = [column[line].mean for column in counted if line in column]
    return [f"{100 * sum(means) / len(means):.1f}" if len(means) == len(counted) else "-"]

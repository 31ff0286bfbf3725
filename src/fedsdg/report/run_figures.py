"""Plots of one run: gates, score against open features, and what happened step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedsdg.report.charts.axes import Axis
from fedsdg.report.charts.line_chart import Level, LineChart, Moment, Point, Series
from fedsdg.report.document import Figure
from fedsdg.report.quantities import byte_unit
from fedsdg.report.run_record import Part, RunRecord

NAMED_GATES = 6
QUIET_GATES = 60


def gate_paths(part: Part) -> Figure | None:
    """Return how a client's gates moved: its widest selected ones by name, the others behind them."""
    path, selection = part.path, part.selection
    if path is None or selection is None or len(path.steps) == 0:
        return None
    columns = list(selection.gates)
    position = {column: index for index, column in enumerate(columns)}
    by_gate = sorted(selection.selected, key=lambda column: -selection.gates[column])
    steps = [float(step) for step in path.steps]

    def of(column: str) -> tuple[Point, ...]:
        return tuple(Point(x, float(y)) for x, y in zip(steps, path.means[:, position[column]], strict=True))

    series = [Series(column, of(column), slot) for slot, column in enumerate(by_gate[:NAMED_GATES])]
    more = by_gate[NAMED_GATES:]
    selected = {position[column] for column in selection.selected}
    others = [index for index in np.argsort(-path.means.max(axis=0), kind="stable") if index not in selected]
    # A column that cannot be used has its gate nailed shut far below all others: it would flatten the plot.
    quiet = [index for index in others if columns[index] not in selection.notes][:QUIET_GATES]
    backdrop = [tuple(zip(steps, path.means[:, index].tolist(), strict=True)) for index in quiet]
    # The final gates are those of one pass: which one, only the path itself says.
    final = np.array([selection.gates[column] for column in columns], np.float32)
    chosen = [step for step, means in zip(steps, path.means, strict=True) if np.array_equal(means, final)]
    where = f", as they were at step {chosen[0]:.0f}" if chosen else ""
    words = [f"{part.n_selected} of {part.n_features} gates were selected{where}."]
    if more:
        words.append(f"The {NAMED_GATES} widest are named; {len(more)} more were selected (see the table).")
    if len(others) > len(quiet) > 0:
        words.append(f"Of {len(others)} that were not selected, the {len(quiet)} that were once widest are drawn.")
    return Figure(
        f"Gate paths of {part.name}",
        " ".join(words),
        LineChart(
            Axis("training step of the gated phase"),
            Axis("mean of the gate"),
            tuple(series),
            levels=(Level("open above 0", 0.0),),
            moments=tuple(Moment("chosen", step) for step in chosen[:1]),
            backdrop=tuple(backdrop),
            backdrop_name="not selected",
        ),
    )


def score_against_features(run: RunRecord) -> Figure | None:
    """Return the validation score along the path, with the model that was kept and its test score."""
    seen = [entry for entry in run.path if entry["open_features"] > 0 and entry["score"] is not None]
    if not seen:
        return None
    factor = 1.0 if run.score_name == "R²" else 100.0
    unit = "" if factor == 1 else " (%)"

    def point(x: float, y: float, error: float | None) -> Point:
        return Point(x, factor * y, None if error is None else factor * error)

    along = sorted((point(e["open_features"], e["score"], e.get("standard_error")) for e in seen), key=lambda p: p.x)
    kept = float(run.metrics["n_selected"])
    series = [Series("on the way (validation rows)", tuple(along), 0)]
    if run.metrics.get("validation") is not None:
        series.append(Series("kept (validation rows)", (point(kept, run.metrics["validation"], None),), 2, False))
    if run.metrics.get("test") is not None:
        error = run.metrics.get("test_standard_error")
        series.append(Series("kept (test rows)", (point(kept, run.metrics["test"], error),), 1, False))
    limits = (None, 1.0) if factor == 1 else (0.0, 100.0)
    return Figure(
        f"{_capital(run.score_name)} against open features",
        "Each point is a validation pass while gates close, from right to left. Error bars: one standard error.",
        LineChart(
            Axis("open features (logarithmic)", log=True),
            Axis(run.score_name + unit, within=limits),
            tuple(series),
        ),
    )


def over_time(run: RunRecord) -> Iterator[Figure]:
    """Yield what the server saw at every step."""
    opened = _points(run, "open_features")
    if opened:
        chart = _steps_chart(run, Axis("open features", zero=True), "all clients", opened)
        yield Figure("Open features over time", "Counted at every validation pass of the gated phase.", chart)
    values = _points(run, "open_embeddings")
    if values:
        chart = _steps_chart(run, Axis("embedding values per row", zero=True), "all clients", values)
        yield Figure("Embedding dimensions over time", "What all clients together send for one row.", chart)
    sent = _points(run, "bytes")
    most = max((p.y for p in sent), default=0.0)
    if most > 0:
        factor, unit = byte_unit(most)
        scaled = tuple(Point(p.x, p.y / factor) for p in sent)
        chart = _steps_chart(run, Axis(f"sent so far ({unit})", zero=True), "both directions", scaled)
        yield Figure("Bytes over time", "All messages between the server and its clients, both directions.", chart)
    losses = _points(run, "loss")
    if losses:
        chart = _steps_chart(run, Axis("training loss per row"), "loss", losses)
        yield Figure("Training loss", "Per mini-batch, so it jumps; the compact phase starts a fresh model.", chart)


def _steps_chart(run: RunRecord, y: Axis, name: str, points: tuple[Point, ...]) -> LineChart:
    border = _gated_steps(run)
    total = max(p.x for p in points)
    moments = (Moment("compact phase", border),) if 0 < border < total else ()
    return LineChart(Axis("training step"), y, (Series(name, points, 0),), moments=moments)


def _points(run: RunRecord, name: str) -> tuple[Point, ...]:
    border = _gated_steps(run)
    found = []
    for step in run.steps:
        y = step.get(name)
        if y is not None and math.isfinite(y):
            found.append(Point(step["step"] + (border if step["phase"] == "compact" else 0), float(y)))
    return tuple(found)


def _gated_steps(run: RunRecord) -> float:
    return float(max((step["step"] for step in run.steps if step["phase"] == "gated"), default=0))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

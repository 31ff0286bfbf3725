"""How much gates and Gini impurity agree: the share of open features that Gini would have chosen, too, over time."""

from __future__ import annotations

from collections.abc import Sequence

from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.gate_paths import record_path
from fedsdg.experiments.statistics import group, summary
from fedsdg.experiments.tables import label_of, markdown
from fedsdg.learning.gate_initialization import HALF_OPEN

EVERY = 10


def _measure(cell: Cell) -> Row:
    config = cell.vertical.config
    looking = config.validation.model_copy(update={"every": EVERY, "patience": None})
    return record_path(cell, config.with_changes(validation=looking), overlap=True)


def _measure_alike(cell: Cell) -> Row:
    config = cell.vertical.config
    looking = config.validation.model_copy(update={"every": EVERY, "patience": None})
    # A Gini start without any span: all alike, and the scores are computed, for the comparison only.
    start = {"gini_floor": config.gates.constant_start, "gini_span": 0.0, "embedding_start": HALF_OPEN}
    alike = config.gates.starting_alike().model_copy(update={"initialization": "gini", **start})
    return record_path(cell, config.with_changes(validation=looking, gates=alike), overlap=True)


def table(rows: Sequence[Row]) -> str:
    """Return the mean overlap by step."""
    lines = []
    for name, methods in group(rows).items():
        for method, of in methods.items():
            steps = sorted({entry["step"] for row in of for entry in row["curve"]})
            for step in steps[:: max(1, len(steps) // 10)]:
                at = [entry for row in of for entry in row["curve"] if entry["step"] == step and entry["open"]]
                if not at:
                    continue
                lines.append(
                    [
                        label_of(name, of),
                        method,
                        f"{step:.0f}",
                        f"{summary([entry['open'] for entry in at]).mean:.0f}",
                        f"{summary([entry['overlap'] for entry in at]).mean:.2f}",
                    ]
                )
    return markdown(["data set", "gates start", "step", "open features", "of these also best by Gini"], lines)


EXPERIMENT = Experiment(
    name="overlap",
    question="How many of the features that gates keep would Gini impurity keep, round by round?",
    datasets=("MADELON",),
    variants=(Variant("alike", _measure_alike), Variant("by Gini", _measure)),
    table=table,
)

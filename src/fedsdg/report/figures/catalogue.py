"""Which file draws which experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.report.document import Figure
from fedsdg.report.figures import (
    accuracy,
    any_experiment,
    clients,
    communication,
    convergence,
    gini_ablation,
    model_table,
    motivation,
    overlap,
    paper_preset,
    permuted_labels,
    precision,
    security_cost,
    stability,
    two_by_two,
)

DRAWERS: dict[str, Callable[[Sequence[Row]], Iterable[Figure]]] = {
    "accuracy": accuracy.draw,
    "clients": clients.draw,
    "communication": communication.draw,
    "convergence": convergence.draw,
    "gini_ablation": gini_ablation.draw,
    "model_table": model_table.draw,
    "motivation": motivation.draw,
    "overlap": overlap.draw,
    "paper_preset": paper_preset.draw,
    "permuted_labels": permuted_labels.draw,
    "precision": precision.draw,
    "security_cost": security_cost.draw,
    "stability": stability.draw,
    "two_by_two": two_by_two.draw,
}


def figures_of(experiment: str, rows: Sequence[Row]) -> tuple[Figure, ...]:
    """Return the figures of an experiment."""
    return tuple(DRAWERS.get(experiment, any_experiment.draw)(rows))

"""Five and ten clients: the same comparison with the columns dealt to more parties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fedsdg.experiments import paper_numbers
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.methods import ALL, FEDSDG, ORIGINAL_GATE, label, with_share
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import field_text, label_of, markdown, score_text

NUMBERS = (2, 5, 10)
METHODS = (FEDSDG, ALL, ORIGINAL_GATE, with_share("sffs", 0.5), with_share("ms_gini", 0.5), with_share("vflfs", 0.5))


def _measure(cell: Cell, method: Variant, n_clients: int) -> Row:
    return method.measure(cell.changed(n_clients=n_clients)) | {"clients": n_clients}


def table(rows: Sequence[Row]) -> str:
    """Return ours beside the paper's, by number of clients."""
    lines = []
    for name, methods in group(rows).items():
        for key, of in methods.items():
            method, _, number = key.partition("/")
            lines.append(
                [
                    label_of(name, of),
                    number,
                    label(method),
                    score_text(of),
                    field_text(of, "ratio", ".3f"),
                    field_text(of, "embedding_open", ".1f"),
                    paper_numbers.more_clients(int(number), name, method)
                    if int(number) > 2
                    else paper_numbers.two_clients(name, method),
                ]
            )
    return markdown(["data set", "clients", "method", "test", "share of features", "embedding values", "paper"], lines)


EXPERIMENT = Experiment(
    name="clients",
    question="Does it hold with five and ten clients?",
    datasets=("ARCENE", "RELATHE", "MADELON"),
    variants=tuple(
        Variant(f"{method.name}/{number}", partial(_measure, method=method, n_clients=number))
        for number in NUMBERS
        for method in METHODS
    ),
    table=table,
)

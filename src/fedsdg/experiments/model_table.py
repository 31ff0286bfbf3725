"""Model sizes: the paper's table, the same count for the tables that exist, our model before and after selection."""

from __future__ import annotations

from fedsdg.config import paper_config
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.methods import ALL, FEDSDG
from fedsdg.experiments.paper_numbers import PARAMETERS
from fedsdg.experiments.parameters import count_parameters, paper_parameters
from fedsdg.experiments.tables import CELLS, SCORE, column, method_table


def _printed(cell: Cell) -> Row:
    return {"parameters": PARAMETERS.get(cell.data.name)}


def _formula(cell: Cell) -> Row:
    return {"parameters": paper_parameters(cell.data.n_columns, cell.data.n_classes)}


def _paper_preset(cell: Cell) -> Row:
    phase = paper_config().gated_phase
    columns = {name: len(part) for name, part in cell.parts.items()}
    widths = dict.fromkeys(columns, phase.embedding)
    return {"parameters": count_parameters(phase, columns, widths, cell.vertical.objective.n_outputs)}


EXPERIMENT = Experiment(
    name="model_table",
    question="How large are the models, before and after selection?",
    datasets=("MADELON", "FRIEDMAN", "ARCENE", "BASEHOCK", "RELATHE", "PCMAC", "COIL20", "ISOLET"),
    variants=(
        Variant("printed in the paper", _printed),
        Variant("the paper's formula", _formula),
        Variant("preset paper", _paper_preset),
        ALL,
        FEDSDG,
    ),
    table=method_table([column("parameters", "parameters", ",.0f"), SCORE, CELLS]),
)

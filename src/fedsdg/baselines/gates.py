"""A run of the gated procedure inside one fold, with all parties at hand: what the methods with gates share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedsdg.baselines.selector import SERVER, Selection, VerticalData
from fedsdg.baselines.trained_model import TrainedModel
from fedsdg.config import TrainingConfig
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.training_result import Progress, TrainingResult
from fedsdg.learning.two_phase_training import train

Watch = Callable[[Progress, PlainFederation], None]


@dataclass(frozen=True, eq=False)
class GatedRun:
    """A finished run of a method with gates."""

    selection: Selection
    result: TrainingResult


def run_gates(data: VerticalData, config: TrainingConfig, watch: Watch = lambda progress, federation: None) -> GatedRun:
    """Select with gates and train; ``watch`` sees every step together with the parties."""
    if config == data.config:
        for prepared in data.prepared_clients.values():
            prepared.begin(config, data.train_rows)  # once for all copies
    clients = {name: prepared.fresh() for name, prepared in data.prepared_clients.items()}
    federation = PlainFederation(clients)
    result = train(
        federation,
        data.labels,
        config,
        data.seeds[SERVER],
        lambda progress: watch(progress, federation),
        rows=data.fit_rows,
    )
    columns = {name: client.selected_positions for name, client in clients.items()}
    gates = {name: client.final_gates for name, client in clients.items()}
    selection = Selection(
        columns,
        scores={name: means for name, means in gates.items() if means is not None},
        model=TrainedModel(federation, result.server),
    )
    return GatedRun(selection, result)

"""The model that every selection is judged by: the compact phase's, trained afresh on the selected columns.

Clients prepare their whole table as FedSDG-FS does (the length of a text is taken over all their words), then train on
the chosen columns only. So methods differ in the columns and in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedsdg.baselines.prepared_client import PreparedClient
from fedsdg.baselines.selector import SERVER, Selection, VerticalData
from fedsdg.baselines.trained_model import TrainedModel
from fedsdg.config import TrainingConfig
from fedsdg.errors import ConfigError
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.two_phase_training import train_on_all_columns


class ChosenColumnsFederation(PlainFederation):
    """Clients that count only their chosen columns; one without any takes no part."""

    def __init__(self, clients: Mapping[str, PreparedClient]) -> None:
        super().__init__(clients)
        self._chosen = {name: len(client.selected_positions) for name, client in clients.items()}

    def columns(self) -> dict[str, int]:
        """Return the number of chosen columns of every client."""
        return dict(self._chosen)


def train_candidate(data: VerticalData, selection: Selection) -> TrainedModel:
    """Train the compact phase's model without a look at the validation rows, so that they can judge it."""
    return _train(data, selection, data.config.with_changes(n_features=None, final_rows="training"))


def train_final(data: VerticalData, selection: Selection) -> TrainedModel:
    """Train the compact phase's model on a selection."""
    return _train(data, selection, data.config.with_changes(n_features=None))


def _train(data: VerticalData, selection: Selection, config: TrainingConfig) -> TrainedModel:
    if selection.n_selected == 0:
        raise ConfigError("no column was selected: there is nothing to train on")
    widths = selection.embedding or {}
    for client in data.prepared_clients.values():
        client.begin(config, data.train_rows)  # once for all copies
    federation = ChosenColumnsFederation(
        {
            name: client.fresh(selection.columns[name], widths.get(name))
            for name, client in data.prepared_clients.items()
        }
    )
    server = train_on_all_columns(federation, data.labels, config, data.seeds[SERVER], rows=data.fit_rows)
    return TrainedModel(federation, server)

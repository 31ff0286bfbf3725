"""A model whose parts lie with the parties, ready to be scored on rows of their tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedsdg.data.arrays import IntArray
from fedsdg.learning.objective import Score
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.server_learner import ServerLearner


@dataclass(eq=False)
class TrainedModel:
    """A finished vertical model."""

    federation: PlainFederation
    server: ServerLearner
    _passes: int = field(default=0, repr=False)

    def score(self, rows: IntArray) -> Score:
        """Return accuracy or R squared on some rows."""
        self._passes += 1
        return self.server.score(self.federation.forward(rows, self._passes, "test"), rows)

    @property
    def embedding(self) -> dict[str, int]:
        """Embedding values that each client sends per prediction."""
        clients = self.federation.clients
        return {name: len(clients[name].learner.open_dimensions()) for name in self.federation.layers}

    @property
    def embedding_open(self) -> int:
        """Embedding values of all clients per prediction."""
        return sum(self.embedding.values())

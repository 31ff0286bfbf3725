"""The server's part of a finished model as files, readable by their owner only.

::

    model.safetensors   the top model
    model.json          task, classes, clients, metrics, settings, what the profile leaks (the model card, for programs)
    model_card.md       the same for people
    weights.state       the noisy weights W~ of every client (in `plain`: the weights): secret together with the shares
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsdg.errors import StateFileError
from fedsdg.job import RunSettings
from fedsdg.learning.client_files import FORMAT, read_arrays, read_card, write_arrays, write_text
from fedsdg.learning.objective import Objective
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.server_learner import ServerLearner
from fedsdg.results import LEAKAGE, to_json
from fedsdg.state_files import damaged_if_unreadable, load_state, save_state, wide_from_array, wide_to_array


@dataclass(frozen=True, eq=False)
class ServerPart:
    """What the label owner needs to score rows."""

    run_id: bytes
    settings: RunSettings
    learner: ServerLearner
    weights: Mapping[str, NDArray[np.object_]] = field(repr=False)
    """Noisy weights of every client with a selected column (in `plain`: the weights themselves)."""
    card: Mapping[str, Any]

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that a prediction needs."""
        return self.learner.asked

    @property
    def masked(self) -> bool:
        """Whether nobody holds the weights."""
        return self.settings.profile == "masked"


@dataclass(frozen=True)
class ServerFacts:
    """What the server knows about a run and writes on the model card: numbers, no client's column names."""

    columns: Mapping[str, int]
    selected: Mapping[str, int]
    metrics: Mapping[str, float | str | int]
    versions: Mapping[str, str]


def leakage_of(settings: RunSettings) -> str:
    """Return what the profile leaves visible, in a sentence."""
    protected = settings.profile == "masked" and settings.label_epsilon is not None
    return LEAKAGE["masked, labels protected" if protected else settings.profile]


def write_server_files(
    folder: Path,
    run_id: bytes,
    settings: RunSettings,
    learner: ServerLearner,
    weights: Mapping[str, NDArray[Any]],
    facts: ServerFacts,
) -> None:
    """Write the server's files."""
    objective, plan = learner.objective, learner.plan
    card = {
        "format": FORMAT,
        "party": "server",
        "run_id": run_id.hex(),
        "profile": settings.profile,
        "task": objective.task,
        "classes": None if objective.classes is None else objective.classes.tolist(),
        "centre": objective.centre,
        "spread": objective.spread,
        "clients": learner.widths,
        "columns": dict(facts.columns),
        "selected": dict(facts.selected),
        "phase": plan.name,
        "sizes": plan.sizes(),
        "settings": settings.model_dump(mode="json"),
        "metrics": dict(facts.metrics),
        "versions": dict(facts.versions),
        "leakage": leakage_of(settings),
    }
    arrays = {name: value for name, value in learner.snapshot().items() if not name.startswith("adam/")}
    write_arrays(folder / "model.safetensors", arrays)
    save_state(
        folder / "weights.state",
        {name: wide_to_array(np.asarray(weights[name], object)) for name in learner.asked},
        {"run_id": run_id.hex()},
    )
    write_text(folder / "model_card.md", _card_text(card))
    write_text(folder / "model.json", to_json(card, indent=1) + "\n")


def read_server_files(folder: Path) -> ServerPart:
    """Load what `write_server_files` wrote."""
    card = read_card(folder)
    with damaged_if_unreadable(folder / "model.json"):
        settings = RunSettings(**{**card["settings"], "training": card["settings"]["training"]})  # no silent defaults
        plan = PhasePlan(card["phase"], settings.training, **card["sizes"])
        classes = None if card["classes"] is None else np.asarray(card["classes"])
        objective = Objective(card["task"], torch.zeros(0), classes, card["centre"], card["spread"])
        learner = ServerLearner(plan, objective, card["clients"], RandomStreams(bytes(32)))
        learner.restore(read_arrays(folder / "model.safetensors"))
        weights, facts = load_state(folder / "weights.state")
        if facts["run_id"] != card["run_id"] or set(weights) != set(learner.asked):
            raise StateFileError(f"{folder}: model.json and weights.state belong to different runs.")
        wide = {name: wide_from_array(array) for name, array in weights.items()}
        return ServerPart(bytes.fromhex(card["run_id"]), settings, learner, wide, card)


def _card_text(card: Mapping[str, Any]) -> str:
    metrics = card["metrics"]
    name = "R²" if metrics["metric"] == "r2" else "accuracy"
    score = f"validation {name} {metrics['validation']:.3f}"
    if "test" in metrics:
        score += f", test {metrics['test']:.3f} ± {metrics['test_standard_error']:.3f} on {metrics['test_rows']} rows"
    lines = [
        "# Model card",
        "",
        f"Task: {card['task']}. Run {card['run_id']}, profile `{card['profile']}`, model `{card['phase']}`.",
        "",
        f"Scores: {score}. No row of either was trained on; validation rows chose the model.",
        "",
        "| client | columns | selected | embedding values |",
        "|---|---|---|---|",
    ]
    for client, columns in card["columns"].items():
        lines.append(f"| {client} | {columns} | {card['selected'][client]} | {card['clients'].get(client, 0)} |")
    return "\n".join([*lines, "", f"What leaks: {card['leakage']}", ""])

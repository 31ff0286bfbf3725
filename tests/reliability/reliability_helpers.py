"""Small jobs that are interrupted, and what it means that two runs are the same run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.data.feature_table import FeatureTable
from fedsdg.job import RunSettings
from fedsdg.learning.plain_training import predict_in_the_clear
from fedsdg.messages import codec
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.simulation import PartyTables, Simulation, Storage, simulate

torch.set_num_threads(1)

ROWS = 64
CLIENTS = ("left", "right")
SEEDS = {name: f"the private seed of {name}".encode().ljust(32, b".") for name in ("server", *CLIENTS)}
SIZES: dict[str, Any] = {"hidden": (4,), "embedding": 3, "outputs": 2, "batch_size": 12, "top_hidden": (4,)}
#: The job below: 4 gated and 3 compact steps, looks after steps 2 and 4, checkpoints after steps 2, 4 and 6.
STEPS, EVERY = 7, 2


def training(**changes: Any) -> TrainingConfig:
    values: dict[str, Any] = {
        "gated_phase": PhaseSettings(steps=4, **SIZES),
        "compact_phase": PhaseSettings(steps=3, schedule="cosine", input_noise=0.1, **SIZES),
        "validation": ValidationSettings(every=2),
    }
    return TrainingConfig(**{**values, **changes})


def settings(profile: str = "masked", *, every: int = EVERY, of_run: Mapping[str, Any] | None = None, **changes: Any):
    return RunSettings(profile=profile, checkpoint_every=every, training=training(**changes), **(of_run or {}))


@functools.cache
def data(task: str = "binary") -> PartyTables:
    """Two clients whose rows are in different orders and not all common: the run aligns them first."""
    stream = np.random.default_rng(7)
    X = stream.standard_normal((ROWS, 6))
    signal = X[:, 0] + X[:, 4]
    labels: dict[str, Any] = {
        "binary": np.where(signal > 0, "yes", "no"),
        "multiclass": np.digitize(signal, [-0.6, 0.6]),
        "regression": 3.0 * signal + 10,
    }
    if task == "aligned":
        return PartyTables(labels["binary"], {"left": FeatureTable.of(X[:, :3]), "right": FeatureTable.of(X[:, 3:])})
    ids = np.array([f"person-{i:03d}" for i in range(ROWS)])
    rows = {"left": stream.permutation(ROWS)[:60], "right": stream.permutation(ROWS)[:62]}
    columns = {"left": X[:, :3], "right": X[:, 3:]}
    return PartyTables(
        labels[task],
        {name: FeatureTable.of(columns[name][of]) for name, of in rows.items()},
        ids=tuple(ids),
        client_ids={name: tuple(ids[of]) for name, of in rows.items()},
    )


def run(of_run: RunSettings, tables: PartyTables | None = None, **options: Any) -> Simulation:
    """Run with small keys and the same private seeds every time."""
    return simulate(tables or data(), of_run, private_seeds=SEEDS, allow_test_keys=True, key_bits=512, **options)


def storage_at(folder: Path) -> Storage:
    return Storage(folder / "server", {name: folder / "clients" / name for name in CLIENTS})


def storage_in(folder: Path) -> Storage:
    storage = storage_at(folder)
    for path in (storage.server, *storage.clients.values()):
        path.mkdir(parents=True)
    return storage


class Crash(Exception):
    """Everything stops here, as if the power were cut."""


#: When in an exchange: before any client got its request, after one of them answered, after all of them did.
MOMENTS = ("before", "between", "after")


class CrashingChannel(InProcessChannel):
    """Carries messages until the crash."""

    def __init__(self, roles: Any, at: Callable[[str, int, int], bool], moment: str) -> None:
        """`at`: asked with the kind of a request, its number among its kind and its number among all."""
        super().__init__(roles)
        self.at, self.moment = at, moment
        self.kinds: list[str] = []

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        kind = type(codec.decode(next(iter(requests.values())))).__name__
        self.kinds.append(kind)
        if not self.at(kind, self.kinds.count(kind), len(self.kinds)):
            return super().carry_all(requests)
        if self.moment == "between":
            first = next(iter(requests))
            super().carry_all({first: requests[first]})
        elif self.moment == "after":
            super().carry_all(requests)
        raise Crash(kind)


def crashing(at: Callable[[str, int, int], bool], moment: str = "before") -> Callable[[Any], InProcessChannel]:
    return lambda roles: CrashingChannel(roles, at, moment)


def crash_after_step(number: int) -> Callable[[Any], None]:
    """Return a watcher that stops everything after so many steps of this session."""
    seen: list[int] = []

    def watch(update: Any) -> None:
        if update.loss is not None:
            seen.append(update.step)
            if len(seen) == number:
                raise Crash

    return watch


# --- The same run, bit for bit -------------------------------------------------------------------------------------


def bits(arrays: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(value).tobytes() for name, value in arrays.items()}


def weights_of(simulation: Simulation) -> dict[tuple[str, str], list[Any]]:
    """The interactive weights of all phases; nobody holds those of a masked run, so the shares are added up."""
    federation = simulation.federation
    if simulation.channel is None:
        return {
            (phase, name): layer.weights.tolist()
            for phase, layers in federation._layers.items()
            for name, layer in layers.items()
        }
    return {
        (phase, name): (layer.noisy - simulation.channel.roles[name].state.shares[phase].share).tolist()
        for phase, layers in federation._weights.items()
        for name, layer in layers.items()
    }


def predictions_of(simulation: Simulation) -> bytes:
    """The model's outputs for all rows that the clients had, in the order of their own tables."""
    learner, weights = simulation.result.server, weights_of(simulation)
    parts = {name: simulation.clients[name].part() for name in learner.asked}
    clear = {name: np.array(weights[simulation.result.kept, name], np.int64) for name in parts}
    tables = {name: simulation.clients[name].table for name in parts}
    return predict_in_the_clear(learner, parts, clear, tables).numpy().tobytes() if parts else b""


def everything(simulation: Simulation) -> dict[str, Any]:
    """All that a run found, in comparable form."""
    result = simulation.result
    return {
        "losses": result.losses,
        "path": result.path,
        "chosen": result.chosen,
        "scores": result.scores,
        "kept": result.kept,
        "selected": {name: client.selected_columns for name, client in simulation.clients.items()},
        "starting gates": {name: client.starting_gates.tobytes() for name, client in simulation.clients.items()},
        "final gates": {name: client.final_gates.tobytes() for name, client in simulation.clients.items()},
        "Gini": {name: c.gini_scores and c.gini_scores.scores.tobytes() for name, c in simulation.clients.items()},
        "client models": {
            (name, phase): bits(learner.snapshot())
            for name, client in simulation.clients.items()
            for phase, learner in client._learners.items()
        },
        "server models": {phase: bits(learner.snapshot()) for phase, learner in result.learners.items()},
        "weights": weights_of(simulation),
        "test rows": simulation.test_rows.tobytes(),
        "test score": simulation.test_score,
        "predictions": predictions_of(simulation),
        "clipped": result.clipped_gradients,
    }


@functools.cache
def uninterrupted(of_run: RunSettings, task: str = "binary") -> dict[str, Any]:
    """What the job finds when nothing goes wrong: in the clear, where it is fast. A masked run finds the same."""
    return everything(run(of_run.model_copy(update={"profile": "plain"}), data(task)))


def assert_same(simulation: Simulation, reference: dict[str, Any]) -> None:
    found = everything(simulation)
    for name, value in reference.items():
        assert found[name] == value, name


def resumed_steps(storage: Storage, profile: str) -> list[tuple[str, int]]:
    """Resume, compare with the run that nothing happened to, and return the steps that were taken."""
    seen = []
    simulation = run(
        settings(profile),
        storage=storage,
        resume=True,
        watch=lambda update: seen.append((update.phase, update.step)) if update.loss is not None else None,
    )
    assert_same(simulation, uninterrupted(settings(profile)))
    return seen

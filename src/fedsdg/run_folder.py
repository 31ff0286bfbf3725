"""The folder of a run. Each party's part lies in a subfolder of its own, readable by its owner only.

::

    RUN/selection.json      what was selected, metrics, cost, versions (simulation: all parties combined)
    RUN/metrics.jsonl       one line per step
    RUN/server/             top model (safetensors), model.json, noisy_weights.json, private_seed
    RUN/clients/NAME/       bottom model and gates (safetensors), selection.json, share.json, private_seed

A noisy weight and its share never lie in one place. Private keys are not written at all. The folder appears when the
run has succeeded: until then everything lies in `RUN.partial`, which is removed if the run fails.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from fedsdg.errors import ConfigError
from fedsdg.learning.model_state import StateArrays
from fedsdg.results import SelectionResult
from fedsdg.simulation import SERVER, Simulation, Update

OWNER_ONLY = 0o600


class RunFolder:
    """A run folder in the making."""

    def __init__(self, final: Path, partial: Path) -> None:
        self.final, self.partial = final, partial
        self._metrics = (partial / "metrics.jsonl").open("w", encoding="utf-8")

    @classmethod
    def create(cls, final: Path) -> RunFolder:
        """Make the partial folder; an existing run is never overwritten."""
        if final.exists() and (not final.is_dir() or any(final.iterdir())):
            raise ConfigError(f"{final} exists and is not empty; choose another folder for this run.")
        if not final.parent.is_dir():
            raise ConfigError(f"The folder {final.parent} does not exist.")
        partial = final.with_name(final.name + ".partial")
        try:
            if partial.exists():
                shutil.rmtree(partial)
            partial.mkdir()
        except OSError as problem:
            raise ConfigError(f"Cannot write to {final.parent}: {problem.strerror}.") from None
        return cls(final, partial)

    def watch(self, then: Callable[[Update], None]) -> Callable[[Update], None]:
        """Return a watcher that records every step before it passes it on."""

        def record(update: Update) -> None:
            if update.loss is not None:
                self._metrics.write(json.dumps(asdict(update)) + "\n")
                self._metrics.flush()
            then(update)

        return record

    def finish(self, simulation: Simulation, result: SelectionResult) -> None:
        """Write every party's part and make the folder appear under its name."""
        self._metrics.close()
        (self.partial / "selection.json").write_text(result.to_json(), encoding="utf-8")
        (self.partial / "settings.json").write_text(
            json.dumps(simulation.settings.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8"
        )
        self._write_server(simulation)
        for name in simulation.clients:
            self._write_client(simulation, result, name)
        if self.final.is_dir():
            self.final.rmdir()
        os.replace(self.partial, self.final)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._metrics.close()
        shutil.rmtree(self.partial, ignore_errors=True)

    def _write_server(self, simulation: Simulation) -> None:
        folder = self.partial / "server"
        folder.mkdir(mode=0o700)
        learner, result = simulation.result.server, simulation.result
        _write_arrays(folder / "top_model.safetensors", learner.snapshot())
        objective = simulation.objective
        _write_json(
            folder / "model.json",
            {
                "task": objective.task,
                "classes": None if objective.classes is None else [_plain(c) for c in objective.classes.tolist()],
                "centre": objective.centre,
                "spread": objective.spread,
                "phase": result.kept,
                "clients": list(learner.clients),
                "chosen_step": result.chosen.step,
            },
        )
        if simulation.channel is not None:
            weights = {name: w.noisy.tolist() for name, w in simulation.federation.weights.items()}
            _write_json(folder / "noisy_weights.json", weights)
        else:
            clear = {name: layer.weights.tolist() for name, layer in simulation.federation.layers.items()}
            _write_json(folder / "weights.json", clear)
        _write_secret(folder / "private_seed", simulation.seeds[SERVER])

    def _write_client(self, simulation: Simulation, result: SelectionResult, name: str) -> None:
        folder = self.partial / "clients" / name
        folder.mkdir(mode=0o700, parents=True)
        client = simulation.clients[name]
        _write_json(folder / "selection.json", asdict(result.clients[name]))
        if client.has_phase(simulation.result.kept):
            _write_arrays(folder / "bottom_model.safetensors", client.learner.snapshot())
            _write_arrays(folder / "preprocessing.safetensors", client.preprocessing_state())
            if simulation.channel is not None:
                share = simulation.channel.roles[name].state.share.share
                _write_json(folder / "share.json", share.tolist())
        _write_secret(folder / "private_seed", simulation.seeds[name])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    path.chmod(OWNER_ONLY)


def _write_arrays(path: Path, arrays: StateArrays) -> None:
    save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)
    path.chmod(OWNER_ONLY)


def _write_secret(path: Path, secret: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret.hex() + "\n")

"""The folder of a run. Each party's part lies in a subfolder of its own, readable by its owner only.

::

    RUN/selection.json      what was selected, metrics, cost, versions (simulation: all parties combined)
    RUN/settings.json       the settings of the job: public to all parties
    RUN/metrics.jsonl       one line per step
    RUN/server/             top model (safetensors), model.json, noisy_weights.json, private_seed
    RUN/clients/NAME/       bottom model and preprocessing (safetensors), model.json, selection.json, share.json,
                            private_seed

A noisy weight and its share never lie in one place. Private keys are not written at all. The folder appears when the
run has succeeded: until then everything lies in `RUN.partial`, which is removed if the run fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from safetensors.numpy import save

from fedsdg.errors import ConfigError
from fedsdg.learning.model_state import StateArrays
from fedsdg.results import SelectionResult, to_json
from fedsdg.simulation import SERVER, Simulation, Update

OWNER_ONLY = 0o600
OWNER_FOLDER = 0o700


class RunFolder:
    """A run folder in the making."""

    def __init__(self, final: Path, partial: Path, made: list[Path]) -> None:
        self.final, self.partial = final, partial
        self._made = made  # folders above it that did not exist before, innermost first
        self._metrics: TextIO | None = None

    @staticmethod
    def refuse_unusable(final: Path) -> None:
        """Refuse a folder that cannot become a run folder; nothing is written."""
        with _clear_errors(final):
            if final.exists() and (not final.is_dir() or any(final.iterdir())):
                raise ConfigError(f"{final} exists and is not empty; choose another folder for this run.")
            if final.is_mount():
                raise ConfigError(f"{final} is a mount point; choose a folder inside it for this run.")
            partial = _partial(final)
            if partial.exists() or partial.is_symlink():
                raise ConfigError(
                    f"{partial} exists: another run is writing it, or one was killed. Remove it, or choose another "
                    "folder for this run."
                )
            above = next(folder for folder in final.resolve().parents if folder.exists())
            if not above.is_dir():
                raise ConfigError(f"Cannot write to {final}: {above} is a file.")
            if not os.access(above, os.W_OK | os.X_OK):
                raise ConfigError(f"Cannot write to {above}: Permission denied.")

    @classmethod
    def create(cls, final: Path) -> RunFolder:
        """Make the partial folder; an existing run is never overwritten."""
        cls.refuse_unusable(final)
        final = final.resolve()
        made = [folder for folder in final.parents if not folder.exists()]
        folder = cls(final, _partial(final), made)
        try:
            with _clear_errors(final):
                final.parent.mkdir(parents=True, exist_ok=True)
                folder.partial.mkdir(mode=OWNER_FOLDER)
                folder._metrics = _open_private(folder.partial / "metrics.jsonl")
        except BaseException:
            folder.discard()
            raise
        return folder

    def watch(self, then: Callable[[Update], None]) -> Callable[[Update], None]:
        """Return a watcher that records every step before it passes it on."""

        def record(update: Update) -> None:
            if update.loss is not None and self._metrics is not None:
                with _clear_errors(self.partial):
                    self._metrics.write(to_json(asdict(update)) + "\n")
                    self._metrics.flush()
            then(update)

        return record

    def finish(self, simulation: Simulation, result: SelectionResult) -> None:
        """Write every party's part and make the folder appear under its name."""
        with _clear_errors(self.partial):
            self._close()
            _write(self.partial / "selection.json", result.to_json())
            _write_json(self.partial / "settings.json", simulation.settings.model_dump(mode="json"))
            self._write_server(simulation)
            (self.partial / "clients").mkdir(mode=OWNER_FOLDER)
            for name in simulation.clients:
                self._write_client(simulation, result, name)
            os.replace(self.partial, self.final)  # takes the place of an empty folder, never of a run

    def discard(self) -> None:
        """Leave nothing behind: neither the partial folder nor the folders that were made for it."""
        with suppress(OSError):
            self._close()
        shutil.rmtree(self.partial, ignore_errors=True)
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def _close(self) -> None:
        if self._metrics is not None:
            self._metrics.close()

    def _write_server(self, simulation: Simulation) -> None:
        folder = self.partial / "server"
        folder.mkdir(mode=OWNER_FOLDER)
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
        folder.mkdir(mode=OWNER_FOLDER)
        client = simulation.clients[name]
        _write_json(folder / "selection.json", asdict(result.clients[name]))
        if client.has_phase(simulation.result.kept):
            _write_arrays(folder / "bottom_model.safetensors", client.learner.snapshot())
            _write_arrays(folder / "preprocessing.safetensors", client.preprocessing_state())
            gated = client.learner.plan.gated
            _write_json(
                folder / "model.json",
                {
                    "phase": simulation.result.kept,
                    "columns": list(client.table.columns),
                    "inputs": list(client.table.columns if gated else client.selected_columns),
                    "embedding": client.learner.width,
                    "open_dimensions": [int(d) for d in client.learner.open_dimensions()],
                },
            )
            if simulation.channel is not None:
                share = simulation.channel.roles[name].state.share.share
                _write_json(folder / "share.json", share.tolist())
        _write_secret(folder / "private_seed", simulation.seeds[name])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _partial(final: Path) -> Path:
    final = final.resolve()
    return final.with_name(final.name + ".partial")


def _open_private(path: Path) -> TextIO:
    """Open a new file that only its owner can ever read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w", encoding="utf-8")


def _write(path: Path, text: str) -> None:
    with _open_private(path) as file:
        file.write(text)


def _write_json(path: Path, content: Any) -> None:
    _write(path, to_json(content, indent=1) + "\n")


def _write_arrays(path: Path, arrays: StateArrays) -> None:
    blob = save({name: np.array(value, order="C") for name, value in arrays.items()})
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
        file.write(blob)


def _write_secret(path: Path, secret: bytes) -> None:
    _write(path, secret.hex() + "\n")


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    """Turn what the file system says into one clear line."""
    try:
        yield
    except OSError as problem:
        raise ConfigError(f"Cannot write to {folder}: {problem.strerror or problem}.") from None

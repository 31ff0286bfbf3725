"""The folder of a run. Each party's part lies in a subfolder of its own, readable by its owner only.

::

    RUN/selection.json      what was selected, metrics, cost, versions (simulation: all parties combined)
    RUN/settings.json       the settings of the job: public to all parties
    RUN/metrics.jsonl       one line per step
    RUN/run.log             what happened, without plaintexts, ids and keys
    RUN/server/             the server's part of the model (server/model_files.py), source.json, private_seed
    RUN/clients/NAME/       a client's part of the model (learning/client_files.py), source.json, private_seed

A noisy weight and its share never lie in one place. Private keys are not written at all. The folder appears when the
run has succeeded. Until then everything lies in `RUN.partial`, with each party's checkpoints: a run that was stopped or
killed goes on from there (`fedsdg resume RUN`). A run that fails before its first checkpoint leaves nothing behind.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from fedsdg.errors import ConfigError
from fedsdg.job import SERVER, RunSettings
from fedsdg.learning.client_files import write_client_files
from fedsdg.results import SelectionResult, to_json
from fedsdg.run_log import RunLog
from fedsdg.server.model_files import ServerFacts, write_server_files
from fedsdg.server.step_record import StepRecord
from fedsdg.simulation import Simulation, Storage, Update
from fedsdg.state_files import OWNER_FOLDER, OWNER_ONLY, FolderLock, write_atomically

logger = logging.getLogger("fedsdg.run")


class RunFolder:
    """A run folder in the making."""

    def __init__(self, final: Path, partial: Path, made: list[Path], clients: Iterable[str]) -> None:
        self.final, self.partial = final, partial
        self.storage = Storage(partial / "server", {name: partial / "clients" / name for name in clients})
        self._made = made  # folders above it that did not exist before, innermost first
        self._steps: StepRecord | None = None
        self._log: RunLog | None = None
        self._lock: FolderLock | None = None

    @staticmethod
    def refuse_unusable(final: Path) -> None:
        """Refuse a folder that cannot become a run folder; nothing is written."""
        with _clear_errors(final):
            if final.exists() and (not final.is_dir() or any(final.iterdir())):
                raise ConfigError(f"{final} exists and is not empty; choose another folder for this run.")
            if final.is_mount():
                raise ConfigError(f"{final} is a mount point; choose a folder inside it for this run.")
            partial = partial_of(final)
            if partial.exists() or partial.is_symlink():
                raise ConfigError(
                    f"{partial} exists: another run is writing it, or one was interrupted. Go on with that one "
                    f"(fedsdg resume {final}), remove the folder, or choose another one for this run."
                )
            above = next(folder for folder in final.resolve().parents if folder.exists())
            if not above.is_dir():
                raise ConfigError(f"Cannot write to {final}: {above} is a file.")
            if not os.access(above, os.W_OK | os.X_OK):
                raise ConfigError(f"Cannot write to {above}: Permission denied.")

    @classmethod
    def create(
        cls,
        final: Path,
        seeds: Mapping[str, bytes],
        settings: RunSettings,
        job_file: Path | None = None,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> RunFolder:
        """Make the partial folder; an existing run is never overwritten.

        Seeds are written first: a run that is killed before its first checkpoint starts again with the same ones.
        """
        cls.refuse_unusable(final)
        final = final.resolve()
        made = [folder for folder in final.parents if not folder.exists()]
        folder = cls(final, partial_of(final), made, (name for name in seeds if name != SERVER))
        try:
            with _clear_errors(final):
                final.parent.mkdir(parents=True, exist_ok=True)
                folder.partial.mkdir(mode=OWNER_FOLDER)
                folder._lock = FolderLock(folder.partial)
                (folder.partial / "clients").mkdir(mode=OWNER_FOLDER)
                for name, seed in seeds.items():
                    of_party = folder.storage.server if name == SERVER else folder.storage.clients[name]
                    of_party.mkdir(mode=OWNER_FOLDER)
                    _write(of_party / "private_seed", seed.hex() + "\n")
                    _write_json(of_party / "source.json", (sources or {}).get(name, {}))
                _write_json(folder.partial / "source.json", {"job_file": job_file and str(job_file.resolve())})
                # Last: a folder with settings has all that a run needs to start again.
                _write_json(folder.partial / "settings.json", settings.model_dump(mode="json"))
                folder._steps = StepRecord(folder.partial)
        except BaseException:
            folder.discard()
            raise
        return folder

    @classmethod
    def reopen(cls, final: Path) -> RunFolder:
        """Open the folder of an interrupted run."""
        final = final.resolve()
        if final.name.endswith(".partial"):
            final = final.with_name(final.name.removesuffix(".partial"))
        partial = partial_of(final)
        if (final / "selection.json").is_file():
            raise ConfigError(f"{final} is finished; there is nothing to go on with.")
        if not (partial / "settings.json").is_file():
            raise ConfigError(f"There is no interrupted run {final}: {partial} does not exist, or holds no run.")
        lock = FolderLock(partial)
        try:
            with _clear_errors(partial):
                names = sorted(path.name for path in (partial / "clients").iterdir())
                folder = cls(final, partial, [], names)
                folder._steps = StepRecord(partial)
        except BaseException:  # the process that had the lock may just have finished the run
            lock.release()
            raise
        folder._lock = lock
        return folder

    @property
    def seeds(self) -> dict[str, bytes]:
        """Every party's private seed, from its own folder."""
        found = {SERVER: self.storage.server, **self.storage.clients}
        try:
            return {name: bytes.fromhex((path / "private_seed").read_text().strip()) for name, path in found.items()}
        except (OSError, ValueError):
            raise ConfigError(f"{self.partial}: a party's private_seed cannot be read.") from None

    @property
    def settings(self) -> RunSettings:
        """The settings that the run was started with."""
        return RunSettings(**self._json("settings.json"))

    @property
    def job_file(self) -> Path | None:
        """The job file that the run was started from, if it was one."""
        path = self._json("source.json").get("job_file")
        return None if path is None else Path(path)

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.partial / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            raise ConfigError(f"{self.partial / name} cannot be read.") from None
        if not isinstance(content, dict):
            raise ConfigError(f"{self.partial / name} cannot be read.")
        return content

    def watch(self, then: Callable[[Update], None]) -> Callable[[Update], None]:
        """Return a watcher that records every step before it passes it on. The log of the run begins here."""
        with _clear_errors(self.partial):
            self._log = RunLog(self.partial / "run.log")
        logger.info("fedsdg %s writes the run %r", metadata.version("fedsdg"), self.final.name)

        def record(update: Update) -> None:
            if self._steps is not None:
                self._steps.add(update)
            then(update)

        return record

    def finish(self, simulation: Simulation, result: SelectionResult) -> None:
        """Write the server's part and make the folder appear under its name; clients have written theirs."""
        with _clear_errors(self.partial):
            federation, masked = simulation.federation, simulation.channel is not None
            weights = (
                {name: layer.noisy for name, layer in federation.weights.items()}
                if masked
                else {name: layer.weights for name, layer in federation.layers.items()}
            )
            write_server_files(
                self.storage.server,
                federation.run_id,
                simulation.settings,
                simulation.result.server,
                weights,
                ServerFacts(
                    {name: client.n_features for name, client in result.clients.items()},
                    {name: len(client.selected) for name, client in result.clients.items()},
                    result.metrics,
                    result.versions,
                ),
            )
            write_atomically(self.partial / "selection.json", result.to_json().encode())
            logger.info("the run %r is complete", self.final.name)
            os.replace(self.partial, self.final)  # takes the place of an empty folder, never of a run
        # Only now: a run that is killed before this line goes on from its last checkpoint.
        for of_party in (self.final / "server", *(self.final / "clients" / name for name in self.storage.clients)):
            shutil.rmtree(of_party / "checkpoints", ignore_errors=True)
        for name in ("source.json", FolderLock.NAME):
            (self.final / name).unlink(missing_ok=True)
        self.close()

    def leave(self) -> bool:
        """Keep what can be resumed and discard what cannot; return whether it was kept."""
        kept = bool(self.storage.checkpoints.numbers())
        logger.info("the run %r was interrupted%s", self.final.name, "; it can go on" if kept else "")
        with suppress(OSError):
            self.close()
        if kept:
            return True
        self.discard()
        return False

    def discard(self) -> None:
        """Leave nothing behind: neither the partial folder nor the folders that were made for it."""
        with suppress(OSError):
            self.close()
        shutil.rmtree(self.partial, ignore_errors=True)
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def close(self) -> None:
        """Close the metrics and the log and let others in; what lies in the folder stays as it is."""
        if self._log is not None:
            self._log.close()
        if self._lock is not None:
            self._lock.release()
        if self._steps is not None:
            self._steps.close()


def settings_of(run: Path) -> RunSettings:
    """Return the settings of an interrupted run."""
    folder = RunFolder.reopen(run)
    try:
        return folder.settings
    finally:
        folder.close()


def write_finished(final: Path, simulation: Simulation, result: SelectionResult) -> None:
    """Write the folder of a run that was made in memory."""
    folder = RunFolder.create(final, simulation.seeds, simulation.settings)
    try:
        run_id, kept = simulation.federation.run_id, set(simulation.result.server.asked)
        for name, client in simulation.clients.items():
            share = None
            if simulation.channel is not None and name in kept:
                share = simulation.channel.roles[name].state.share.share
            sigma = simulation.settings.sigma if simulation.channel is not None else 0
            write_client_files(
                folder.storage.clients[name], client, run_id, share=share, sigma=sigma, kept=name in kept
            )
        folder.finish(simulation, result)
    except BaseException:
        folder.discard()
        raise


def read_result(run: Path) -> SelectionResult:
    """Read the selection.json of a finished run."""
    path = run / "selection.json"
    try:
        return SelectionResult.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} cannot be read; is {run} a finished run?") from None


def partial_of(final: Path) -> Path:
    """Return where a run lies until it has succeeded."""
    final = final.resolve()
    return final.with_name(final.name + ".partial")


def _open_private(path: Path) -> TextIO:
    """Open a new file that only its owner can ever read."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w+", encoding="utf-8")


def _write(path: Path, text: str) -> None:
    with _open_private(path) as file:
        file.write(text)


def _write_json(path: Path, content: Any) -> None:
    _write(path, to_json(content, indent=1) + "\n")


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    """Turn what the file system says into one clear line."""
    try:
        yield
    except OSError as problem:
        raise ConfigError(f"Cannot write to {folder}: {problem.strerror or problem}.") from None

"""Runs in the tools that compare experiments: TensorBoard and MLflow, both optional.

A tracker watches every step (it is called with each `Update`, as any watcher) and takes the result at the end::

    with tracking(settings, name="first", tensorboard=Path("boards")) as trackers:
        result = fedsdg.run(job, "runs/first", trackers.watch(show))
        trackers.finish(result)

What it records are numbers of the whole run: loss, score, open features and embedding dimensions, bytes, seconds, the
settings, and how many columns each client selected. Names of columns and values of gates belong to the client that
holds the columns, and a tracking server is read by others: they are never recorded, and no file of the run is uploaded.

A tool that cannot be used is told before any work starts. One that fails later is left alone from then on: a secure
run of hours does not end because a tracking server did.
"""

from __future__ import annotations

import importlib
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fedsdg.errors import ConfigError
from fedsdg.job import RunSettings
from fedsdg.results import SelectionResult
from fedsdg.server.run import Update, Watch

logger = logging.getLogger("fedsdg.run")

Number = float | int


class Tracker(ABC):
    """One tool that records a run."""

    name: str

    @abstractmethod
    def step(self, phase: str, step: int, numbers: Mapping[str, Number]) -> None:
        """Record one step of a phase."""

    @abstractmethod
    def finish(self, numbers: Mapping[str, Number], words: Mapping[str, str]) -> None:
        """Record the result."""

    @abstractmethod
    def close(self, succeeded: bool) -> None:
        """Write what is left."""


class Trackers:
    """All trackers of one run; one that fails is dropped, and the others go on."""

    def __init__(self, trackers: list[Tracker]) -> None:
        self._trackers = trackers
        self._last: Update | None = None

    def watch(self, then: Watch = lambda update: None) -> Watch:
        """Return a watcher that records every step before it passes it on."""

        def record(update: Update) -> None:
            numbers = numbers_of_step(update, self._last)
            self._last = update
            if numbers:
                self._each(lambda tracker: tracker.step(update.phase, update.step, numbers))
            then(update)

        return record

    def finish(self, result: SelectionResult) -> None:
        """Record what was found."""
        self._each(lambda tracker: tracker.finish(numbers_of_result(result), words_of_result(result)))

    def close(self, succeeded: bool) -> None:
        """Let all trackers write what is left."""
        self._each(lambda tracker: tracker.close(succeeded))

    def _each(self, work: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                work(tracker)
            except Exception as problem:
                self._trackers.remove(tracker)
                logger.warning("%s failed (%s): it records no more", tracker.name, type(problem).__name__)


@contextmanager
def tracking(
    settings: RunSettings, *, name: str, tensorboard: Path | None = None, mlflow: str | None = None
) -> Iterator[Trackers]:
    """Open the trackers that are wished for (perhaps none), and close them whatever happens."""
    opened: list[Tracker] = []
    trackers = Trackers(opened)
    succeeded = False
    try:
        if mlflow is not None:  # first: of the two it is the one that can be out of reach
            opened.append(MLflow(mlflow, name, settings))
        if tensorboard is not None:
            opened.append(TensorBoard(tensorboard / name, settings))
        yield trackers
        succeeded = True
    finally:
        trackers.close(succeeded)


class TensorBoard(Tracker):
    """Event files in a folder, for `tensorboard --logdir`."""

    name = "TensorBoard"

    def __init__(self, folder: Path, settings: RunSettings) -> None:
        """Open a new event file; the settings become hyperparameters."""
        load = _from_package("tensorboard", "--tensorboard")
        self._events, self._summaries = load("compat.proto.event_pb2"), load("compat.proto.summary_pb2")
        self._tensors, self._texts = load("util.tensor_util"), load("plugins.text.metadata")
        self._session, self._hparams = load("plugins.hparams.plugin_data_pb2"), load("plugins.hparams.metadata")
        self._status = load("plugins.hparams.api_pb2")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = load("summary.writer.event_file_writer").EventFileWriter(str(folder))
        except OSError as problem:
            raise ConfigError(f"--tensorboard: cannot write to {folder}: {problem.strerror or problem}.") from None
        self._add(load("plugins.hparams.summary_v2").hparams_pb(dict(flat(settings))), 0)

    def step(self, phase: str, step: int, numbers: Mapping[str, Number]) -> None:
        """See `Tracker`."""
        self._scalars({f"{phase}/{name}": number for name, number in numbers.items()}, step)

    def finish(self, numbers: Mapping[str, Number], words: Mapping[str, str]) -> None:
        """See `Tracker`: scalars, and a table to read."""
        self._scalars({f"result/{name}": number for name, number in numbers.items()}, 0)
        lines = ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in words.items())]
        lines += [f"| {name} | {number:.6g} |" for name, number in numbers.items()]
        value = self._summaries.Summary.Value(
            tag="result",
            metadata=self._texts.create_summary_metadata("result", ""),
            tensor=self._tensors.make_tensor_proto("\n".join(lines)),
        )
        self._add(self._summaries.Summary(value=[value]), 0)

    def close(self, succeeded: bool) -> None:
        """See `Tracker`."""
        status = self._status.STATUS_SUCCESS if succeeded else self._status.STATUS_FAILURE
        end = self._session.SessionEndInfo(status=status, end_time_secs=time.time())
        value = self._summaries.Summary.Value(
            tag=self._hparams.SESSION_END_INFO_TAG,
            metadata=self._hparams.create_summary_metadata(self._session.HParamsPluginData(session_end_info=end)),
            tensor=self._hparams.NULL_TENSOR,
        )
        self._add(self._summaries.Summary(value=[value]), 0)
        self._writer.close()

    def _scalars(self, numbers: Mapping[str, Number], step: int) -> None:
        values = [self._summaries.Summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
        self._add(self._summaries.Summary(value=values), step)

    def _add(self, summary: Any, step: int) -> None:
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))


class MLflow(Tracker):
    """A run in the experiment `fedsdg` of an MLflow server or folder."""

    name = "MLflow"
    #: Steps that are sent together: a request per step would slow a run down.
    TOGETHER = 10
    #: MLflow takes no more of them at once.
    MOST_PARAMETERS = 100

    def __init__(self, uri: str, name: str, settings: RunSettings) -> None:
        """Start a run with the settings as parameters."""
        # A privacy product does not report to third parties; and an unreachable server is to be told in seconds.
        for variable, value in (
            ("MLFLOW_DISABLE_TELEMETRY", "true"),
            ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"),
            ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10"),
        ):
            os.environ.setdefault(variable, value)
        if urlsplit(uri).scheme in ("", "file"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder was asked for
        load = _from_package("mlflow", "--mlflow")
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._entities = load("entities")
        self._waiting: list[Any] = []
        self._steps = 0
        try:
            self._client = load("tracking").MlflowClient(tracking_uri=uri)
            found = self._client.get_experiment_by_name("fedsdg")
            experiment = self._client.create_experiment("fedsdg") if found is None else found.experiment_id
            self._run: str = self._client.create_run(experiment, run_name=name).info.run_id
            parameters = [self._entities.Param(key, str(value)) for key, value in flat(settings)]
            for first in range(0, len(parameters), self.MOST_PARAMETERS):
                self._client.log_batch(self._run, params=parameters[first : first + self.MOST_PARAMETERS])
        except Exception as problem:
            lacking = f": the package {problem.name} is missing" if isinstance(problem, ModuleNotFoundError) else ""
            # Neither the address (it may hold a password) nor MLflow's words, which repeat it.
            raise ConfigError(
                f"--mlflow: this MLflow store cannot be used ({type(problem).__name__}{lacking}); check the address, "
                "and that the server runs and lets you in."
            ) from None

    def step(self, phase: str, step: int, numbers: Mapping[str, Number]) -> None:
        """See `Tracker`."""
        self._take({f"{phase}/{name}": number for name, number in numbers.items()}, step)
        self._steps += 1
        if self._steps % self.TOGETHER == 0:
            self._send()

    def finish(self, numbers: Mapping[str, Number], words: Mapping[str, str]) -> None:
        """See `Tracker`: the last metrics, and words as tags."""
        self._take(numbers, 0)
        self._send()
        self._client.log_batch(
            self._run, tags=[self._entities.RunTag(f"fedsdg.{name}", text) for name, text in words.items()]
        )

    def close(self, succeeded: bool) -> None:
        """See `Tracker`."""
        self._send()
        self._client.set_terminated(self._run, "FINISHED" if succeeded else "FAILED")

    def _take(self, numbers: Mapping[str, Number], step: int) -> None:
        now = time.time_ns() // 1_000_000
        self._waiting += [self._entities.Metric(key, float(number), now, step) for key, number in numbers.items()]

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._client.log_batch(self._run, metrics=waiting)


def numbers_of_step(update: Update, before: Update | None) -> dict[str, Number]:
    """Return what a step says, without what it does not say; nothing for an update that is no step."""
    if update.loss is None:
        return {}
    known = {
        "loss": update.loss,
        "score": update.score,
        "open_features": update.open_features,
        "open_embeddings": update.open_embeddings,
        "bytes": update.bytes,
    }
    if before is not None and before.phase == update.phase and before.step == update.step - 1:
        known["seconds_per_step"] = update.seconds - before.seconds
    return {name: number for name, number in known.items() if number is not None}


def numbers_of_result(result: SelectionResult) -> dict[str, Number]:
    """Return the numbers of a result: scores, counts and cost."""
    numbers: dict[str, Number] = {name: value for name, value in result.metrics.items() if not isinstance(value, str)}
    numbers |= {f"selected/{name}": len(client.selected) for name, client in result.clients.items()}
    numbers |= {f"seconds/{phase}": seconds for phase, seconds in result.seconds.items()}
    return numbers | {"bytes": result.bytes["total"], "messages": sum(result.messages.values())}


def words_of_result(result: SelectionResult) -> dict[str, str]:
    """Return what describes a result in words."""
    words = {name: value for name, value in result.metrics.items() if isinstance(value, str)}
    words |= {"profile": result.profile, "key_bits": str(result.key_bits), "backend": result.backend}
    words |= {f"version.{package}": version for package, version in result.versions.items()}
    return words | {"config_hash": result.config_hash}


def flat(settings: RunSettings) -> Iterator[tuple[str, str | Number]]:
    """Yield every setting under its full name, as in a job file: `training.gated_phase.steps`."""

    def visit(where: str, value: Any) -> Iterator[tuple[str, str | Number]]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from visit(f"{where}.{name}" if where else name, inner)
        else:
            yield where, value if isinstance(value, int | float | str) else str(value)

    yield from visit("", settings.model_dump(mode="json"))


def _from_package(package: str, option: str) -> Callable[[str], Any]:
    """Return what loads a module of an optional package, or say how to get the package."""
    try:
        importlib.import_module(package)
    except ImportError:
        raise ConfigError(
            f"{option} needs the package {package}; install it with: pip install 'fedsdg[{package}]'"
        ) from None
    return lambda module: importlib.import_module(f"{package}.{module}")

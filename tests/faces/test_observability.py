"""An operator can follow a run: on standard error, in run.log, in TensorBoard and in MLflow."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import stat
import subprocess
import sys
from functools import partial

import pytest

import fedsdg
from fedsdg import api, simulation, trackers
from fedsdg.errors import ConfigError, RunStopped
from fedsdg.job import RunSettings, load_job
from fedsdg.run_log import PACKAGE, RunLog
from fedsdg.server.run import Update
from fedsdg.trackers import Tracker, Trackers, flat, numbers_of_step, tracking


def needs(package):
    """Leave a test out where the optional package is not installed."""
    absent = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(absent, reason=f"the optional package {package} is not installed")


@pytest.fixture
def ready(job_folder):
    job_folder.write()
    return job_folder


@pytest.fixture
def masked(job_folder, monkeypatch):
    """A job under encryption, with keys that are small enough for a test."""
    job_folder.job_settings = 'profile = "masked"\ncheckpoint_every = 3'
    job_folder.write()
    monkeypatch.setattr(api, "simulate", partial(simulation.simulate, key_bits=512, allow_test_keys=True))
    return job_folder


def in_order(text, *wanted):
    """Whether all these patterns occur, one after the other."""
    place = 0
    for pattern in wanted:
        match = re.compile(pattern).search(text, place)
        assert match, f"{pattern!r} is missing after:\n{text[:place][-500:]}"
        place = match.end()
    return True


# --- The log -------------------------------------------------------------------------------------------------------

STORY = (
    r"fedsdg \S+ writes the run 'run'",
    r"client 'left' joined: 512-bit keys, back end \w+, 60 rows, 3 columns",
    r"profile masked, 512-bit keys, back end \w+, 2 client",
    r"client 'right' takes part with 2 columns",
    r"client 'left' compares its 60 ids with 60 ids of the server",
    r"client 'right' keeps 60 of its 60 rows",
    r"aligned: 60 ids in common \(held: server 60, left 60, right 60\)",
    r"48 rows to train and validate with, 12 to test with",
    r"gini phase: begins",
    r"client 'left': Gini scores of 3 columns",
    r"gini phase: ends",
    r"gated phase: begins",
    r"gated step 3 of 6: validation score [\d.]+, \d open features, \d+ open embedding",
    r"wrote checkpoint 3",
    r"client 'left' selected \d of its 3 columns",
    r"gated phase: ends after \d steps",
    r"compact phase: begins",
    r"compact phase: ends after 4 steps",
    r"selected \d columns at step \d \(left \d, right \d\)",
    r"validation score: gated [\d.]+, compact [\d.]+; the \w+ model is kept",
    r"test score [\d.]+",
    r"finished: \d+ messages, \d+ bytes, [\d.]+ s",
    r"the run 'run' is complete",
)


def test_run_log_tells_the_whole_story_of_a_run_in_order(masked):
    fedsdg.run(masked.job, masked.run)
    log = (masked.run / "run.log").read_text(encoding="utf-8")
    assert in_order(log, *STORY)
    assert "DEBUG" not in log


def test_only_the_owner_can_read_run_log(ready):
    fedsdg.run(ready.job, ready.run)
    assert stat.S_IMODE((ready.run / "run.log").stat().st_mode) == 0o600
    assert "profile plain, nothing is encrypted" in (ready.run / "run.log").read_text(encoding="utf-8")


def test_a_resumed_run_goes_on_in_the_same_log_and_says_from_where(masked):
    seen = []
    with pytest.raises(RunStopped):
        fedsdg.run(masked.job, masked.run, seen.append, stop=lambda: len(seen) > 5)
    fedsdg.resume(masked.run)
    log = (masked.run / "run.log").read_text(encoding="utf-8")
    assert in_order(
        log,
        r"fedsdg \S+ writes",
        r"was interrupted; it can go on",
        r"fedsdg \S+ writes",
        r"client left goes back to checkpoint 4",
        r"resumed from the checkpoint after step 4",
        r"compact phase: ends",
        r"is complete",
    )


def test_a_resumption_that_is_refused_leaves_the_log_of_the_process_alone(masked):
    seen = []
    with pytest.raises(RunStopped):
        fedsdg.run(masked.job, masked.run, seen.append, stop=lambda: len(seen) > 3)
    table = masked.path / "left.csv"
    table.write_text(table.read_text().replace("person-001,", "person-001,1"))
    with pytest.raises(fedsdg.errors.FedSDGError):
        fedsdg.resume(masked.run)
    assert not any(isinstance(handler, logging.StreamHandler) for handler in PACKAGE.handlers)


def test_the_log_level_says_how_much_is_shown(command, masked):
    quiet = command("run", masked.job, "--out", masked.path / "run1", "--quiet")
    assert quiet.err == ""
    told = command("run", masked.job, "--out", masked.path / "run2", "--quiet", "--log-level", "info")
    assert "INFO fedsdg.server: aligned: 60 ids" in told.err
    assert "DEBUG" not in told.err


def test_at_debug_every_message_is_shown_by_kind_direction_size_and_party(command, masked):
    shown = command("run", masked.job, "--out", masked.run, "--quiet", "--log-level", "debug").err
    lines = re.findall(r"DEBUG fedsdg.server: (\w+) (to|from) client '(\w+)': (\d+) bytes", shown)
    record = json.loads((masked.run / "selection.json").read_text())
    counted, sizes = {}, {"to": {}, "from": {}}
    for kind, direction, client, size in lines:
        assert client in record["clients"]
        counted[kind] = counted.get(kind, 0) + 1
        sizes[direction][kind] = sizes[direction].get(kind, 0) + int(size)
    assert counted == record["messages"]
    assert sizes == {"to": record["bytes"]["to_clients"], "from": record["bytes"]["to_server"]}
    assert "DEBUG fedsdg.client: client 'left': JoinRun of" in shown


@pytest.mark.parametrize("name", ["run", "resume", "predict", "align"])
def test_every_command_that_works_with_others_takes_a_log_level(command, name):
    assert "--log-level" in re.sub(r"\x1b\[[0-9;]*m", "", command(name, "--help").out)


def test_an_unknown_log_level_is_refused(command, ready):
    outcome = command("run", ready.job, "--out", ready.run, "--log-level", "loud")
    assert outcome.code == 2
    assert "loud" in outcome.err
    assert ready.leftovers() == []


def test_other_libraries_are_not_made_talkative(command, ready, monkeypatch):
    def run_beside_a_library(*arguments, **options):
        library = logging.getLogger("some_library")
        library.debug("a library's detail")
        library.info("a library's news")
        return simulation.simulate(*arguments, **options)

    monkeypatch.setattr(api, "simulate", run_beside_a_library)
    outcome = command("run", ready.job, "--out", ready.run, "--quiet", "--log-level", "debug")
    assert "DEBUG fedsdg" in outcome.err
    assert "library" not in outcome.err + (ready.run / "run.log").read_text()


class Kept(logging.Handler):
    """A handler of the program around us."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture
def around():
    """The root logger of a program that configured logging for itself."""
    root, handler = logging.getLogger(), Kept()
    before = root.level
    root.addHandler(handler)
    yield root, handler
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.mark.parametrize(("level", "expected"), [("WARNING", ["bad"]), ("INFO", ["good", "bad"])])
def test_a_program_that_configured_logging_gets_what_it_asked_for(tmp_path, around, level, expected):
    root, handler = around
    root.setLevel(level)
    log = RunLog(tmp_path / "run.log")
    logging.getLogger("fedsdg.run").info("good")
    logging.getLogger("fedsdg.run").warning("bad")
    log.close()
    assert handler.lines == expected
    assert [line.split(": ")[1] for line in (tmp_path / "run.log").read_text().splitlines()] == ["good", "bad"]


def test_after_a_run_logging_is_as_it_was(tmp_path):
    before = list(PACKAGE.handlers), PACKAGE.level, PACKAGE.propagate
    first, second = RunLog(tmp_path / "1.log"), RunLog(tmp_path / "2.log")
    first.close()
    logging.getLogger("fedsdg.run").info("for the second")
    second.close()
    second.close()
    assert (list(PACKAGE.handlers), PACKAGE.level, PACKAGE.propagate) == before
    assert (tmp_path / "1.log").read_text() == ""
    assert "for the second" in (tmp_path / "2.log").read_text()


def test_a_warning_is_shown_once(tmp_path):
    """Python itself shows warnings of a process without any handler, and must not do so beside ours."""
    program = (
        "import logging\n"
        "from fedsdg.cli.logs import log_to_stderr\n"
        "logging.getLogger('fedsdg.run').warning('first')\n"
        "log_to_stderr('info')\n"
        "logging.getLogger('fedsdg.run').warning('second')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("first") == done.stderr.count("second") == 1


# --- Trackers ------------------------------------------------------------------------------------------------------


class Noted(Tracker):
    """A tracker that remembers, and fails when it is told to."""

    name = "a notebook"

    def __init__(self, fails_at=None):
        self.steps, self.result, self.ended, self._fails_at = [], None, None, fails_at

    def step(self, phase, step, numbers):
        if len(self.steps) == self._fails_at:
            raise OSError("the tracking server went away")
        self.steps.append((phase, step, dict(numbers)))

    def finish(self, numbers, words):
        self.result = dict(numbers), dict(words)

    def close(self, succeeded):
        self.ended = succeeded


def metrics(run):
    """Return what the run itself recorded of every step."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_step_is_recorded_with_what_it_says_and_nothing_else():
    first = Update("gated", 1, 9, 0.5, None, 8, None, 100, 2.0)
    looked = Update("gated", 2, 9, 0.4, 7, 8, 0.9, 150, 2.5)
    assert numbers_of_step(Update("gini", 0, 1, None, None, None, None, 9, 0.0), None) == {}
    assert numbers_of_step(first, None) == {"loss": 0.5, "open_embeddings": 8, "bytes": 100}
    assert numbers_of_step(looked, first) == {
        "loss": 0.4,
        "score": 0.9,
        "open_features": 7,
        "open_embeddings": 8,
        "bytes": 150,
        "seconds_per_step": 0.5,
    }
    other_phase = Update("compact", 1, 4, 0.3, None, 8, None, 160, 4.0)
    assert "seconds_per_step" not in numbers_of_step(other_phase, looked)


def test_settings_are_recorded_under_the_names_of_a_job_file():
    named = dict(flat(RunSettings()))
    assert named["training.gated_phase.steps"] == 250
    assert named["profile"] == "masked"
    assert named["label_epsilon"] == "None"


def test_a_tracker_sees_every_step_and_the_result(ready):
    notes, shown = Noted(), []
    all_of_them = Trackers([notes])
    result = fedsdg.run(ready.job, ready.run, all_of_them.watch(shown.append))
    all_of_them.finish(result)
    assert [(phase, step) for phase, step, _ in notes.steps] == [(m["phase"], m["step"]) for m in metrics(ready.run)]
    assert len(shown) > len(notes.steps)  # what is no step is passed on, too
    numbers, words = notes.result
    assert numbers["n_selected"] == numbers["selected/left"] + numbers["selected/right"] == result.n_selected
    assert words["profile"] == "plain"


def test_a_tracker_that_fails_is_left_alone_and_the_run_goes_on(ready, caplog):
    broken, healthy = Noted(fails_at=2), Noted()
    both = Trackers([broken, healthy])
    result = fedsdg.run(ready.job, ready.run, both.watch())
    both.finish(result)
    both.close(True)
    assert len(broken.steps) == 2
    assert broken.result is broken.ended is None
    assert len(healthy.steps) == len(metrics(ready.run))
    assert healthy.ended is True
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["a notebook failed (OSError): it records no more"]


@pytest.mark.parametrize("package", ["tensorboard", "mlflow"])
def test_a_missing_package_is_told_before_any_work_starts(command, ready, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    outcome = command("run", ready.job, "--out", ready.run, f"--{package}", ready.path / "tracked")
    assert outcome.code == 2
    assert f"pip install 'fedsdg[{package}]'" in outcome.err
    assert outcome.err.count("\n") == 1
    assert ready.leftovers() == []
    assert not (ready.path / "tracked").exists()


def test_an_unusable_folder_of_a_run_is_told_before_a_tracker_is_opened(command, ready):
    ready.run.mkdir()
    (ready.run / "mine").write_text("")
    outcome = command("run", ready.job, "--out", ready.run, "--tensorboard", ready.path / "boards")
    assert outcome.code == 2
    assert not (ready.path / "boards").exists()


@needs("tensorboard")
def test_tensorboard_reads_back_what_the_run_recorded(command, ready):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    boards = ready.path / "boards"
    assert command("run", ready.job, "--out", ready.run, "--quiet", "--tensorboard", boards).code == 0
    events = EventAccumulator(str(boards / "run"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    steps = metrics(ready.run)
    for phase in ("gated", "compact"):
        own = [m for m in steps if m["phase"] == phase]
        for name in ("loss", "open_embeddings", "bytes"):
            read = [(event.step, event.value) for event in events.Scalars(f"{phase}/{name}")]
            assert read == [(m["step"], pytest.approx(m[name])) for m in own]
        assert len(events.Scalars(f"{phase}/seconds_per_step")) == len(own) - 1
    looked = [m for m in steps if m["score"] is not None]
    assert [event.value for event in events.Scalars("gated/score")] == pytest.approx([m["score"] for m in looked])
    assert [event.value for event in events.Scalars("gated/open_features")] == [m["open_features"] for m in looked]
    record = json.loads((ready.run / "selection.json").read_text())
    assert events.Scalars("result/validation")[0].value == pytest.approx(record["metrics"]["validation"])
    table = events.Tensors("result")[0].tensor_proto.string_val[0].decode()
    assert "| profile | plain |" in table
    assert {"_hparams_/session_start_info", "_hparams_/session_end_info"} <= set(events.summary_metadata)
    assert b"training.gated_phase.steps" in b"".join(path.read_bytes() for path in (boards / "run").iterdir())


@needs("tensorboard")
def test_tensorboard_needs_a_folder_that_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match="--tensorboard: cannot write to"),
        tracking(RunSettings(), name="run", tensorboard=tmp_path / "file"),
    ):
        pass


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder for MLflow, and the client that reads it."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    folder = tmp_path / "tracked"

    def runs():
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=str(folder))
        return client, client.search_runs([client.get_experiment_by_name("fedsdg").experiment_id])

    return folder, runs


@needs("mlflow")
def test_mlflow_reads_back_what_the_run_recorded(command, ready, store):
    folder, runs = store
    assert command("run", ready.job, "--out", ready.run, "--quiet", "--mlflow", folder).code == 0
    client, (run,) = runs()
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"
    steps = metrics(ready.run)
    for phase in ("gated", "compact"):
        read = {m.step: m.value for m in client.get_metric_history(run.info.run_id, f"{phase}/loss")}
        assert read == {m["step"]: m["loss"] for m in steps if m["phase"] == phase}
    record = json.loads((ready.run / "selection.json").read_text())
    assert run.data.metrics["validation"] == record["metrics"]["validation"]
    assert run.data.metrics["selected/left"] == len(record["clients"]["left"]["selected"])
    assert run.data.params["training.gated_phase.steps"] == "6"
    assert run.data.params == {name: str(value) for name, value in flat(load_job(ready.job).settings)}
    assert run.data.tags["fedsdg.config_hash"] == record["config_hash"]
    assert client.list_artifacts(run.info.run_id) == []


@needs("mlflow")
def test_a_run_that_stops_is_no_success_in_mlflow(ready, store):
    folder, runs = store
    seen = []
    with (
        pytest.raises(RunStopped),
        tracking(load_job(ready.job).settings, name="run", mlflow=str(folder)) as opened,
    ):
        fedsdg.run(ready.job, ready.run, opened.watch(seen.append), stop=lambda: len(seen) > 3)
    client, (run,) = runs()
    assert run.info.status == "FAILED"
    assert len(client.get_metric_history(run.info.run_id, "gated/loss")) == len(metrics(ready.path / "run.partial"))


@needs("mlflow")
def test_a_store_that_cannot_be_used_is_told_without_its_password(command, ready):
    boards = ready.path / "boards"
    arguments = ("--tensorboard", boards, "--mlflow", "nonsense://me:pass-word@there")
    outcome = command("run", ready.job, "--out", ready.run, *arguments)
    assert outcome.code == 2
    assert "--mlflow: this MLflow store cannot be used" in outcome.err
    assert "pass-word" not in outcome.err
    assert ready.leftovers() == []
    assert not boards.exists()


@needs("tensorboard")
@needs("mlflow")
def test_names_of_columns_reach_no_tracker(command, ready, store):
    folder, _ = store
    boards = ready.path / "boards"
    odd = {"a0": "column_zq_0", "a1": "column_zq_1", "a2": "column_zq_2"}
    ready.frames["left"].rename(odd).write_csv(ready.path / "left.csv")
    arguments = ("--quiet", "--tensorboard", boards, "--mlflow", folder)
    assert command("run", ready.job, "--out", ready.run, *arguments).code == 0
    assert b"column_zq" in (ready.run / "selection.json").read_bytes()
    written = [path for root in (boards, folder) for path in root.rglob("*")]
    assert sum(path.is_file() for path in written) > 20
    for path in written:
        assert "column_zq" not in path.name
        assert not path.is_file() or b"column_zq" not in path.read_bytes()


@needs("tensorboard")
def test_a_resumed_run_is_recorded_beside_its_first_part(command, masked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    boards, seen = masked.path / "boards", []
    with (
        pytest.raises(RunStopped),
        tracking(load_job(masked.job).settings, name="run", tensorboard=boards) as opened,
    ):
        fedsdg.run(masked.job, masked.run, opened.watch(seen.append), stop=lambda: len(seen) > 4)
    assert command("resume", masked.run, "--quiet", "--tensorboard", boards).code == 0
    events = EventAccumulator(str(boards / "run")).Reload()
    assert [event.step for event in events.Scalars("compact/loss")] == [1, 2, 3, 4]
    assert [event.step for event in events.Scalars("gated/loss")] == [
        m["step"] for m in metrics(masked.run) if m["phase"] == "gated"
    ]


def test_trackers_are_closed_whatever_happens(monkeypatch, tmp_path):
    notes = Noted()
    monkeypatch.setattr(trackers, "TensorBoard", lambda folder, settings: notes)
    with pytest.raises(ZeroDivisionError), tracking(RunSettings(), name="run", tensorboard=tmp_path):
        raise ZeroDivisionError
    assert notes.ended is False

"""The `fedsdg` command as an impatient user meets it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

import fedsdg
from fedsdg import demo as demonstration
from fedsdg.benchmarks import crypto as crypto_benchmark
from fedsdg.cli import one_line
from fedsdg.config import PhaseSettings, TrainingConfig
from fedsdg.errors import ConfigError, DataError, PeerError
from fedsdg.results import SelectionResult

TOP_LEVEL = {
    "profile",
    "key_bits",
    "backend",
    "clients",
    "metrics",
    "bytes",
    "messages",
    "seconds",
    "versions",
}
FEW = TrainingConfig(
    gated_phase=PhaseSettings(steps=4, batch_size=32), compact_phase=PhaseSettings(steps=4, batch_size=32)
)


@pytest.fixture
def ready(job_folder):
    job_folder.write()
    return job_folder


def refused(outcome, reason):
    """One clear line on standard error, exit code 2, no traceback."""
    assert outcome.code == 2
    assert re.search(reason, outcome.err), outcome.err
    assert outcome.err.startswith("fedsdg: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err
    return True


def test_the_version_is_printed(command):
    assert command("--version").out == f"fedsdg {fedsdg.__version__}\n"


def test_without_a_command_there_is_help(command):
    assert "estimate" in command().out + command().err


def test_init_writes_a_job_that_runs(command, tmp_path):
    outcome = command("init", tmp_path / "new job")
    assert outcome.code == 0
    written = [line.removeprefix("written: ") for line in outcome.out.splitlines() if line.startswith("written: ")]
    assert {path.name for path in (tmp_path / "new job").iterdir()} == {w.rsplit("/", 1)[1] for w in written}
    assert outcome.out.splitlines()[-1] == (
        f"next: fedsdg run '{tmp_path / 'new job' / 'job.toml'}' --out '{tmp_path / 'new job' / 'run'}'"
    )
    text = (tmp_path / "new job" / "job.toml").read_text()
    for phase, steps in (("gated", 250), ("compact", 600)):  # the same job, shorter
        said = f"# [training.{phase}_phase]\n# steps = {steps}"
        assert said in text
        text = text.replace(said, f"[training.{phase}_phase]\nsteps = 10")
    (tmp_path / "new job" / "job.toml").write_text(text.replace('profile = "masked"', 'profile = "plain"'))
    assert command("run", tmp_path / "new job" / "job.toml", "--out", tmp_path / "run", "--quiet").code == 0
    found = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert set(found["clients"]) == {"phone_company", "web_shop"}


def test_what_the_job_of_init_calls_a_default_is_the_default(command, tmp_path):
    command("init", tmp_path)
    path = tmp_path / "job.toml"
    before = fedsdg.load_job(path)
    lines = path.read_text().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("[training]")))
    uncommented = [line.removeprefix("# ") if not line.startswith("# n_features") else line for line in lines[start:]]
    path.write_text("\n".join(lines[:start] + uncommented), encoding="utf-8")
    assert fedsdg.load_job(path) == before


def test_init_overwrites_nothing(command, tmp_path):
    (tmp_path / "web_shop.csv").write_text("mine")
    assert refused(command("init", tmp_path), "web_shop.csv exists; `fedsdg init` overwrites nothing")
    assert [path.name for path in tmp_path.iterdir()] == ["web_shop.csv"]
    assert (tmp_path / "web_shop.csv").read_text() == "mine"


def test_init_needs_a_folder_that_can_be_written(command, tmp_path):
    (tmp_path / "file").write_text("")
    assert refused(command("init", tmp_path / "file"), "is a file")
    assert refused(command("init", tmp_path / "file" / "below"), "Cannot write to")
    assert refused(command("init", "/proc/nothing"), "Cannot write to /proc/nothing")


def test_a_run_prints_its_selection_its_cost_and_where_the_files_are(command, ready):
    outcome = command("run", ready.job, "--out", ready.run)
    assert outcome.code == 0
    assert "left" in outcome.out
    assert "accuracy: validation" in outcome.out
    assert "what leaks: Nothing is encrypted" in outcome.out
    assert f"files: {ready.run}/ (selection.json, metrics.jsonl, one folder per party)\n" in outcome.out
    assert "compact 4/4 loss" in outcome.err


def test_column_names_are_printed_as_they_are(command, ready):
    odd = {"a0": "[bold]x[/bold]", "a1": "price[usd]", "a2": "[/]"}
    ready.frames["left"].rename(odd).write_csv(ready.path / "left.csv")
    ready.job.write_text(ready.job.read_text() + "[training]\nn_features = 5\n", encoding="utf-8")
    outcome = command("run", ready.job, "--out", ready.path / "run[1]")
    assert outcome.code == 0
    text = "".join(outcome.out.split())
    assert all("".join(name.split()) in text for name in odd.values())
    assert "run[1]/(selection.json" in text


def test_quiet_prints_nothing_on_success(command, ready):
    outcome = command("run", ready.job, "--out", ready.run, "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert (ready.run / "selection.json").is_file()


def test_quiet_still_prints_errors(command, ready):
    (ready.path / "left.csv").write_text("")
    assert refused(command("run", ready.job, "--out", ready.run, "--quiet"), "left.csv cannot be read")


def test_json_lines_are_one_object_per_step_and_the_result_last(command, ready):
    outcome = command("run", ready.job, "--out", ready.run, "--json-lines")
    lines = [json.loads(line, parse_constant=pytest.fail) for line in outcome.out.splitlines()]
    assert outcome.err == ""
    assert [line["step"] for line in lines if line.get("phase") == "gated"] == [1, 2, 3, 4, 5, 6]
    assert all("result" not in line for line in lines[:-1])
    assert set(lines[-1]["result"]) >= TOP_LEVEL
    assert lines[-1]["result"] == json.loads((ready.run / "selection.json").read_text())


def test_folders_above_the_run_are_made(command, ready):
    assert command("run", ready.job, "--out", ready.path / "runs" / "first", "--quiet").code == 0
    assert (ready.path / "runs" / "first" / "selection.json").is_file()


def test_an_existing_run_is_refused_before_anything_is_read(command, ready):
    ready.run.mkdir()
    (ready.run / "precious").write_text("")
    (ready.path / "left.csv").unlink()
    assert refused(command("run", ready.job, "--out", ready.run), "exists and is not empty; choose another folder")
    assert [path.name for path in ready.run.iterdir()] == ["precious"]


def test_an_empty_folder_may_become_the_run(command, ready):
    ready.run.mkdir()
    assert command("run", ready.job, "--out", ready.run, "--quiet").code == 0
    assert ready.run.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("run", "nowhere.toml", "--out", "run"), "There is no job file nowhere.toml"),
        (("estimate", "nowhere.toml"), "There is no job file nowhere.toml"),
        (("demo", "--out", "/proc/nothing"), "Cannot write to"),
        (("demo", "--out", "/dev/null"), "/dev/null exists"),
        (("demo", "--key-bits", "1024", "--out", "new"), "key_bits: 2048 or 3072, not 1024"),
        (("bench", "crypto", "--json", "no/where.json"), "the folder no does not exist"),
        (("bench", "crypto", "--markdown", "/tmp"), "Cannot write /tmp: it is a folder"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(command, arguments, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(command(*arguments), reason)
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_that_cannot_be_written_is_one_clear_line(command, ready):
    assert refused(command("run", ready.job, "--out", "/proc/nothing"), "Cannot write to")
    assert refused(command("run", ready.job, "--out", ready.path / "left.csv" / "run"), "left.csv is a file")
    assert refused(command("run", ready.job, "--out", ready.job), "exists and is not empty")


def test_an_error_of_the_user_interface_itself_is_usage_and_exit_code_2(command):
    outcome = command("run", "job.toml")
    assert outcome.code == 2
    assert "--out" in outcome.err


def test_a_fault_of_ours_shows_where_it_happened(command, ready, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("fedsdg.api.simulate", broken)
    with pytest.raises(ZeroDivisionError):
        command("run", ready.job, "--out", ready.run)
    assert ready.leftovers() == []


def test_a_refusal_of_a_client_comes_with_its_reason():
    problem = PeerError("client 'left' refused PrepareColumns: DataError")
    problem.__cause__ = DataError("left: too\nfew rows")
    assert one_line(problem) == "client 'left' refused PrepareColumns: DataError (left: too few rows)"
    assert one_line(ConfigError("a\n b")) == "a b"


def test_an_estimate_lists_phases_and_a_total(command, ready):
    ready.job.write_text(ready.job.read_text().replace('"plain"', '"masked"'), encoding="utf-8")
    outcome = command("estimate", ready.job)
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[1:7]] == [
        "keys",
        "align",
        "gini",
        "gated",
        "compact",
        "test",
    ]
    assert "at most" in outcome.out
    assert ready.leftovers() == []


def test_an_estimate_of_bad_tables_is_the_error_of_the_run(command, ready):
    (ready.path / "left.csv").write_text("id,a0\n")
    assert refused(command("estimate", ready.job), "left: left.csv has no rows")


def test_doctor_finds_nothing_broken_here(command):
    outcome = command("doctor")
    assert outcome.code == 0
    assert "self-test: 2048-bit key made, values encrypted, multiplied, decrypted: correct\n" in outcome.out


def test_the_benchmark_writes_what_it_prints(command, tmp_path, monkeypatch):
    monkeypatch.setattr(crypto_benchmark, "run", lambda quick, say: {"quick": quick})
    monkeypatch.setattr(crypto_benchmark, "to_markdown", lambda record: "# Figures\n")
    monkeypatch.setattr(crypto_benchmark, "to_json", json.dumps)
    outcome = command("bench", "crypto", "--quick", "--json", tmp_path / "b.json", "--markdown", tmp_path / "b.md")
    assert outcome.code == 0
    assert json.loads((tmp_path / "b.json").read_text()) == {"quick": True}
    assert (tmp_path / "b.md").read_text() == "# Figures\n"
    assert f"written: {tmp_path / 'b.json'}" in outcome.out


@pytest.fixture
def small_demo(monkeypatch):
    monkeypatch.setattr(demonstration, "ROWS", 120)
    monkeypatch.setattr(demonstration, "NOISE_COLUMNS", 2)
    monkeypatch.setattr(demonstration, "TRAINING", FEW)


def test_the_demonstration_is_encrypted_and_knows_the_truth(command, small_demo, tmp_path):
    outcome = command("demo", "--out", tmp_path / "runs" / "demo")
    assert outcome.code == 0
    assert "2048-bit Paillier encryption" in outcome.out
    assert "precision" in outcome.out
    found = json.loads((tmp_path / "runs" / "demo" / "selection.json").read_text())
    assert set(found) >= {*TOP_LEVEL, "truth"}
    assert (found["profile"], found["key_bits"]) == ("masked", 2048)
    assert set(found["truth"]) >= {"precision", "recall"}
    assert found["bytes"]["total"] > 0
    assert found["messages"]["ShareUpdate"] > 0
    for client in found["clients"].values():
        assert set(client) >= {"selected", "n_features", "gates", "gini"}
        assert len(client["gates"]) == len(client["gini"]) == client["n_features"] == 6


def test_a_quiet_demonstration_prints_nothing(command, small_demo, tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "run_tables", lambda *a, **k: _result())
    monkeypatch.setattr(demonstration, "score_with_all_features", lambda *a: 0.5)
    outcome = command("demo", "--out", tmp_path / "demo", "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def _result():
    return SelectionResult(
        "masked",
        2048,
        "native",
        {},
        {"n_columns": 3, "test": 0.5},
        {"total": 1},
        {},
        {"total": 1.0},
        {},
        "",
        "",
        truth={"precision": 1.0, "recall": 1.0},
    )


LONG = """
[training.gated_phase]
steps = 100000
batch_size = 16
[training.validation]
every = 100000
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_says_how_to_go_on(number, job_folder):
    job_folder.training = LONG
    job_folder.write()
    command = [sys.executable, "-c", "from fedsdg.cli import main; main()"]
    command += ["run", str(job_folder.job), "--out", str(job_folder.path / "runs" / "one"), "--json-lines"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert lines[-1]["phase"] == "gated"
        assert (job_folder.path / "runs" / "one.partial" / "metrics.jsonl").is_file()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert f"fedsdg resume {job_folder.path / 'runs' / 'one'}" in errors
    assert list((job_folder.path / "runs" / "one.partial" / "server" / "checkpoints").iterdir())
    assert not (job_folder.path / "runs" / "one").exists()


def test_a_terminal_gets_a_live_display(job_folder):
    job_folder.write()
    command = [sys.executable, "-c", "from fedsdg.cli import main; main()"]
    command += ["run", str(job_folder.job), "--out", str(job_folder.run)]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            seen += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert process.returncode == 0, text
    assert re.search(r"compact +4/4 .*loss \d\.\d+, \d+ dims", text), text
    assert "files: " in text

"""What a run writes, where, and who can read it; what it never writes."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from reliability_helpers import (
    CLIENTS,
    SEEDS,
    STEPS,
    Crash,
    crash_after_step,
    data,
    run,
    settings,
    storage_in,
)

import fedsdg
from fedsdg.api import run_tables
from fedsdg.crypto import PrivateKey
from fedsdg.errors import ConfigError, RunStopped, StateFileError
from fedsdg.run_folder import RunFolder
from fedsdg.simulation import Storage
from fedsdg.state_files import Checkpoints, wide_from_array


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """Two sessions of an encrypted run that crashed twice; all private keys; and every file that was ever there."""
    folder = tmp_path_factory.mktemp("parties")
    storage, keys, files = storage_in(folder), [], {}
    original = PrivateKey.generate

    def generate(*arguments, **options):
        keys.append(original(*arguments, **options))
        return keys[-1]

    def look() -> None:
        files.update({(len(files), path): path.read_bytes() for path in folder.rglob("*") if path.is_file()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateKey, "generate", generate)
        for session in range(2):
            crash = crash_after_step(3)

            def watch(update, crash=crash):
                look()
                crash(update)

            with pytest.raises(Crash):
                run(settings(), storage=storage, resume=session > 0, watch=watch)
        look()
    return storage, keys, files


def test_private_keys_are_never_on_the_disk(interrupted):
    _, keys, files = interrupted
    assert len(keys) == 6  # three parties, two sessions
    assert len(files) > 20
    for key in keys:
        for prime in (int(key.p), int(key.q)):
            width = (prime.bit_length() + 7) // 8
            forms = [str(prime).encode(), f"{prime:x}".encode(), f"{prime:X}".encode()]
            forms += [prime.to_bytes(width, "big"), prime.to_bytes(width, "little")]
            for (_, path), content in files.items():
                assert not any(form in content for form in forms), path


def shares_of(storage: Storage, name: str, number: int) -> dict[str, np.ndarray]:
    arrays, _ = Checkpoints(storage.clients[name] / "checkpoints").load(number)
    return {key: wide_from_array(value) for key, value in arrays.items() if key.startswith("share")}


def noisy_of(storage: Storage, name: str, number: int) -> dict[str, np.ndarray]:
    arrays, _ = storage.checkpoints.load(number)
    return {
        key: wide_from_array(value)
        for key, value in arrays.items()
        if key.startswith(("federation/weights/", "federation/snapshot/")) and key.endswith(f"/{name}")
    }


def test_a_noisy_weight_and_its_share_never_lie_in_one_folder(interrupted):
    storage, _, files = interrupted
    for number in storage.checkpoints.numbers():
        for name in CLIENTS:
            for numbers, owner in (
                (shares_of(storage, name, number), storage.clients[name]),
                (noisy_of(storage, name, number), storage.server),
            ):
                assert numbers
                for value in np.concatenate([array.ravel() for array in numbers.values()]):
                    forms = (int(value).to_bytes(32, "little", signed=True), str(int(value)).encode())
                    holders = {path for (_, path), content in files.items() if any(f in content for f in forms)}
                    assert holders
                    assert all(path.is_relative_to(owner) for path in holders)


def test_the_two_halves_of_a_checkpoint_belong_together(interrupted, tmp_path):
    """W~ at the server minus E at the client is the weight of an uninterrupted run, at every common checkpoint."""
    storage, _, _ = interrupted
    clear = storage_in(tmp_path)
    with pytest.raises(Crash):
        run(settings("plain"), storage=clear, watch=crash_after_step(5))
    number = storage.checkpoints.numbers()[-1]
    arrays, _ = clear.checkpoints.load(number)
    for name in CLIENTS:
        noisy, shares = noisy_of(storage, name, number), shares_of(storage, name, number)
        for phase in ("gated",):
            weights = noisy[f"federation/weights/{phase}/{name}"] - shares[f"share/{phase}"]
            assert weights.tolist() == arrays[f"federation/weights/{phase}/{name}"].tolist()
            assert max(abs(int(w)) for w in weights.ravel()) < 2**40  # and far smaller than what hides it
            assert max(abs(int(e)) for e in shares[f"share/{phase}"].ravel()) > 2**90


def test_no_id_and_no_seed_is_in_a_checkpoint_and_no_column_name_at_the_server(interrupted):
    storage, _, files = interrupted
    for (_, path), content in files.items():
        assert b"person-" not in content, path
        for name, seed in SEEDS.items():
            assert seed not in content
            assert seed.hex().encode() not in content, (name, path)
    assert not any(b"x0" in content for (_, path), content in files.items() if path.is_relative_to(storage.server))


def test_only_the_owner_can_read_what_an_interrupted_run_leaves(tmp_path):
    before = os.umask(0)
    try:
        with pytest.raises(Crash):
            run_tables(data(), settings("plain"), out=tmp_path / "run", watch=crash_after_step(5))
        interrupted = _modes(tmp_path / "run.partial")
        fedsdg.resume(tmp_path / "run", data=data())
    finally:
        os.umask(before)
    finished = _modes(tmp_path / "run")
    assert {"checkpoints", "metrics.jsonl", "private_seed", ".lock"} <= {path.name for path in interrupted}
    for path, (is_folder, mode) in {**interrupted, **finished}.items():
        assert mode == (0o700 if is_folder else 0o600), path


def _modes(folder: Path) -> dict[Path, tuple[bool, int]]:
    return {path: (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.rglob("*")]}


def test_a_finished_run_keeps_no_checkpoint_and_no_lock(tmp_path):
    with pytest.raises(Crash):
        run_tables(data(), settings("plain"), out=tmp_path / "run", watch=crash_after_step(5))
    fedsdg.resume(tmp_path / "run", data=data())
    names = {path.name for path in (tmp_path / "run").rglob("*")}
    assert not [name for name in names if name.startswith(("checkpoint", ".", "sessions"))]
    with pytest.raises(ConfigError, match="is finished; there is nothing to go on with"):
        fedsdg.resume(tmp_path / "run", data=data())


# --- metrics.jsonl ------------------------------------------------------------------------------------------------

ALL_STEPS = [("gated", n) for n in (1, 2, 3, 4)] + [("compact", n) for n in (1, 2, 3)]


def lines_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("step", range(2, STEPS + 1))
def test_after_a_resume_the_metrics_have_every_step_once_and_in_order(step, tmp_path):
    of_run = settings("plain")
    with pytest.raises(Crash):
        run_tables(data(), of_run, out=tmp_path / "run", private_seeds=SEEDS, watch=crash_after_step(step))
    if step == 2:  # the crash came before the first checkpoint was written: nothing is left
        assert list(tmp_path.iterdir()) == []
        return
    fedsdg.resume(tmp_path / "run", data=data())
    never_stopped = tmp_path / "never stopped"
    run_tables(data(), of_run, out=never_stopped, private_seeds=SEEDS)
    found, expected = lines_of(tmp_path / "run"), lines_of(never_stopped)
    assert [(line["phase"], line["step"]) for line in found] == ALL_STEPS
    for ours, theirs in zip(found, expected, strict=True):
        assert {k: v for k, v in ours.items() if k != "seconds"} == {k: v for k, v in theirs.items() if k != "seconds"}


def test_a_line_that_was_torn_by_the_crash_is_written_again(tmp_path):
    with pytest.raises(Crash):
        run_tables(data(), settings("plain"), out=tmp_path / "run", watch=crash_after_step(5))
    metrics = tmp_path / "run.partial" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-30])
    fedsdg.resume(tmp_path / "run", data=data())
    assert [(line["phase"], line["step"]) for line in lines_of(tmp_path / "run")] == ALL_STEPS


def test_a_run_that_crashed_after_its_last_step_keeps_its_metrics(tmp_path):
    """No step is repeated, so no line is written again."""
    of_run = settings("plain", every=STEPS)

    def broken(*arguments):
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "finish", broken)
        with pytest.raises(Crash):
            run_tables(data(), of_run, out=tmp_path / "run")
    fedsdg.resume(tmp_path / "run", data=data())
    assert [(line["phase"], line["step"]) for line in lines_of(tmp_path / "run")] == ALL_STEPS


# --- Sessions, and who may start one -------------------------------------------------------------------------------


def test_every_session_is_counted_in_the_log_of_the_client(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="fedsdg.client")
    storage = storage_in(tmp_path)
    for session in range(3):
        with pytest.raises(Crash):
            run(settings(), storage=storage, resume=session > 0, watch=crash_after_step(1 if session == 2 else 3))
    counted = [r.getMessage() for r in caplog.records if "session" in r.getMessage() and "left" in r.getMessage()]
    assert counted == [
        "client left goes back to checkpoint 2, with fresh keys: session 2 of this run",
        "client left goes back to checkpoint 4, with fresh keys: session 3 of this run",
    ]
    caplog.clear()
    for folder in (storage.server, *storage.clients.values()):
        for path in (folder / "checkpoints").glob("*.state"):
            path.unlink()
    run(settings(), storage=storage, resume=True)
    assert "client left starts again from the beginning: session 4" in caplog.text


def test_a_second_process_is_refused_while_a_run_is_going_on(tmp_path):
    tried = []

    def watch(update):
        for attempt in (
            lambda: fedsdg.resume(tmp_path / "run", data=data()),
            lambda: run_tables(data(), settings("plain"), out=tmp_path / "run"),
        ):
            with pytest.raises((StateFileError, ConfigError)) as problem:
                attempt()
            tried.append(str(problem.value))

    run_tables(data(), settings("plain"), out=tmp_path / "run", watch=watch)
    assert f"Process {os.getpid()} is working in {tmp_path / 'run.partial'}" in tried[0]
    assert "another run is writing it" in tried[1]
    assert (tmp_path / "run" / "selection.json").is_file()


def test_after_every_end_of_a_run_the_folder_is_free_again(tmp_path):
    of_run = settings("plain")
    asked = iter([False, False, False, True])
    with pytest.raises(RunStopped, match="It goes on with: fedsdg resume"):
        run_tables(data(), of_run, out=tmp_path / "run", stop=lambda: next(asked))
    with pytest.raises(ConfigError, match="other settings"):
        fedsdg.resume(tmp_path / "run", job=_a_job(of_run, tmp_path))
    with pytest.raises(ConfigError, match="tables in memory: pass them again"):
        fedsdg.resume(tmp_path / "run")
    with pytest.raises(Crash):
        fedsdg.resume(tmp_path / "run", data=data(), watch=crash_after_step(1))
    fedsdg.resume(tmp_path / "run", data=data())
    assert (tmp_path / "run" / "selection.json").is_file()


def _a_job(of_run, folder: Path) -> fedsdg.Job:
    values = of_run.model_dump()
    values["test_fraction"] = 0.3
    source = {"table": folder / "none.csv", "id": "id"}
    return fedsdg.Job(**values, server={**source, "target": "y"}, clients={"left": source})

"""A run that was interrupted and resumed ends as the run that nothing happened to, bit for bit.

"Interrupted" is: everything is gone but the files. The parties of the second session are new objects with new keys.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from reliability_helpers import (
    EVERY,
    MOMENTS,
    STEPS,
    Crash,
    assert_same,
    crash_after_step,
    crashing,
    data,
    everything,
    run,
    settings,
    storage_in,
    uninterrupted,
)

from fedsdg.config import GateSettings
from fedsdg.errors import RunStopped
from fedsdg.simulation import Storage

#: Every kind of request of a run, and which of its kind to crash at: one that has checkpoints before it, if any has.
KINDS = {
    "JoinRun": 1,
    "BlindIds": 1,
    "TakeRows": 1,
    "PrepareColumns": 1,
    "CountLabels": 1,
    "FinishScores": 1,
    "StartPhase": 2,
    "SaveSnapshot": 3,
    "EmbedBatch": 4,
    "RemoveShare": 4,
    "ApplyGradient": 6,
    "ReportGates": 2,
    "RestoreSnapshot": 1,
    "SelectColumns": 1,
    "SaveCheckpoint": 2,
    "UsePhase": 1,
    "FinishRun": 1,
}
SESSION_KINDS = ("ListCheckpoints", "ResumeRun")


def interrupt(storage: Storage, of_run, kind: str, number: int, moment: str, resume: bool = False) -> None:
    with pytest.raises(Crash):
        run(
            of_run,
            storage=storage,
            resume=resume,
            channel_type=crashing(lambda k, n, _: (k, n) == (kind, number), moment),
        )


def test_the_table_of_kinds_is_complete():
    simulation = run(settings(), channel_type=crashing(lambda *_: False))
    seen = set(simulation.channel.kinds)
    assert seen | {"SaveCheckpoint"} == set(KINDS)  # without a folder, none is asked for
    assert_same(simulation, uninterrupted(settings()))


def test_a_resumed_run_says_the_same_about_itself(tmp_path):
    storage, of_run = storage_in(tmp_path), settings(of_run={"label_epsilon": 2.0})
    with pytest.raises(Crash):
        run(of_run, storage=storage, watch=crash_after_step(5))
    resumed, never_stopped = run(of_run, storage=storage, resume=True), run(of_run)
    assert resumed.notes == never_stopped.notes
    assert set(resumed.seconds) == set(never_stopped.seconds)
    assert resumed.traffic.messages["JoinRun"] == 2  # the first session counts, too
    assert resumed.traffic.messages["ApplyGradient"] == never_stopped.traffic.messages["ApplyGradient"]


#: Kinds after they were answered; those that change something for good, also before. All kinds, both ways: see below.
CRASHES = [(kind, "after") for kind in KINDS if kind not in ("JoinRun", "BlindIds", "PrepareColumns")]
CRASHES += [
    (kind, "before") for kind in ("StartPhase", "ApplyGradient", "SelectColumns", "SaveCheckpoint", "FinishRun")
]
CRASHES += [(kind, "between") for kind in ("ApplyGradient", "SaveCheckpoint", "FinishRun")]


@pytest.mark.parametrize(("kind", "moment"), CRASHES)
def test_a_crash_at_any_message_changes_nothing(kind, moment, tmp_path):
    storage, of_run = storage_in(tmp_path), settings()
    interrupt(storage, of_run, kind, KINDS[kind], moment)
    assert_same(run(of_run, storage=storage, resume=True), uninterrupted(of_run))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", SESSION_KINDS)
def test_a_crash_while_a_run_is_resumed_changes_nothing(kind, moment, tmp_path):
    storage, of_run = storage_in(tmp_path), settings()
    interrupt(storage, of_run, "ApplyGradient", 5, "after")
    interrupt(storage, of_run, kind, 1, moment, resume=True)
    assert_same(run(of_run, storage=storage, resume=True), uninterrupted(of_run))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_that_crashes_again_and_again_at_every_kind_of_message_changes_nothing(moment, tmp_path):
    """Element-wise, with gates that start alike: what the tests above do not run."""
    of_run = settings(interactive="elementwise", gates=GateSettings(initialization="constant"))
    storage, at = storage_in(tmp_path), [*KINDS, *SESSION_KINDS, "StartGatesAlike"]
    crashed, sessions = [], 0
    while True:
        sessions += 1
        assert sessions < 60
        try:
            simulation = run(
                of_run,
                storage=storage,
                resume=sessions > 1,
                channel_type=crashing(lambda kind, number, _: kind in at, moment),
            )
            break
        except Crash as crash:
            crashed.append(str(crash))
            at.remove(str(crash))
    assert set(crashed) == {*KINDS, *SESSION_KINDS, "StartGatesAlike"} - {"CountLabels", "FinishScores"}
    assert_same(simulation, uninterrupted(of_run))


def test_crashes_at_random_messages_change_nothing(tmp_path):
    storage, of_run, stream = storage_in(tmp_path), settings(), np.random.default_rng(1)
    for session in range(6):
        last, moment = int(stream.integers(1, 45)), str(stream.choice(MOMENTS))
        try:
            run(
                of_run,
                storage=storage,
                resume=session > 0,
                channel_type=crashing(lambda kind, number, of_all, last=last: of_all == last, moment),
            )
        except Crash:
            continue
    assert_same(run(of_run, storage=storage, resume=True), uninterrupted(of_run))


FLAVOURS = {
    "dense": ({}, {}, "binary"),
    "element-wise": ({"interactive": "elementwise"}, {}, "binary"),
    "linear": ({"model": "linear"}, {}, "multiclass"),
    "regression": ({}, {}, "regression"),
    "two draws": ({"mc_samples": 2}, {}, "binary"),
    "a number of features": ({"n_features": 2}, {}, "binary"),
    "no second phase": ({"retrain": False}, {}, "binary"),
    "a last phase on all rows": ({"final_rows": "all"}, {}, "binary"),
    "dropped dimensions": (
        {
            "gates": GateSettings(embedding_start=-2.0),  # shut for a whole epoch: dropped after the third step
        },
        {},
        "binary",
    ),
    "protected labels": ({}, {"label_epsilon": 2.0}, "binary"),
    "no test rows": ({}, {"test_fraction": 0.0}, "binary"),
    "rows in order": ({}, {"ids": "aligned"}, "aligned"),
}


def flavour(name: str, profile: str):
    changes, of_run, task = FLAVOURS[name]
    return settings(profile, of_run=of_run, **changes), task


@pytest.mark.parametrize("name", FLAVOURS)
def test_every_kind_of_job_in_the_clear_survives_a_crash_after_a_step(name, tmp_path):
    of_run, task = flavour(name, "plain")
    steps = sum(map(len, uninterrupted(of_run, task)["losses"].values()))
    for step in range(1, steps + 1) if name == "dense" else (3,):
        storage = storage_in(tmp_path / str(step))
        with pytest.raises(Crash):
            run(of_run, data(task), storage=storage, watch=crash_after_step(step))
        assert_same(run(of_run, data(task), storage=storage, resume=True), uninterrupted(of_run, task))


ENCRYPTED = [(name, 3) for name in ("element-wise", "linear", "a number of features", "protected labels")]
ENCRYPTED += [("dropped dimensions", 3), ("dropped dimensions", 5)]


@pytest.mark.parametrize(("name", "step"), ENCRYPTED)
def test_every_kind_of_encrypted_job_survives_a_crash(name, step, tmp_path):
    of_run, task = flavour(name, "masked")
    storage = storage_in(tmp_path)
    with pytest.raises(Crash):
        run(of_run, data(task), storage=storage, watch=crash_after_step(step))
    simulation = run(of_run, data(task), storage=storage, resume=True)
    assert_same(simulation, uninterrupted(of_run, task))
    if name == "dropped dimensions":
        assert simulation.federation._open["gated"] == {"left": (0,), "right": (0,)}


@pytest.mark.parametrize("profile", ["plain", "masked"])
def test_a_run_that_is_asked_to_stop_writes_a_checkpoint_and_loses_no_step(profile, tmp_path):
    storage, of_run = storage_in(tmp_path), settings(profile)
    asked = iter([False, False, True])
    with pytest.raises(RunStopped, match="after step 3"):
        run(of_run, storage=storage, stop=lambda: next(asked))
    assert storage.checkpoints.numbers() == (2, 3)
    seen = []
    simulation = run(
        of_run, storage=storage, resume=True, watch=lambda update: seen.append((update.phase, update.step))
    )
    assert seen == [("gated", 4), ("compact", 1), ("compact", 2), ("compact", 3)]
    assert_same(simulation, uninterrupted(of_run))


@pytest.mark.parametrize("profile", ["plain", "masked"])
def test_without_regular_checkpoints_a_stop_still_writes_one(profile, tmp_path):
    storage, of_run = storage_in(tmp_path), settings(profile, every=0)
    with pytest.raises(RunStopped):
        run(of_run, storage=storage, stop=lambda: True)
    assert storage.checkpoints.numbers() == (1,)
    assert_same(run(of_run, storage=storage, resume=True), uninterrupted(of_run))


def test_every_party_keeps_its_last_two_checkpoints(tmp_path):
    storage = storage_in(tmp_path)
    run(settings("masked"), storage=storage)
    last = sorted(f"checkpoint-{n:06d}.state" for n in range(EVERY, STEPS + 1, EVERY))[-2:]
    for folder in (storage.server, *storage.clients.values()):
        assert sorted(path.name for path in (folder / "checkpoints").glob("checkpoint-*")) == last


def test_a_resumed_run_makes_new_keys_and_draws_new_shares(tmp_path):
    """The weights are the same; what the server holds of them is an independent sharing."""
    storage, of_run = storage_in(tmp_path), settings()
    first = run(of_run, storage=storage)
    second = run(of_run, storage=storage, resume=True)  # from the last checkpoint: the last step is repeated
    assert everything(first) == everything(second)
    for name in first.federation.weights:
        ours, theirs = first.federation.weights[name].noisy, second.federation.weights[name].noisy
        assert all(a != b for a, b in zip(ours.ravel(), theirs.ravel(), strict=True))
        keys = [simulation.channel.roles[name].state.joined.keys for simulation in (first, second)]
        assert keys[0].encryptor.key.fingerprint != keys[1].encryptor.key.fingerprint
        assert keys[0].under_server_key.key.fingerprint != keys[1].under_server_key.key.fingerprint


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    """The clock of the wall is set back and forth while a run is going on and between its two sessions."""
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: (-1) ** next(jumps) * 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: (-1) ** next(jumps) * 10**18)
    storage, of_run = storage_in(tmp_path), settings()
    with pytest.raises(Crash):
        run(of_run, storage=storage, watch=crash_after_step(5))
    simulation = run(of_run, storage=storage, resume=True)
    assert next(jumps) >= 0
    assert_same(simulation, uninterrupted(of_run))
    assert all(seconds >= 0 for seconds in simulation.seconds.values())

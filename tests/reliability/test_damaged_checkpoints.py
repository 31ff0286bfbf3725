"""Checkpoints that are damaged or missing cost the steps since the ones before; old and new ones are never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from reliability_helpers import CLIENTS, Crash, crash_after_step, crashing, resumed_steps, run, settings

from fedsdg.simulation import Storage
from fedsdg.state_files import Checkpoints


def checkpoint(storage: Storage, party: str, number: int) -> Path:
    folder = storage.server if party == "server" else storage.clients[party]
    return folder / "checkpoints" / f"checkpoint-{number:06d}.state"


def flip(path: Path, where: int) -> None:
    blob = bytearray(path.read_bytes())
    blob[where] ^= 0x10
    path.write_bytes(blob)


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "a byte short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a byte more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a bit of its kind": lambda path: flip(path, 2),
    "a bit of its digest": lambda path: flip(path, 9),
    "a bit of its header": lambda path: flip(path, 80),
    "its last bit": lambda path: flip(path, -1),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


def test_without_damage_the_newest_checkpoint_is_used(storage, profile):
    assert resumed_steps(storage, profile)[0] == ("compact", 1)


DAMAGED = [("plain", damage) for damage in DAMAGES] + [("masked", "missing"), ("masked", "half")]


@pytest.mark.parametrize("party", ["server", "right"])
@pytest.mark.parametrize(("profile", "damage"), DAMAGED, indirect=["profile"])
def test_a_damaged_newest_checkpoint_costs_the_steps_since_the_one_before(damage, party, storage, profile):
    DAMAGES[damage](checkpoint(storage, party, 4))
    assert resumed_steps(storage, profile)[0] == ("gated", 3)


NONE_IN_COMMON = [[("server", 2), ("left", 4)], [("left", 2), ("left", 4)], [("server", 2), ("server", 4)]]


@pytest.mark.parametrize(
    ("profile", "damaged"),
    [*(("plain", damaged) for damaged in NONE_IN_COMMON), ("masked", NONE_IN_COMMON[0])],
    indirect=["profile"],
)
def test_without_a_common_checkpoint_the_run_starts_again_to_the_same_result(damaged, storage, profile):
    for party, number in damaged:
        DAMAGES["half"](checkpoint(storage, party, number))
    assert resumed_steps(storage, profile)[0] == ("gated", 1)


def test_with_all_checkpoints_damaged_the_run_starts_again_to_the_same_result(storage, profile):
    for party in ("server", *CLIENTS):
        for number in (2, 4):
            DAMAGES["its last bit"](checkpoint(storage, party, number))
    assert resumed_steps(storage, profile)[0] == ("gated", 1)


def test_a_run_that_started_again_and_crashed_again_goes_on(storage, profile):
    for number in (2, 4):
        DAMAGES["half"](checkpoint(storage, "left", number))
    with pytest.raises(Crash):
        run(settings(profile), storage=storage, resume=True, watch=crash_after_step(3))
    assert resumed_steps(storage, profile)[0] == ("gated", 3)


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_old_and_new_checkpoints_of_one_number_are_never_mixed(moment, storage, profile):
    """Back to 2 because 4 is damaged at one party, then a crash while 4 is written again: the server's 4 is old."""
    DAMAGES["half"](checkpoint(storage, "right", 4))
    if profile == "masked":
        at = crashing(lambda kind, number, _: kind == "SaveCheckpoint", moment)
        with pytest.raises(Crash):
            run(settings(profile), storage=storage, resume=True, channel_type=at)
    else:
        save, saved = Checkpoints.save, []

        def crash(self, number, arrays, facts):
            if len(saved) == {"before": 0, "between": 1, "after": 2}[moment]:
                raise Crash
            saved.append(number)
            save(self, number, arrays, facts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Checkpoints, "save", crash)
            with pytest.raises(Crash):
                run(settings(profile), storage=storage, resume=True)
    assert resumed_steps(storage, profile)[0] == ("gated", 3)


def test_a_run_in_a_folder_with_old_checkpoints_never_meets_them(storage, profile):
    """Started, not resumed: what lies there is of another run."""
    with pytest.raises(Crash):
        run(settings(profile), storage=storage, watch=crash_after_step(1))
    assert resumed_steps(storage, profile)[0] == ("gated", 1)


@pytest.mark.parametrize("profile", ["masked"], indirect=True)
def test_what_is_damaged_and_what_that_costs_is_said_in_the_log(storage, profile, caplog):
    DAMAGES["half"](checkpoint(storage, "left", 4))
    DAMAGES["half"](checkpoint(storage, "server", 2))
    run(settings(profile), storage=storage, resume=True)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == [
        "client 'left': its checkpoint 4 is damaged and cannot be used",
        "the server's checkpoint 2 is damaged and cannot be used",
        "there is no checkpoint that all parties can read: the run starts again",
    ]

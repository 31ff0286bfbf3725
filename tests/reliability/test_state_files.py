"""A file of a party's state is there, whole, or not there; damage is noticed; one process writes at a time."""

from __future__ import annotations

import builtins
import errno
import hashlib
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fedsdg.errors import StateFileError
from fedsdg.state_files import (
    MAGIC,
    Checkpoints,
    FolderLock,
    load_state,
    save_state,
    wide_from_array,
    wide_to_array,
    write_atomically,
)

FACTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=9).filter(
    lambda name: name != "__metadata__"
)
ARRAYS = st.sampled_from(["<f8", "<f4", "<i8", "|u1", "|b1"]).flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)


@given(st.dictionaries(NAMES, ARRAYS, max_size=4), st.dictionaries(st.text(), FACTS, max_size=4))
def test_what_is_written_is_read_back(tmp_path, arrays, facts):
    save_state(tmp_path / "a.state", arrays, facts)
    found, found_facts = load_state(tmp_path / "a.state")
    assert found_facts == facts
    assert found.keys() == arrays.keys()
    for name, value in arrays.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert found[name].tobytes() == value.tobytes()


@given(arrays_of.arrays(object, arrays_of.array_shapes(min_side=0), elements=st.integers(-(2**255), 2**255 - 1)))
def test_wide_integers_are_read_back(values):
    assert wide_from_array(wide_to_array(values)).tolist() == values.tolist()


@pytest.fixture
def small(tmp_path) -> Path:
    save_state(tmp_path / "small.state", {"a": np.arange(3)}, {"b": 1})
    return tmp_path / "small.state"


def test_a_changed_bit_is_noticed_in_every_byte(small):
    blob = small.read_bytes()
    for position in range(len(blob)):
        changed = bytearray(blob)
        changed[position] ^= 1 << position % 8
        small.write_bytes(changed)
        with pytest.raises(StateFileError, match=r"small\.state is damaged"):
            load_state(small)


def test_every_lost_byte_is_noticed(small):
    blob = small.read_bytes()
    for length in range(len(blob)):
        small.write_bytes(blob[:length])
        with pytest.raises(StateFileError, match=r"small\.state is damaged"):
            load_state(small)


def test_a_missing_file_and_a_whole_file_of_something_else_are_told_apart(tmp_path):
    with pytest.raises(StateFileError, match="No such file"):
        load_state(tmp_path / "none.state")
    body = b"\xff" * 100
    (tmp_path / "other.state").write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    with pytest.raises(StateFileError, match="no state file of this version"):
        load_state(tmp_path / "other.state")


def test_only_the_owner_can_read_it_whatever_the_umask_says(tmp_path):
    before = os.umask(0)
    try:
        checkpoints = Checkpoints(tmp_path / "checkpoints")
        checkpoints.save(1, {}, {})
        checkpoints.note_session()
        FolderLock(tmp_path).release()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"checkpoints": 0o700, "checkpoint-000001.state": 0o600, "sessions": 0o600, ".lock": 0o600}


class FullFile:
    """Takes half of what is written to it; then the disk is full."""

    def __init__(self, file) -> None:
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.file.close()

    def write(self, blob: bytes) -> int:
        self.file.write(blob[: len(blob) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


MOMENTS = {
    "opening": ("open", lambda original: lambda *a, **k: _fail()),
    "writing": ("fdopen", lambda original: lambda *a, **k: FullFile(original(*a, **k))),
    "flushing": ("fsync", lambda original: lambda *a, **k: _fail()),
    "renaming": ("replace", lambda original: lambda *a, **k: _fail()),
}


def _fail():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("name", "failing"), MOMENTS.values(), ids=MOMENTS)
def test_when_the_disk_is_full_the_old_file_stays_and_no_half_file_does(name, failing, tmp_path, monkeypatch):
    path = tmp_path / "a.state"
    write_atomically(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name)))
        with pytest.raises(StateFileError, match=r"Cannot write .*a\.state: No space left.*before is lost"):
            write_atomically(path, b"new and longer")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.state", b"old")]


def test_a_write_that_the_system_cuts_short_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.state"
    write_atomically(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(StateFileError, match="File too large"):
            write_atomically(path, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.state", b"old")]


class PowerCut(BaseException):
    """Nobody cleans up after this."""


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_what_a_power_cut_leaves_is_not_taken_for_a_checkpoint(moment, tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(10, {"a": np.arange(4)}, {})

    def cut(*arguments):
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, cut)
        with pytest.raises(PowerCut):
            checkpoints.save(20, {"a": np.arange(5)}, {})
    assert len(list(tmp_path.iterdir())) == 2  # the half-made file lies beside
    assert checkpoints.numbers() == (10,)
    checkpoints.save(20, {"a": np.arange(5)}, {})
    assert checkpoints.numbers() == (10, 20)
    assert len(list(tmp_path.iterdir())) == 2


def test_two_checkpoints_are_kept_and_other_files_are_left_alone(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for name in ("checkpoint-notes.txt", "checkpoint-12.state", "mine"):
        (tmp_path / name).write_text("mine")
    for number in (1, 2, 3, 1_000_000):
        checkpoints.save(number, {}, {"at": number})
    assert checkpoints.numbers() == (3, 1_000_000)
    assert checkpoints.load(3)[1] == {"at": 3}
    (tmp_path / "checkpoint-000003.state").write_bytes(b"")
    assert (checkpoints.numbers(), checkpoints.damaged()) == ((1_000_000,), (3,))
    checkpoints.forget_after(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-12.state", "checkpoint-notes.txt", "mine"]


def test_an_old_checkpoint_that_cannot_be_removed_stops_the_run(tmp_path, monkeypatch):
    """It would be mixed up with a new one later."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(5, {}, {})

    def refuse(self, missing_ok=False):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StateFileError, match=r"Cannot remove .*checkpoint-000005.state: Operation not permitted"):
        checkpoints.forget_after(4)


def test_sessions_are_counted_and_going_back_does_not_set_the_count_back(tmp_path):
    checkpoints = Checkpoints(tmp_path / "new")
    checkpoints.note_session()
    checkpoints.save(5, {}, {})
    assert Checkpoints(tmp_path / "new").note_session() == 2
    checkpoints.forget_after(-1)
    assert checkpoints.note_session() == 3


# --- One process at a time -----------------------------------------------------------------------------------------

TAKE_LOCK = """
import sys
from pathlib import Path
from fedsdg.state_files import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


def test_another_process_is_kept_out_until_the_first_one_ends_however_it_ends(tmp_path):
    first = subprocess.Popen(
        [sys.executable, "-c", TAKE_LOCK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout.readline() == "taken\n"
        with pytest.raises(StateFileError, match=f"Process {first.pid} is working in {tmp_path}"):
            FolderLock(tmp_path)
    finally:
        first.kill()
        first.communicate()
    lock = FolderLock(tmp_path)  # the file is still there, with the number of a process that is gone
    with pytest.raises(StateFileError, match=f"Process {os.getpid()} "):
        FolderLock(tmp_path)
    lock.release()
    lock.release()
    FolderLock(tmp_path).release()


def test_a_folder_that_cannot_be_locked_is_one_clear_error(tmp_path):
    with pytest.raises(StateFileError, match=r"Cannot write to .*nothing: No such file"):
        FolderLock(tmp_path / "nothing")


def test_nothing_that_can_be_executed_is_read(small, monkeypatch):
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr(builtins, name, None)
    monkeypatch.setitem(sys.modules, "pickle", None)
    assert load_state(small)[1] == {"b": 1}

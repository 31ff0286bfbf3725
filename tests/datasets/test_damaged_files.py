"""Files of the user's own folder that are damaged or hold something else: one clear line that names the file."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from fedsdg.datasets import registry
from fedsdg.datasets.dataset import content_sha256
from fedsdg.errors import DataError

TABLE, LABELS = np.arange(12.0).reshape(6, 2), np.array([-1, 1] * 3)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSDG_DATA", str(tmp_path))
    monkeypatch.setenv("FEDSDG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "PCMAC.npz"


def refused(file, reason):
    """One line about this file; a warning would be an error of the test (pyproject.toml)."""
    with pytest.raises(DataError, match=reason) as problem:
        registry.load("PCMAC")
    assert str(file) in str(problem.value)


def archive(file, **members: bytes):
    with zipfile.ZipFile(file, "w") as out:
        for name, content in members.items():
            out.writestr(f"{name}.npy", content)


def as_npy(array, **header: object) -> bytes:
    """Return an array as a .npy file, with something else in its header."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array) | header)
    return out.getvalue() + array.tobytes()


@pytest.mark.parametrize("shape", [(2**40, 2**20), (2**62, 2**62), (2**70, 1), (-1, 2), (10**12,)])
def test_a_header_that_claims_an_enormous_shape_is_refused(shape, file):
    archive(file, X=as_npy(TABLE, shape=shape), y=as_npy(LABELS))
    refused(file, "claim more memory than there is|not an intact NumPy archive")


def test_an_archive_cut_off_anywhere_is_refused(file):
    np.savez_compressed(file, X=TABLE, y=LABELS)
    whole = file.read_bytes()
    for end in (0, 1, 3, 4, 30, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:end])
        refused(file, "not an intact NumPy archive of plain arrays; copy the file again")


def test_an_archive_with_a_wrong_byte_anywhere_is_refused(file):
    np.savez_compressed(file, X=TABLE, y=LABELS)
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        refused(file, "PCMAC")


def test_an_array_alone_is_no_archive(file):
    with file.open("wb") as out:
        np.save(out, TABLE)
    refused(file, "not an intact NumPy archive")


@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda array: array.astype(str), "holds str.*not real numbers"),
        (lambda array: array.astype(bytes), "holds bytes.*not real numbers"),
        (lambda array: array.astype(complex), "holds complex128, not real numbers"),
        (lambda array: array.astype("datetime64[s]"), "holds datetime64.*not real numbers"),
        (lambda array: array.astype([("a", "f8")]), "holds void.*not real numbers"),
        (lambda array: array + 1e300, "missing, infinite or above"),
        (lambda array: array.astype(np.float16) * np.float16(np.inf), "missing, infinite or above"),
        (lambda array: array * np.nan, "missing, infinite or above"),
        (lambda array: array[..., None], "do not fit together"),
        (lambda array: array[:3], "do not fit together"),
        (lambda array: array.ravel()[0], "do not fit together"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(name, change, reason, file):
    arrays = {"X": TABLE + 1, "y": LABELS.astype(np.float64)}
    with np.errstate(all="ignore"):
        arrays[name] = change(arrays[name])
    np.savez(file, **arrays)
    refused(file, rf"PCMAC\.npz: .*{reason}")


def test_sums_that_are_no_text_are_refused_by_their_own_name(file):
    np.savez(file, X=TABLE, y=LABELS)
    sums = file.with_name("SHA256SUMS")
    sums.write_bytes(b"\xff\xfe0\x000\x00")
    refused(sums, "SHA256SUMS: not text in UTF-8; copy the file again, or remove it")


@pytest.mark.parametrize("real", [np.array(["a", "b"]), np.array([0.5, 1]), np.ones(3, bool), np.ones((2, 2), bool)])
def test_the_real_columns_of_a_stand_in_are_a_truth_value_each(real, file, monkeypatch):
    monkeypatch.setitem(registry.CONTENT, registry.SURROGATE, content_sha256(TABLE, LABELS))
    place = file.with_name(f"{registry.SURROGATE}.npz")
    np.savez(place, X=TABLE, y=LABELS, is_real=real)
    with pytest.raises(DataError, match=rf"{place}: is_real should hold a truth value for each column"):
        registry.load(registry.SURROGATE)


def test_whole_files_are_read_whatever_the_type_of_their_numbers(file, monkeypatch):
    monkeypatch.setitem(registry.CONTENT, "PCMAC", content_sha256(TABLE, LABELS))
    for kind in (np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint16):
        np.savez(file, X=TABLE.astype(kind), y=LABELS.astype(np.float16))
        assert registry.load("PCMAC").X.tolist() == TABLE.tolist()

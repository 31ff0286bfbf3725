"""Claims about downloads, against a server on this machine and made files: no test leaves it."""

from __future__ import annotations

import hashlib
import io
import zipfile

import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

from fedsdg.datasets import asu, download, nips2003, openml, registry
from fedsdg.datasets.dataset import content_sha256
from fedsdg.errors import DataError


def test_a_file_is_fetched_once_and_then_read_from_the_cache(server, cache):
    home, files, asked = server
    files["/a.bin"] = b"content"
    digest = hashlib.sha256(b"content").hexdigest()
    for _ in range(2):
        assert download.fetch(f"{home}/a.bin", "a.bin", digest).read_bytes() == b"content"
    assert asked == ["/a.bin"]


def test_a_damaged_cache_is_fetched_again(server, cache):
    home, files, asked = server
    files["/a.bin"] = b"content"
    cache.mkdir()
    (cache / "a.bin").write_bytes(b"half")
    digest = hashlib.sha256(b"content").hexdigest()
    assert download.fetch(f"{home}/a.bin", "a.bin", digest).read_bytes() == b"content"
    assert asked == ["/a.bin"]


def test_a_wrong_digest_is_refused_and_leaves_nothing_behind(server, cache):
    home, files, _ = server
    files["/a.bin"] = b"something else"
    with pytest.raises(DataError, match="sha256"):
        download.fetch(f"{home}/a.bin", "a.bin", "0" * 64)
    assert list(cache.iterdir()) == []


def test_errors_of_the_server_and_of_the_network_become_one_clear_error(server, cache):
    home, _, _ = server
    with pytest.raises(DataError, match="404"):
        download.fetch(f"{home}/nothing", "a.bin")
    with pytest.raises(DataError, match="cannot be fetched"):
        download.fetch("https://127.0.0.1:1/a.bin", "a.bin", timeout=2)
    assert list(cache.iterdir()) == []


def test_plain_http_to_other_machines_is_refused_before_anything_is_sent(cache):
    with pytest.raises(DataError, match="only https"):
        download.fetch("http://example.org/a.bin", "a.bin")


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("FEDSDG_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"downloads cannot be kept in .* set FEDSDG_CACHE"):
        download.fetch("https://localhost:1/a.bin", "a.bin")


def test_an_endless_answer_is_cut_off(server, cache, monkeypatch):
    home, files, _ = server
    files["/a.bin"] = b"x" * 5000
    monkeypatch.setattr(download, "LARGEST_DOWNLOAD", 4000)
    with pytest.raises(DataError, match="not the data set"):
        download.fetch(f"{home}/a.bin", "a.bin")
    assert list(cache.iterdir()) == []


def test_a_redirect_is_followed_over_https_or_on_this_machine_and_nowhere_else(server, cache):
    home, files, asked = server
    files["/a.bin"] = b"content"
    files["/moved"] = f"{home}/a.bin"
    files["/elsewhere"] = "http://example.org/a.bin"
    assert download.fetch(f"{home}/moved", "a.bin").read_bytes() == b"content"
    with pytest.raises(DataError, match="only https"):
        download.fetch(f"{home}/elsewhere", "b.bin")
    assert asked == ["/moved", "/a.bin", "/elsewhere"]
    assert [path.name for path in cache.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://localhost/a", "https://[", "a.bin"])
def test_what_is_no_web_address_is_refused(cache, url):
    with pytest.raises(DataError, match=r"only https|no address"):
        download.fetch(url, "a.bin")


def test_an_answer_that_describes_a_file_is_never_kept(server, cache, monkeypatch):
    home, files, asked = server
    files["/a.json"] = b"{}"
    for _ in range(2):
        assert download.fetch_description(f"{home}/a.json") == b"{}"
    assert asked == ["/a.json", "/a.json"]
    assert not cache.exists()
    monkeypatch.setattr(download, "LARGEST_DESCRIPTION", 1)
    with pytest.raises(DataError, match="more than"):
        download.fetch_description(f"{home}/a.json")


def small_text(seed=0):
    stream = np.random.default_rng(seed)
    return stream.integers(0, 3, (10, 6)), np.array([1, 2] * 5)


def test_a_matlab_file_of_the_collection_is_read_dense_or_sparse(server, cache, monkeypatch):
    home, files, _ = server
    monkeypatch.setattr(asu, "HOME", home)
    X, y = small_text()
    for name, stored in (("PCMAC", sparse.csc_matrix(X.astype(float))), ("RELATHE", X)):
        buffer = io.BytesIO()
        scipy_io.savemat(buffer, {"X": stored, "Y": y[:, None]})
        files[f"/{asu.COMMIT}/skfeature/data/{asu.FILES[name]}"] = buffer.getvalue()
        monkeypatch.setitem(registry.CONTENT, name, content_sha256(X, y))
        data = registry.load(name)
        assert np.array_equal(data.X, X)
        assert np.array_equal(data.y, y)
        assert data.provenance.source == asu.address(name)


@pytest.mark.parametrize(
    "content",
    [
        {"X": np.array([[np.ones(2)], [np.ones(3)]], dtype=object), "Y": np.ones(2)},  # a cell array
        {"X": np.ones((4, 2)), "Y": np.ones(3)},
        {"X": np.ones((4, 2)), "Y": np.array(["a", "b", "c", "d"])},
    ],
    ids=["cells", "rows", "words"],
)
def test_a_matlab_file_without_a_table_is_refused_and_does_not_stay_in_the_cache(server, cache, monkeypatch, content):
    home, files, _ = server
    monkeypatch.setattr(asu, "HOME", home)
    buffer = io.BytesIO()
    scipy_io.savemat(buffer, content)
    files[f"/{asu.COMMIT}/skfeature/data/{asu.FILES['PCMAC']}"] = buffer.getvalue()
    with pytest.raises(DataError, match="not a MATLAB file with a table X and a label per row in Y"):
        asu.read("PCMAC")
    assert not [path for path in cache.rglob("*") if path.suffix == ".mat"]


def challenge_archive(name, X, y, split):
    """An archive with the layout of the challenge: the labels of the validation rows lie outside its folder."""
    buffer = io.BytesIO()
    texts = {}
    with zipfile.ZipFile(buffer, "w") as archive:
        for part, rows in (("train", slice(None, split)), ("valid", slice(split, None))):
            data = "".join(" ".join(map(str, row)) + " \n" for row in X[rows])
            labels = "".join(f"{label}\n" for label in y[rows])
            texts |= {f"{name.lower()}_{part}.data": data, f"{name.lower()}_{part}.labels": labels}
            archive.writestr(f"{name}/{name.lower()}_{part}.data", data)
            archive.writestr(f"{name + '/' if part == 'train' else ''}{name.lower()}_{part}.labels", labels)
        archive.writestr(f"{name}/{name.lower()}_test.data", "1 2 3\n")
    return buffer.getvalue(), texts


def test_a_set_of_the_challenge_is_training_rows_then_validation_rows(server, cache, monkeypatch):
    home, files, asked = server
    monkeypatch.setattr(asu, "HOME", home)
    monkeypatch.setattr(nips2003, "HOME", home)
    X, y = small_text()
    y = np.where(y == 1, -1, 1)
    files["/167/arcene.zip"], _ = challenge_archive("ARCENE", X, y, 7)
    monkeypatch.setitem(registry.CONTENT, "ARCENE", content_sha256(X, y))
    data = registry.load("ARCENE")  # the first home has no such file
    assert len(asked) == 2
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, y)


def test_gisette_is_checked_file_by_file(server, cache, monkeypatch):
    home, files, _ = server
    monkeypatch.setattr(nips2003, "HOME", home)
    X, y = small_text()
    monkeypatch.setattr(registry, "GISETTE_SHAPE", X.shape)
    files["/170/gisette.zip"], texts = challenge_archive("GISETTE", X, y, 6)
    with pytest.raises(DataError, match="expected sha256"):
        registry.load("GISETTE")
    assert list(cache.iterdir()) == []  # or the wrong archive would be read for ever
    monkeypatch.setattr(
        nips2003, "GISETTE_FILES", {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    )
    assert np.array_equal(registry.load("GISETTE").X, X)


def test_a_page_that_is_no_data_set_does_not_stay_in_the_cache(server, cache, monkeypatch):
    home, files, asked = server
    for source in (asu, nips2003, openml):
        monkeypatch.setattr(source, "HOME", home)
    files[f"/{asu.COMMIT}/skfeature/data/madelon.mat"] = b"<html>moved</html>"
    files["/171/madelon.zip"] = b"<html>moved</html>"
    files["/api/v1/json/data/1485"] = b"<html>moved</html>"
    with pytest.raises(DataError, match=r"MADELON cannot be had.*FEDSDG_DATA"):
        registry.load("MADELON")
    assert len(asked) == 3
    assert list(cache.iterdir()) == []


def archive_of(name, **members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for part, text in members.items():
            archive.writestr(f"{name}_{part.replace('_', '.')}", text)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"train_data": "1 2\n", "train_labels": "1\n"}, "not an archive with the training and validation rows"),
        ({"train_data": "1 x\n"}, "madelon_train.data does not hold rows of whole numbers"),
        ({"train_data": ""}, "madelon_train.data does not hold rows of whole numbers"),
        ({"train_data": "1 2 3\n"}, "different columns"),
    ],
)
def test_an_archive_that_is_no_set_of_the_challenge_does_not_stay_in_the_cache(
    server, cache, monkeypatch, members, reason
):
    home, files, _ = server
    monkeypatch.setattr(nips2003, "HOME", home)
    good = {"train_data": "1 2\n", "train_labels": "1\n", "valid_data": "3 4\n", "valid_labels": "-1\n"}
    files["/171/madelon.zip"] = archive_of("madelon", **(good | members if len(members) == 1 else members))
    with pytest.raises(DataError, match=reason):
        nips2003.read("MADELON")
    assert list(cache.iterdir()) == []
    files["/171/madelon.zip"] = archive_of("madelon", **good)
    assert nips2003.read("MADELON").features.tolist() == [[1, 2], [3, 4]]


def test_a_file_with_other_content_than_the_recorded_one_does_not_stay_in_the_cache(server, cache, monkeypatch):
    home, files, asked = server
    monkeypatch.setattr(asu, "HOME", home)
    X, y = small_text()
    place = f"/{asu.COMMIT}/skfeature/data/{asu.FILES['PCMAC']}"
    for stored, expected in ((X + 1, "another sha256"), (X, None)):
        buffer = io.BytesIO()
        scipy_io.savemat(buffer, {"X": stored, "Y": y[:, None]})
        files[place] = buffer.getvalue()
        monkeypatch.setitem(registry.CONTENT, "PCMAC", content_sha256(X, y))
        if expected is None:
            assert np.array_equal(registry.load("PCMAC").X, X)
        else:
            with pytest.raises(DataError, match=expected):
                registry.load("PCMAC")
            assert list(cache.iterdir()) == []
    assert asked == [place, place]

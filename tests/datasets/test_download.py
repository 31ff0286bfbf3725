"""Claims about downloads, against a server on this machine and made files: no test leaves it."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

from fedsdg.datasets import asu, download, nips2003, registry
from fedsdg.datasets.dataset import content_sha256
from fedsdg.errors import DataError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSDG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDSDG_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def server():
    """A server whose files are a dictionary; it counts what it is asked for."""
    files, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.end_headers()
            if content is not None:
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", files, asked
    http.shutdown()
    http.server_close()
    thread.join()


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


def test_an_endless_answer_is_cut_off(server, cache, monkeypatch):
    home, files, _ = server
    files["/a.bin"] = b"x" * 5000
    monkeypatch.setattr(download, "LARGEST_DOWNLOAD", 4000)
    with pytest.raises(DataError, match="not the data set"):
        download.fetch(f"{home}/a.bin", "a.bin")
    assert list(cache.iterdir()) == []


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
    home, files, _ = server
    monkeypatch.setattr(asu, "HOME", home)
    monkeypatch.setattr(nips2003, "HOME", home)
    files[f"/{asu.COMMIT}/skfeature/data/madelon.mat"] = b"<html>moved</html>"
    files["/171/madelon.zip"] = b"<html>moved</html>"
    with pytest.raises(DataError, match=r"MADELON cannot be had.*FEDSDG_DATA"):
        registry.load("MADELON")
    assert list(cache.iterdir()) == []

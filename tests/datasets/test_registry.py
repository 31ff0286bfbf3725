"""Claims about the registry: names, truth, digests, folders, and that a surrogate never passes for the real thing."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from fedsdg.datasets import registry
from fedsdg.datasets.dataset import content_sha256, deal_columns, make, tables_of
from fedsdg.errors import ConfigError, DataError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSDG_DATA", str(tmp_path))
    monkeypatch.setenv("FEDSDG_CACHE", str(tmp_path / "cache"))
    return tmp_path


def small_table(seed=0):
    stream = np.random.default_rng(seed)
    return stream.integers(0, 9, (12, 5)).astype(np.int16), np.array([-1, 1] * 6)


@pytest.mark.parametrize(
    ("name", "shape", "task"),
    [
        ("BREAST_CANCER", (569, 30), "binary"),
        ("wine", (178, 13), "multiclass"),
        ("DIGITS", (1797, 64), "multiclass"),
        ("DIABETES", (442, 10), "regression"),
        ("FRIEDMAN", (1000, 1000), "regression"),
        ("MADELON_LIKE", (2600, 500), "binary"),
    ],
)
def test_sets_without_files_load_by_name(name, shape, task):
    data = registry.load(name)
    assert (data.X.shape, data.task, data.name) == (shape, task, name.upper())
    assert len(data.feature_names) == shape[1]
    assert data.provenance.sha256 == content_sha256(data.X, data.y)
    assert not data.provenance.surrogate


def test_the_target_of_friedman_follows_from_the_columns_of_its_truth():
    data = registry.load("FRIEDMAN")
    assert data.provenance.sha256 == "c9551faa58fdd51bd8961be7c1187d16b2e628077b39dfbcc2f72625e9196a6c"
    assert data.truth.tolist() == [162, 206, 222, 459, 711]
    x1, x2, x3, x4, x5 = (data.X[:, column] for column in (459, 206, 222, 162, 711))
    rest = data.y - (10 * np.sin(np.pi * x1 * x2) + 20 * (x3 - 0.5) ** 2 + 10 * x4 + 5 * x5)
    assert 0.9 < rest.std() < 1.1  # the noise that was asked for


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="did you mean MADELON"):
        registry.load("madelonn")


def test_a_genuine_set_is_read_from_the_users_folder_and_checked_by_content(folder, monkeypatch):
    X, y = small_table()
    np.savez(folder / "PCMAC.npz", X=X, y=y)
    with pytest.raises(DataError, match="another sha256"):
        registry.load("PCMAC")
    monkeypatch.setitem(registry.CONTENT, "PCMAC", content_sha256(X, y))
    data = registry.load("PCMAC")
    assert np.array_equal(data.X, X)
    assert data.provenance.source == "PCMAC.npz"
    monkeypatch.setitem(registry.CONTENT, "PCMAC", content_sha256(X + 1, y))
    with pytest.raises(DataError, match="another sha256"):
        registry.load("PCMAC")


def test_the_digest_depends_on_values_and_shapes_and_not_on_the_type_of_numbers():
    X, y = small_table()
    assert content_sha256(X, y) == content_sha256(X.astype(np.float64), y.astype(np.float32))
    assert content_sha256(X, y) != content_sha256(X.reshape(5, 12), y)
    changed = X.copy()
    changed[3, 2] += 1
    assert content_sha256(changed, y) != content_sha256(X, y)
    zeros = np.zeros((2, 1))
    assert content_sha256(-zeros, zeros[:, 0]) == content_sha256(zeros, zeros[:, 0])


def test_a_file_that_disagrees_with_sha256sums_is_refused(folder, monkeypatch):
    X, y = small_table()
    monkeypatch.setitem(registry.CONTENT, "PCMAC", content_sha256(X, y))
    np.savez(folder / "PCMAC.npz", X=X, y=y)
    digest = hashlib.sha256((folder / "PCMAC.npz").read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  OTHER.npz\n{digest}  PCMAC.npz\n")
    assert registry.load("PCMAC").n_rows == 12
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  PCMAC.npz\n")
    with pytest.raises(DataError, match="SHA256SUMS"):
        registry.load("PCMAC")


def test_pickled_objects_and_broken_archives_are_refused(folder):
    np.savez(folder / "PCMAC.npz", X=np.array([{"a": 1}], dtype=object), y=np.zeros(1))
    with pytest.raises(DataError, match="plain arrays"):
        registry.load("PCMAC")
    (folder / "PCMAC.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="plain arrays"):
        registry.load("PCMAC")
    np.savez(folder / "PCMAC.npz", X=np.zeros((2, 2)))
    with pytest.raises(DataError, match="X and y"):
        registry.load("PCMAC")


def test_a_surrogate_says_so_and_cannot_be_loaded_as_gisette(folder, monkeypatch):
    X, y = small_table()
    monkeypatch.setitem(registry.CONTENT, "GISETTE_SURROGATE", content_sha256(X, y))
    monkeypatch.setattr(registry, "GISETTE_SHAPE", X.shape)
    with pytest.raises(DataError, match="from a folder only"):
        registry.load("GISETTE_SURROGATE")
    np.savez(folder / "GISETTE_SURROGATE.npz", X=X, y=y, is_real=np.array([1, 0, 1, 0, 0], bool))
    data = registry.load("GISETTE_SURROGATE")
    assert data.provenance.surrogate
    assert data.label == "GISETTE_SURROGATE (surrogate)"
    assert data.truth.tolist() == [0, 2]
    np.savez(folder / "GISETTE.npz", X=X, y=y)
    with pytest.raises(DataError, match="not the genuine GISETTE"):
        registry.load("GISETTE")
    np.savez(folder / "GISETTE.npz", X=X + 1, y=y)
    assert not registry.load("GISETTE").provenance.surrogate


def test_a_folder_that_does_not_exist_is_an_error_and_not_a_download(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSDG_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="no such folder"):
        registry.load("MADELON")


def test_images_are_dealt_by_whole_rows_of_pixels():
    data = registry.load("DIGITS")
    parts = deal_columns(data, 3, seed=4)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(64))
    for columns in parts.values():
        assert len(columns) % 8 == 0
        assert (columns.reshape(-1, 8) // 8 == columns.reshape(-1, 8)[:, :1] // 8).all()
    tables = tables_of(data, parts)
    assert np.array_equal(tables["client_2"].values, data.X[:, parts["client_2"]])
    with pytest.raises(ConfigError, match="by rows"):
        deal_columns(data, 9, seed=0)


def test_other_columns_are_dealt_at_random_and_repeatably():
    X, y = small_table()
    data = make("SMALL", X, y, "a test")
    first, again, other = (deal_columns(data, 2, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert sorted(np.concatenate(list(first.values()))) == list(range(5))
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_parts_that_do_not_fit_together_are_refused():
    X, y = small_table()
    with pytest.raises(DataError, match="do not fit together"):
        make("SMALL", X, y[:5], "a test")
    with pytest.raises(DataError, match="pixels"):
        make("SMALL", X, y, "a test", image_shape=(2, 3))


@pytest.mark.skipif("FEDSDG_DATA" not in os.environ, reason="FEDSDG_DATA does not name a folder with data sets")
def test_the_twenty_columns_of_madelon_explain_one_another_and_have_five_directions():
    data = registry.load("MADELON")
    columns = data.X[:, data.truth]
    spectrum = np.linalg.svd((columns - columns.mean(axis=0)) / columns.std(axis=0), compute_uv=False) ** 2
    assert spectrum[:5].sum() / spectrum.sum() > 0.99
    assert spectrum[4] > 50 * spectrum[5]


@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_a_data_set_with_gaps_is_refused_as_not_every_method_can_read_it(gap):
    X, y = np.ones((6, 3)), np.array([0, 1] * 3)
    X[2, 1] = gap
    with pytest.raises(DataError, match=r"MINE has a column \(1\) with gaps or infinite values; fill them first"):
        make("MINE", X, y, "a file")
    with pytest.raises(DataError, match="MINE has labels with gaps"):
        make("MINE", np.ones((6, 3)), np.where(y == 1, gap, 0.0), "a file", regression=True)


def test_classes_with_fractions_are_refused_and_not_cut_to_whole_numbers():
    with pytest.raises(DataError, match="some labels have fractions; is it a regression"):
        make("MINE", np.ones((4, 2)), np.array([0.2, 0.7, 0.2, 0.7]), "a file")
    assert make("MINE", np.ones((4, 2)), np.array([1.0, 2.0, 1.0, 2.0]), "a file").task == "binary"

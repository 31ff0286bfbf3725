"""Claims about data sets of OpenML, against a server on this machine that answers as OpenML does."""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np
import pytest

from fedsdg.datasets import asu, nips2003, openml, registry
from fedsdg.datasets.dataset import content_sha256
from fedsdg.datasets.openml import Listing
from fedsdg.errors import DataError

GENUINE = os.environ.get("FEDSDG_DATA", "")
NUMBER = 1485
PLACE = f"/api/v1/json/data/{NUMBER}"
FILE = "/data/v1/download/1590986/madelon.arff"
X = np.array([[485, 0, 2.5], [0, 0, 0], [0, -7, 1e3], [1, 2, 3]])
Y = np.array([-1, 1, 1, -1])
HEADER = """% Source: Universität, with an accent
@RELATION 'a set'

@ATTRIBUTE V1 INTEGER
@attribute 'V 2' NUMERIC
@ATTRIBUTE V3 real
@ATTRIBUTE Class {1,'2'}
@DATA
"""
DENSE = ("485, 0, 2.5, 2", "0,0,0,1", "0,-7,1e3,'1'", "% a comment", "1,2,3,2")
SPARSE = ("{0 485, 2 2.5, 3 2}", "{}", "{1 -7, 2 1e3, 3 1}", "{0 1,1 2,2 3,3 '2'}")


def arff(*rows, header=HEADER):
    return (header + "\n".join(rows) + "\n").encode("latin-1")


@pytest.fixture
def home(server, cache, monkeypatch):
    """OpenML as the only home that answers, with a small table under the name of MADELON."""
    url, files, asked = server
    for source in (asu, nips2003, openml):
        monkeypatch.setattr(source, "HOME", url)
    monkeypatch.setattr(openml, "DOMAIN", "127.0.0.1")
    monkeypatch.setitem(openml.SETS, "MADELON", Listing(NUMBER, X.shape, "Class", {"1": 1, "2": -1}))
    monkeypatch.setitem(registry.CONTENT, "MADELON", content_sha256(X, Y))

    def serve(content, **changes):
        """Serve a file and its description, some fields of which are changed or, with None, left out."""
        fields = {"id": str(NUMBER), "url": f"{url}{FILE}", "md5_checksum": hashlib.md5(content).hexdigest()} | changes
        fields = {name: value for name, value in fields.items() if value is not None}
        files[FILE] = content
        files[PLACE] = json.dumps({"data_set_description": fields}).encode()

    serve.url, serve.files, serve.asked, serve.cache = url, files, asked, cache
    return serve


def refused(home, reason):
    """Loading fails with a reason, nothing stays in the cache, and the good file is accepted afterwards."""
    with pytest.raises(DataError, match=reason):
        registry.load("MADELON")
    assert list(home.cache.glob("*")) == []
    home(arff(*DENSE))
    assert np.array_equal(registry.load("MADELON").X, X)


@pytest.mark.parametrize("rows", [DENSE, SPARSE, (*SPARSE[:2], *DENSE[2:])], ids=["dense", "sparse", "both"])
def test_a_file_is_read_dense_or_sparse_with_the_labels_of_the_challenge(home, rows):
    home(arff(*rows))
    data = registry.load("MADELON")
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == Y.tolist()
    assert data.provenance.source == openml.address("MADELON")


def test_the_class_may_stand_before_the_numbers(home):
    header = "@relation r\n@attribute Class {1,2}\n" + "".join(f"@attribute V{j} numeric\n" for j in range(3)) + "@data"
    home(arff("", "2,485,0,2.5", "{}", "{2 -7, 3 1e3}", "{0 2,1 1,2 2,3 3}", header=header))
    data = registry.load("MADELON")
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == Y.tolist()


def test_openml_is_the_last_home_and_is_asked_once(home):
    home(arff(*DENSE))
    registry.load("MADELON")
    assert [path.rsplit("/", 1)[-1] for path in home.asked] == ["madelon.mat", "madelon.zip", str(NUMBER), FILE[-12:]]
    assert [path.name for path in home.cache.iterdir()] == ["openml-1485.arff"]
    registry.load("MADELON")
    assert [path.rsplit("/", 1)[-1] for path in home.asked[4:]] == ["madelon.mat", "madelon.zip"]


def test_a_file_with_another_md5_is_refused(home):
    home(arff(*DENSE), md5_checksum="0" * 32)
    refused(home, "its md5 is")


def test_the_md5_of_a_description_does_not_replace_the_digest_of_the_content(home):
    home(arff("486,0,2.5,2", *DENSE[1:]))
    refused(home, "another sha256")


def test_labels_the_other_way_round_are_refused(home):
    home(arff(*(row[:-1] + {"1": "2", "2": "1"}[row[-1]] for row in (DENSE[0], DENSE[1], "0,-7,1e3,1", DENSE[4]))))
    refused(home, "another sha256")


@pytest.mark.parametrize(
    "changes",
    [{"url": None}, {"md5_checksum": None}, {"url": 7}, {"md5_checksum": "short"}, {"md5_checksum": 5}, {"url": ["a"]}],
    ids=repr,
)
def test_a_description_without_a_usable_url_and_md5_is_refused(home, changes):
    home(arff(*DENSE), **changes)
    refused(home, "description")


@pytest.mark.parametrize("answer", [b"[]", b'{"error": "gone"}', b"<html>", b"\xff", b"[" * 50_000, b"5"])
def test_an_answer_that_is_no_description_is_refused(home, answer):
    home.files[PLACE] = answer
    refused(home, "not a description")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/madelon.arff",
        "https://127.0.0.1@example.org/madelon.arff",
        "https://127.0.0.1.example.org/madelon.arff",
        "https://not127.0.0.1/madelon.arff",
        "https://[/madelon.arff",
        "madelon.arff",
    ],
)
def test_a_file_on_another_host_is_not_fetched(home, url):
    home(arff(*DENSE), url=url)
    refused(home, "not with")


@pytest.mark.parametrize("url", ["file://127.0.0.1/etc/hostname", "ftp://127.0.0.1/madelon.arff"])
def test_a_file_is_fetched_over_the_web_only(home, url):
    home(arff(*DENSE), url=url)
    refused(home, "only https")


@pytest.mark.parametrize(
    ("host", "accepted"),
    [("www.openml.org", True), ("openml.org", True), ("notopenml.org", False), ("openml.org.example.org", False)],
)
def test_hosts_of_openml_are_told_from_others(host, accepted):
    assert openml._with_openml(f"https://{host}/a.arff") is accepted


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (("485,0,?,2", *DENSE[1:]), "line 9: a missing value"),
        (("485,0,2.5,?", *DENSE[1:]), "line 9: a missing value"),
        (("{0 485, 2 ?, 3 2}", *SPARSE[1:]), "line 9: a missing value"),
        (("485,0,2.5,3", *DENSE[1:]), "line 9: a class"),
        (("485,0,2.5", *DENSE[1:]), "line 9: 3 values"),
        (("485,0,2.5,2,2", *DENSE[1:]), "line 9: 5 values"),
        (("485,,2.5,2", *DENSE[1:]), "line 9: a value that is no number"),
        (("485,zero,2.5,2", *DENSE[1:]), "line 9: a value that is no number"),
        (("4_85,0,2.5,2", *DENSE[1:]), "line 9: a value that is no number"),
        (("485,nan,2.5,2", *DENSE[1:]), "not finite"),
        (("485,inf,2.5,2", *DENSE[1:]), "not finite"),
        (DENSE[1:], "3 rows"),
        ((*DENSE, *DENSE), "line 14: more than the 4 rows"),
        (("{0 485, 2 2.5, 3 2", *SPARSE[1:]), "does not end with a brace"),
        (("{0 485, 2 2.5, 3 2}, {5}", *SPARSE[1:]), "not made of pairs"),
        (("{0 485 1, 3 2}", *SPARSE[1:]), "not made of pairs"),
        (("{0 485, -1 2.5, 3 2}", *SPARSE[1:]), "not made of pairs"),
        (("{2 2.5, 0 485, 3 2}", *SPARSE[1:]), "do not rise"),
        (("{0 485, 0 485, 3 2}", *SPARSE[1:]), "do not rise"),
        (("{0 485, 4 1}", *SPARSE[1:]), "leave the table"),
        (("{0 abc, 3 2}", *SPARSE[1:]), "line 9: a value that is no number"),
    ],
)
def test_damaged_rows_are_refused_with_their_line(home, rows, reason):
    home(arff(*rows))
    refused(home, f"not the ARFF file of MADELON.*{reason}")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Class {", "target {", "neither numeric nor the class 'Class'"),
        ("Class {1,'2'}", "target numeric", "no attribute is called 'Class'"),
        ("Class {1,'2'}", "Class numeric", "the class is not nominal"),
        ("Class {1,'2'}", "Class {1,2,3}", "does not have the values 1, 2"),
        ("Class {1,'2'}", "Class {-1,1}", "does not have the values 1, 2"),
        ("V1 INTEGER", "V1 string", "neither numeric nor the class"),
        ("V1 INTEGER", "Class {1,2}", "neither numeric nor the class"),
        ("@ATTRIBUTE V1 INTEGER\n", "", "2 columns beside the class, and the data set has 3"),
        ("@DATA", "", "neither @relation nor @attribute nor @data"),
        ("@ATTRIBUTE V3 real", "@ATTRIBUTE", "line 6: neither"),
    ],
)
def test_another_header_is_refused(home, old, new, reason):
    assert old in HEADER
    home(arff(*DENSE, header=HEADER.replace(old, new)))
    refused(home, reason)


@pytest.mark.parametrize("content", [b"", b"<html>moved</html>", b"\x00\xff" * 100, b"@relation r\n"])
def test_a_file_that_is_no_arff_is_refused(home, content):
    home(content)
    refused(home, "not the ARFF file of MADELON")


@pytest.mark.skipif(not GENUINE, reason="FEDSDG_DATA does not name a folder with data sets")
@pytest.mark.parametrize("name", ["MADELON", "ARCENE"])
def test_the_genuine_rows_written_as_openml_has_them_have_the_recorded_digest(server, cache, monkeypatch, name):
    monkeypatch.setenv("FEDSDG_DATA", GENUINE)
    genuine = registry.load(name)
    monkeypatch.delenv("FEDSDG_DATA")
    url, files, _ = server
    for source in (asu, nips2003, openml):
        monkeypatch.setattr(source, "HOME", url)
    monkeypatch.setattr(openml, "DOMAIN", "127.0.0.1")
    columns = "".join(f"@ATTRIBUTE V{j + 1} INTEGER\n" for j in range(genuine.n_columns))
    rows = (
        ",".join(map(str, [*row, 1 if label == 1 else 2]))
        for row, label in zip(genuine.X.astype(int).tolist(), genuine.y.tolist(), strict=True)
    )
    content = arff(*rows, header=f"@RELATION {name}\n{columns}@ATTRIBUTE Class {{1,2}}\n@DATA\n")
    fields = {"url": f"{url}/file", "md5_checksum": hashlib.md5(content).hexdigest()}
    files[f"/api/v1/json/data/{openml.SETS[name].number}"] = json.dumps({"data_set_description": fields}).encode()
    files["/file"] = content
    assert registry.load(name).provenance.source == openml.address(name)

"""Rows of a SQL query, and passwords that are never shown."""

from __future__ import annotations

import sqlite3
import sys
import traceback
import uuid

import pytest

from fedsdg.data.database import _series, fill_in
from fedsdg.data.sources import read_labels, read_party
from fedsdg.errors import ConfigError, DataError
from fedsdg.party_source import ClientSource, LabelSource

pytest.importorskip("sqlalchemy")
PEOPLE = [
    (f"person-{i}", 20 + i, 1.5 if i % 2 else 2, ("red", "blue", None)[i % 3], "2024-01-0" + str(1 + i % 9))
    for i in range(30)
]


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (id TEXT, age INTEGER, weight NUMERIC, colour TEXT, since TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", PEOPLE)
    connection.close()
    return path


def source(database, query="SELECT * FROM people", **more):
    return ClientSource(database=f"sqlite:///{database}", query=query, id="id", **more)


@pytest.mark.parametrize("driver", ["", "adbc+"])
def test_the_rows_of_a_query_are_a_table(driver, database):
    if driver:
        pytest.importorskip("adbc_driver_sqlite")
    of = ClientSource(database=f"{driver}sqlite:///{database}", query="SELECT * FROM people ORDER BY age DESC", id="id")
    read = read_party(of, "shop")
    assert read.ids[:2] == ("person-29", "person-28")
    assert read.table.columns == ("age", "weight", "colour", "since")
    assert read.table.kinds == ("number", "number", "category", "number")
    assert read.table.values[:2, 0].tolist() == [49, 48]
    assert read.table.values[:2, 1].tolist() == [1.5, 2.0]
    assert [column.pin.kind for column in read.read] == ["number", "number", "category", "date"]


def test_a_query_is_asked_as_it_is_written(database):
    query = "SELECT *, ':x 100%' AS mark FROM people WHERE colour LIKE '%e%' AND ':a' <> '%s'"
    assert read_party(source(database, query), "shop").table.levels["mark"] == (":x 100%",)


def test_labels_may_come_from_a_query(database):
    of = LabelSource(
        database=f"sqlite:///{database}", query="SELECT id, age > 30 AS old FROM people", id="id", target="old"
    )
    labels, own = read_labels(of, "bank")
    assert labels.labels.tolist() == [int(20 + i > 30) for i in range(30)]
    assert own is None


def test_cells_of_several_types_in_one_column_are_text(tmp_path):
    with sqlite3.connect(tmp_path / "odd.db") as connection:
        connection.execute("CREATE TABLE t (id, x)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, 5), (2, "five"), (3, None), (4, 5.5)])
    connection.close()
    read = read_party(
        ClientSource(database=f"sqlite:///{tmp_path / 'odd.db'}", query="SELECT * FROM t", id="id"), "shop"
    )
    assert read.ids == ("1", "2", "3", "4")
    assert read.table.levels["x"] == ("5", "5.5", "five")


def test_a_query_changes_nothing(database):
    with pytest.raises(DataError, match="shop: the query returns no rows; it should be a SELECT"):
        read_party(source(database, "DELETE FROM people"), "shop")
    assert len(read_party(source(database), "shop").ids) == 30


@pytest.mark.parametrize("driver", ["", "adbc+"])
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM poeple", "the database refused the query: no such table: poeple"),
        ("SELECT colr FROM people", "refused the query: no such column: colr"),
        ("SELEKT", "refused the query: syntax error"),
        ("SELECT * FROM people WHERE 0", "the query has no rows"),
        ("SELECT age FROM people", "there is no id column 'id'"),
    ],
)
def test_a_query_that_cannot_be_used_is_refused(driver, query, reason, database):
    if driver:
        pytest.importorskip("adbc_driver_sqlite")
    of = ClientSource(database=f"{driver}sqlite:///{database}", query=query, id="id")
    with pytest.raises(DataError, match=f"shop: .*{reason}") as refusal:
        read_party(of, "shop")
    assert "person-" not in str(refusal.value)


def test_a_name_twice_in_a_query_is_refused(database):
    with pytest.raises(DataError, match="the query gives several columns 'age'; name them apart with AS"):
        read_party(source(database, "SELECT id, age, weight AS age FROM people"), "shop")


def test_unique_identifiers_of_a_database_are_text():
    column = _series("id", [uuid.UUID(int=5), None])
    assert column.to_list() == ["00000000-0000-0000-0000-000000000005", None]


@pytest.mark.parametrize("driver", ["", "adbc+"])
def test_a_missing_file_is_refused_and_not_made(driver, tmp_path):
    of = ClientSource(database=f"{driver}sqlite:///{tmp_path / 'none.db'}", query="SELECT 1", id="id")
    with pytest.raises(DataError, match=r"shop: there is no file .*none\.db"):
        read_party(of, "shop")
    assert list(tmp_path.iterdir()) == []


def test_more_rows_than_memory_are_refused_on_the_way(database, monkeypatch):
    monkeypatch.setenv("FEDSDG_MEMORY", "10000")
    with pytest.raises(
        DataError, match=r"shop: 30 rows x 5 columns need about 17,280 bytes of memory, and 10,000 are free"
    ):
        read_party(source(database), "shop")


class TestAddresses:
    SECRET = "p@ss/w:rd%"

    def test_the_environment_fills_in_what_the_job_file_must_not_hold(self, monkeypatch, database):
        monkeypatch.setenv("PEOPLE_DB", str(database))
        of = ClientSource(database="sqlite:///${PEOPLE_DB}", query="SELECT * FROM people", id="id")
        assert len(read_party(of, "shop").ids) == 30

    def test_a_whole_address_may_come_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("WHERE", "sqlite:////x.db")
        assert fill_in("${WHERE}", "shop") == "sqlite:////x.db"

    def test_a_password_may_hold_any_character(self, monkeypatch):
        sqlalchemy = pytest.importorskip("sqlalchemy")
        monkeypatch.setenv("PASSWORD", self.SECRET)
        url = sqlalchemy.make_url(fill_in("postgresql://reader:${PASSWORD}@host/name", "shop"))
        assert url.password == self.SECRET
        assert url.host == "host"

    def test_a_variable_that_is_not_set_is_refused_by_name(self, monkeypatch):
        monkeypatch.delenv("PASSWORD", raising=False)
        with pytest.raises(ConfigError, match="shop: database: the environment has no variable PASSWORD"):
            fill_in("postgresql://reader:${PASSWORD}@host/name", "shop")

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("nonsense {secret}", "no URL that SQLAlchemy knows"),
            ("oracel://reader:{secret}@host/name", "no URL that SQLAlchemy knows"),
            ("postgresql+psycopg2://reader:{secret}@host:port/name", "no URL that SQLAlchemy knows"),
            ("adbc+{secret}", r"after adbc\+ a URL is wanted"),
            ("adbc+nosuch://reader:{secret}@host/name", "no ADBC driver for nosuch is installed"),
        ],
    )
    def test_a_wrong_address_is_refused_without_showing_it(self, url, reason):
        of = ClientSource(database=url.format(secret="hidden"), query="SELECT 1", id="id")
        with pytest.raises(ConfigError, match=f"shop: database: .*{reason}") as refusal:
            read_party(of, "shop")
        assert "hidden" not in "".join(traceback.format_exception(refusal.value))

    def test_an_address_is_in_no_representation(self):
        of = ClientSource(database="postgresql://reader:hidden@host/name", query="SELECT 1", id="id")
        assert "hidden" not in repr(of) + str(of) + of.model_dump_json() + str(of.model_dump())

    def test_a_driver_that_is_not_installed_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg2", None)
        of = ClientSource(database="postgresql+psycopg2://reader:hidden@host/name", query="SELECT 1", id="id")
        with pytest.raises(ConfigError, match="shop: database: the driver 'psycopg2' is not installed"):
            read_party(of, "shop")

    def test_without_sqlalchemy_the_extra_is_named(self, monkeypatch, database):
        monkeypatch.setitem(sys.modules, "sqlalchemy", None)
        with pytest.raises(ConfigError, match=r'shop: database: .* install it with `pip install "fedsdg\[sql\]"`'):
            read_party(source(database), "shop")

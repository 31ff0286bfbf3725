"""Tables as people bring them: what works, and what is refused in one clear line before any work starts."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

import fedsdg
import fedsdg.api
from fedsdg.config import PhaseSettings, TrainingConfig
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.sources import read_party
from fedsdg.errors import ConfigError, DataError, FedSDGError
from fedsdg.job import ClientSource, RunSettings
from fedsdg.simulation import PartyTables


def run(folder):
    return fedsdg.run(folder.write(), out=folder.run)


def set_column(folder, table, name, values):
    folder.frames[table] = folder.frames[table].with_columns(pl.Series(name, values))


def write(name, content):
    def change(folder):
        data = content.encode() if isinstance(content, str) else content
        (folder.path / folder.files[name]).write_bytes(data)

    return change


def column(table, name, values):
    return lambda folder: set_column(folder, table, name, values(folder) if callable(values) else values)


def settings(**values):
    def change(folder):
        for name, value in values.items():
            setattr(folder, name, getattr(folder, name) + "\n" + value)

    return change


def rows(count):
    def change(folder):
        folder.frames = {name: frame.head(count) for name, frame in folder.frames.items()}

    return change


def parquet(table, content=None):
    def change(folder):
        folder.files[table] = f"{table}.parquet"
        if content is not None:
            (folder.path / f"{table}.parquet").write_bytes(content)

    return change


def replaced(values, position, by):
    return [*values[:position], by, *values[position + 1 :]]


N = 60
NUMBERS = [float(i) for i in range(N)]
ALTERNATING = [0, 1] * 30

WRONG = {
    "an empty file": (write("left", ""), "left: left.csv cannot be read: the file is empty"),
    "a header only": (write("left", "id,a0\n"), "left: left.csv has no rows"),
    "a missing file": (lambda f: f.missing.add("left"), "left: there is no file .*left.csv"),
    "a folder": (lambda f: (f.path / "left.csv").mkdir(), "left: .*left.csv is a folder, not a table"),
    "an unknown kind of file": (
        lambda f: f.files.update(left="left.xlsx"),
        "neither .csv, .tsv, .parquet, .arrow nor .feather",
    ),
    "bytes that are no text": (write("left", b"id,a0\nperson-000,\xfc\n"), "is not UTF-8 text"),
    "a header that is no text": (write("left", b"id,\xfc\nperson-000,1\n"), "is not UTF-8 text"),
    "a line with too many fields": (write("left", "id,a0\np,1,2\nq,1\n"), "a line has more fields than the header"),
    "an open quotation mark": (write("left", 'id,a0\np,"1\nq,2\n'), "cannot be read: a line is malformed"),
    "semicolons": (
        write("left", "id;a0\np;1\nq;2\n"),
        "the fields of left.csv seem to be separated by ';'; use commas",
    ),
    "an intact file of another kind": (parquet("left", b"id,a0\n"), "it is no intact Parquet file"),
    "a corrupt Parquet file": (parquet("left", b"PAR1" + b"x" * 99 + b"PAR1"), "it is no intact Parquet file"),
    "an empty Parquet file": (parquet("left", b""), "cannot be read"),
    "a corrupt Arrow file": (
        lambda f: (f.files.update(left="left.arrow"), write("left", b"ARROW1" + b"x" * 99)(f)),
        "left.arrow cannot be read: it is no intact Arrow file",
    ),
    "an Arrow file that is none": (
        lambda f: (f.files.update(left="left.feather"), write("left", b"id,a0\n1,2\n")(f)),
        "left.feather cannot be read: it is no intact Arrow file",
    ),
    "no source": (
        settings(extra_client='[clients.third]\nid = "id"'),
        "third: there is no source of rows; name a table, or a database and a query, or pass a frame in Python",
    ),
    "no id column": (
        lambda f: f.frames.update(left=f.frames["left"].drop("id")),
        "left: there is no id column 'id'. There are: 'a0'",
    ),
    "an unknown column in the schema": (
        settings(extra_client='[clients.right.schema]\nb7 = "number"'),
        "right: the schema names a column 'b7' that is not there. There are: 'id', 'b0'",
    ),
    "text in a column that is pinned as a number": (
        lambda f: (
            column("right", "b1", ["red", "blue"] * 30)(f),
            settings(extra_client='[clients.right.schema]\nb1 = "number"')(f),
        ),
        "right: column 'b1' is pinned as a number and has 60 other cells",
    ),
    "no label column": (
        lambda f: f.frames.update(owner=f.frames["owner"].drop("label")),
        "bank: there is no label column 'label'. There are: 'id', 'age'",
    ),
    "repeated ids": (
        column("left", "id", lambda f: replaced(f.ids, 1, f.ids[0])),
        r"1 of 60 ids repeat another \(row 2\)",
    ),
    "repeated ids of the label owner": (
        column("owner", "id", lambda f: replaced(f.ids, 1, f.ids[0])),
        "bank: .*ids repeat",
    ),
    "empty ids": (column("left", "id", lambda f: replaced(f.ids, 1, None)), "column 'id' of left.csv has 1 empty cell"),
    "blank ids": (column("left", "id", lambda f: replaced(f.ids, 1, "  ")), "column 'id' of left.csv has 1 empty cell"),
    "infinity": (column("left", "a1", replaced(NUMBERS, 3, float("inf"))), "column 'a1' has 1 infinite cell"),
    "a huge number": (column("left", "a1", replaced(NUMBERS, 3, 1e200)), r"column 'a1' has 1 huge \(beyond 1e\+100\)"),
    "a column of lists": (
        lambda f: (parquet("left")(f), set_column(f, "left", "a1", [[1.0, 2.0]] * N)),
        "column 'a1' holds values of type List",
    ),
    "ids that are lists": (
        lambda f: (parquet("left")(f), set_column(f, "left", "id", [[i] for i in range(N)])),
        "column 'id' of left.parquet holds values of type List",
    ),
    "a name twice in the header": (write("left", "id,a0,a0\np,1,2\nq,3,4\n"), "several columns 'a0'"),
    "only ids": (lambda f: f.frames.update(left=f.frames["left"].select("id")), "no columns besides the id"),
    "an unknown column": (
        settings(extra_client='columns = ["b7"]'),
        "right: there is no column 'b7'. There are: 'id', 'b0'",
    ),
    "empty labels": (column("owner", "label", replaced(ALTERNATING, 3, None)), "label column 'label' has 1 empty cell"),
    "NaN labels": (
        column("owner", "label", replaced(NUMBERS, 3, float("nan"))),
        "label column 'label' has 1 NaN or infinite cell",
    ),
    "labels that are dates": (
        lambda f: (parquet("owner")(f), set_column(f, "owner", "label", [datetime.date(2020, 1, 1)] * N)),
        "label column 'label' holds dates or times; give numbers or class names",
    ),
    "a single class": (column("owner", "label", [1] * N), "a single class: there is nothing to tell apart"),
    "a class for every row": (column("owner", "label", lambda f: f.ids), "60 rows of 60 classes are too few"),
    "three classes for a binary task": (
        lambda f: (
            column("owner", "label", [0, 1, 2] * 20)(f),
            settings(training='[training]\ntask = "binary"')(f),
        ),
        "a binary task needs two classes, the labels hold 3; set task='multiclass'",
    ),
    "text for a regression": (
        lambda f: (
            column("owner", "label", ["yes", "no"] * 30)(f),
            settings(training='[training]\ntask = "regression"')(f),
        ),
        "a regression target must be numeric",
    ),
    "a constant target of a regression": (
        lambda f: (column("owner", "label", [1.5] * N)(f), settings(training='[training]\ntask = "regression"')(f)),
        "the regression target is constant",
    ),
    "protected labels of a regression": (
        lambda f: (
            column("owner", "label", [v + 0.5 for v in NUMBERS])(f),
            settings(job_settings="label_epsilon = 1.0")(f),
        ),
        "job.label_epsilon protects class labels",
    ),
    "too many features wished for": (
        settings(training="[training]\nn_features = 6"),
        "training.n_features: 6, but the clients have 5 columns in total",
    ),
    "one row": (rows(1), "1 row cannot be learned from; at least 2 are needed"),
    "two rows": (rows(2), r"2 rows of 2 classes are too few to keep 20% of them apart \(job.test_fraction\)"),
    "five rows, none to validate with": (
        lambda f: (rows(5)(f), settings(job_settings="test_fraction = 0.0")(f)),
        r"too few to keep 15% of them apart \(training.validation.fraction\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("profile", ["plain", "masked"])
def test_what_cannot_be_used_is_refused_before_any_work_and_leaves_nothing_behind(
    case, profile, job_folder, monkeypatch
):
    def no_work(*arguments, **options):
        raise AssertionError("work started")

    monkeypatch.setattr("fedsdg.api.simulate", no_work)
    change, reason = WRONG[case]
    job_folder.job_settings = f'profile = "{profile}"'
    change(job_folder)
    job_folder.write()
    with pytest.raises((DataError, ConfigError), match=reason) as refusal:
        fedsdg.run(job_folder.job, out=job_folder.run)
    assert "person-" not in str(refusal.value)
    assert "somebody" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert job_folder.leftovers() == []


def test_rows_may_lie_in_another_order_and_ids_may_be_of_another_type(job_folder):
    ids = np.arange(100, 160)
    for name, frame in job_folder.frames.items():
        job_folder.frames[name] = frame.with_columns(pl.Series("id", ids))
    straight = fedsdg.run(job_folder.write())
    order = np.random.default_rng(3).permutation(60)
    job_folder.files = {"owner": "o.tsv", "left": "l.parquet", "right": "r.parquet"}
    left, right = job_folder.frames["left"], job_folder.frames["right"]
    job_folder.frames["left"] = left[order]
    job_folder.frames["right"] = right[order[::-1]].with_columns(pl.col("id").cast(pl.Float64))
    parties, _ = fedsdg.api.align(fedsdg.load_job(job_folder.write()))
    rows = [int(key) - 100 for key in parties.ids]
    assert sorted(rows) == list(range(60))
    np.testing.assert_allclose(parties.tables["left"].values, left.drop("id").to_numpy()[rows])
    np.testing.assert_allclose(parties.tables["right"].values, right.drop("id").to_numpy()[rows])
    shuffled = fedsdg.run(job_folder.job)
    assert straight.clients["left"].gini == pytest.approx(shuffled.clients["left"].gini, abs=0.2)


def test_raw_columns_of_all_kinds_are_used_and_count_as_one_feature_each(job_folder):
    job_folder.files["left"] = "left.parquet"
    set_column(job_folder, "left", "a1", replaced(NUMBERS, 3, None))
    set_column(job_folder, "left", "colour", ["red", "blue", None, "red"] * 15)
    set_column(job_folder, "left", "since", [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(N)])
    set_column(job_folder, "left", "note", [f"the {w} fox number {i}" for i, w in enumerate(["quick", "slow"] * 30)])
    set_column(job_folder, "left", "key", [f"k{i}" for i in range(N)])
    set_column(job_folder, "left", "empty", pl.Series([None] * N, dtype=pl.Float64))
    result = run(job_folder)
    assert list(result.clients["left"].gates) == ["a0", "a1", "a2", "colour", "since", "note", "empty"]
    assert "empty" not in result.clients["left"].selected


def test_frames_take_the_place_of_tables(job_folder):
    job_folder.missing = {"left"}
    job = fedsdg.load_job(job_folder.write())
    result = fedsdg.run(job, frames={"left": job_folder.frames["left"].to_arrow()})
    assert result.clients["left"].n_features == 3


def test_text_labels_are_classes(job_folder):
    set_column(job_folder, "owner", "label", ["red", "green", "blue"] * 20)
    result = run(job_folder)
    assert result.metrics["task"] == "multiclass"
    assert result.metrics["metric"] == "accuracy"


def test_fractional_labels_are_a_regression(job_folder):
    set_column(job_folder, "owner", "label", job_folder.frames["left"]["a0"] * 3 + 0.5)
    result = run(job_folder)
    assert result.metrics["task"] == "regression"
    assert result.metrics["metric"] == "r2"


def test_a_constant_column_is_no_obstacle(job_folder):
    set_column(job_folder, "left", "a1", [7.0] * 60)
    result = run(job_folder)
    assert result.clients["left"].n_features == 3
    assert result.clients["left"].gates["a1"] < result.clients["left"].gates["a0"]


def test_a_constant_column_is_never_selected(job_folder):
    set_column(job_folder, "left", "a1", [7.0] * 60)
    job_folder.training = "[training]\nretrain = false\n[training.validation]\nevery = 10\n"
    job = fedsdg.load_job(job_folder.write())
    tables = fedsdg.api.read_parties(job)
    seeds = dict.fromkeys(("server", "left", "right"), f"{3:032d}".encode())
    result = fedsdg.run_tables(tables, job.settings, private_seeds=seeds)
    assert "a1" not in result.clients["left"].selected


def test_a_class_with_a_single_row_is_no_obstacle(job_folder):
    set_column(job_folder, "owner", "label", [1] + [0] * 59)
    assert run(job_folder).metrics["task"] == "binary"


def test_a_batch_larger_than_the_table_is_no_obstacle(job_folder):
    job_folder.training = job_folder.training.replace("batch_size = 16", "batch_size = 5000")
    assert run(job_folder).metrics["steps"] > 0


def test_the_label_owner_takes_part_with_its_own_columns(job_folder):
    job_folder.server_settings = 'columns = "all"'
    result = run(job_folder)
    assert result.clients["bank"].n_features == 1
    assert set(result.clients) == {"bank", "left", "right"}
    assert (job_folder.run / "clients" / "bank" / "selection.json").is_file()


def test_chosen_columns_are_used_in_the_chosen_order(job_folder):
    job_folder.extra_client = 'columns = ["b1"]'
    assert list(run(job_folder).clients["right"].gates) == ["b1"]


def test_column_names_may_hold_anything(job_folder):
    odd = ["[bold]", "a/../b", "naïve, name"]
    job_folder.frames["left"] = job_folder.frames["left"].rename(dict(zip(["a0", "a1", "a2"], odd, strict=True)))
    assert list(run(job_folder).clients["left"].gates) == odd


@pytest.mark.parametrize("name", ["../up", "", "server", "a/b"])
def test_tables_in_memory_need_plain_names_too(name, tmp_path):
    table = FeatureTable.of(np.random.default_rng(0).normal(size=(60, 2)))
    with pytest.raises(FedSDGError, match=r"cannot be a party's name|cannot be called 'server'"):
        fedsdg.run_tables(
            PartyTables(np.array([0, 1] * 30), {name: table}), RunSettings(profile="plain"), out=tmp_path / "run"
        )
    assert list(tmp_path.iterdir()) == []


def test_tables_of_different_heights_are_refused():
    tables = {"left": FeatureTable.of(np.ones((5, 2))), "right": FeatureTable.of(np.ones((6, 2)))}
    with pytest.raises(DataError, match="client 'right' has 6 rows and there are 5 labels"):
        PartyTables(np.zeros(5), tables)


def test_a_category_a_hole_and_a_text_that_matter_are_found_among_noise():
    stream, n = np.random.default_rng(1), 900
    city, hole, topic = stream.integers(0, 6, n), stream.random(n) < 0.3, stream.integers(0, 2, n)
    score = np.array([0, 2, -2, 1, -1, 0])[city] + 2.0 * hole + 2.0 * topic + 0.3 * stream.normal(size=n)
    talk = [("invoice payment due", "bank payment late"), ("football match goal", "team match score")]
    filler = ("alpha beta gamma", "delta beta", "alpha delta gamma")
    notes = [f"{talk[t][stream.integers(2)]} {filler[stream.integers(3)]}" for t in topic]

    def noise(stem):
        return {f"{stem}{j}": stream.normal(size=n) for j in range(5)}

    left = pl.DataFrame({"city": [f"city {c}" for c in city], **noise("l"), "other": [f"k{i % 7}" for i in range(n)]})
    right = pl.DataFrame(
        {"note": notes, **noise("r"), "age": [None if h else float(i % 50) for i, h in enumerate(hole)]}
    )
    parts = {name: read_party(ClientSource(), name, frame).table for name, frame in (("left", left), ("right", right))}
    labels = (score > np.median(score)).astype(int)
    seeds = {name: name.encode().ljust(32, b".") for name in ("server", "left", "right")}
    training = TrainingConfig(retrain=False, penalty=5.0, gated_phase=PhaseSettings(steps=250))
    settings = RunSettings(profile="plain", training=training)
    result = fedsdg.run_tables(PartyTables(labels, parts), settings, private_seeds=seeds)
    assert set(result.clients["left"].selected) == {"city"}
    assert set(result.clients["right"].selected) == {"note", "age"}
    assert float(result.metrics["test"]) > 0.85

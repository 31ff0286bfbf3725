"""A finished model scores new rows: alone, in bulk, loaded, in the clear or encrypted, with equal scores."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from fedsdg.api import describe
from fedsdg.config import PhaseSettings, TrainingConfig
from fedsdg.data.identified import IdentifiedTable
from fedsdg.data.sources import read_party
from fedsdg.errors import ConfigError, DataError, FedSDGError, PeerError, StateFileError
from fedsdg.job import RunSettings
from fedsdg.party_source import ClientSource
from fedsdg.prediction import Model
from fedsdg.run_folder import write_finished
from fedsdg.simulation import PartyTables, simulate

ROWS = 160


def raw_tables(seed: int = 0) -> dict[str, IdentifiedTable]:
    rng = np.random.default_rng(seed)
    ids = [f"p{seed}-{i}" for i in range(ROWS)]
    signal = rng.normal(size=ROWS)
    holes = [None if rng.random() < 0.2 else float(v) for v in rng.normal(size=ROWS)]
    left = pl.DataFrame(
        {"id": ids, "signal": signal, "holes": holes, "town": rng.choice(["Ulm", "Bonn", "Kiel"], ROWS)}
    )
    right = pl.DataFrame({"id": ids, "echo": signal + rng.normal(size=ROWS), "noise": rng.normal(size=ROWS)})[
        rng.permutation(ROWS)
    ]
    source = ClientSource(id="id")
    return {"left": read_party(source, "left", left), "right": read_party(source, "right", right)}


TABLES = raw_tables()
LABELS = (TABLES["left"].table.values[:, 0] > 0).astype(int)
TRAINING = TrainingConfig(
    gated_phase=PhaseSettings(steps=12, batch_size=32, hidden=(8,), embedding=4),
    compact_phase=PhaseSettings(steps=12, batch_size=32, hidden=(8,), embedding=4, outputs=4),
)


def trained(profile: str, interactive: str = "dense", retrain: bool = True):
    training = TRAINING.with_changes(interactive=interactive, retrain=retrain)
    data = PartyTables(
        LABELS,
        {name: of.table for name, of in TABLES.items()},
        ids=TABLES["left"].ids,
        client_ids={name: of.ids for name, of in TABLES.items()},
    )
    seeds = {name: name.encode().ljust(32, b".") for name in ("server", *TABLES)}
    settings = RunSettings(profile=profile, training=training)
    return simulate(data, settings, private_seeds=seeds, allow_test_keys=True, key_bits=512)


@pytest.fixture(scope="module", params=["dense", "elementwise", "gated model kept"])
def runs(request):
    interactive = "elementwise" if request.param == "elementwise" else "dense"
    retrain = request.param != "gated model kept"
    return trained("plain", interactive, retrain), trained("masked", interactive, retrain)


def new_rows() -> dict[str, IdentifiedTable]:
    return raw_tables(seed=1)


def test_encrypted_and_plain_scores_are_equal_and_a_row_alone_gets_what_it_gets_in_bulk(runs):
    plain, masked = (run.model() for run in runs)
    rows = new_rows()
    ids = rows["left"].ids[::-1]
    bulk, secure = plain.score(ids, rows), masked.score(ids, rows)
    np.testing.assert_array_equal(bulk.probabilities, secure.probabilities)
    for position in (0, 7, ROWS - 1):
        alone = masked.score((ids[position],), rows)
        np.testing.assert_array_equal(alone.probabilities[0], bulk.probabilities[position])
        np.testing.assert_array_equal(alone.predictions[0], bulk.predictions[position])


def test_a_saved_model_scores_as_the_one_in_memory(runs, tmp_path):
    rows = new_rows()
    for run in runs:
        folder = tmp_path / run.settings.profile
        write_finished(folder, run, describe(run))
        loaded = dataclasses.replace(Model.load(folder), allow_test_keys=True, key_bits=512)
        expected = run.model().score(rows["left"].ids, rows)
        np.testing.assert_array_equal(loaded.score(rows["left"].ids, rows).probabilities, expected.probabilities)


def test_only_needed_columns_are_read_and_others_may_be_missing(runs):
    model = runs[1].model()
    rows = new_rows()
    needed = {
        name: IdentifiedTable(of.ids, _only(of, model.needed_columns[name]))
        for name, of in rows.items()
        if name in model.parts
    }
    expected = model.score(rows["left"].ids, rows)
    np.testing.assert_array_equal(model.score(rows["left"].ids, needed).probabilities, expected.probabilities)


def _only(identified: IdentifiedTable, columns: tuple[str, ...]):
    table = identified.table
    positions = [table.columns.index(column) for column in columns]
    kinds = tuple(table.kinds[p] for p in positions) if table.kinds else ()
    return type(table)(
        columns, table.values[:, positions], kinds, {c: v for c, v in table.levels.items() if c in columns}
    )


def test_unknown_ids_get_a_clear_answer_and_no_score(runs):
    model, rows = runs[1].model(), new_rows()
    first = next(iter(model.parts))
    short = {**rows, first: IdentifiedTable(rows[first].ids[1:], rows[first].table.take(np.arange(1, ROWS)))}
    ids = (rows[first].ids[0], rows[first].ids[1], "a stranger")
    scores = model.score(ids, short)
    assert scores.scored.tolist() == [False, True, False]
    assert scores.missing_at[0] == first
    assert set(scores.missing_at[2].split(", ")) == set(model.parts)
    nobody = model.score(("a stranger",), rows)
    assert not nobody.scored.any()
    assert len(nobody.predictions) == 0


def test_a_missing_party_or_column_is_an_error_and_never_zeros(runs):
    model, rows = runs[1].model(), new_rows()
    name = next(iter(model.parts))
    with pytest.raises(DataError, match=f"missing: {name}.*Nothing is filled in"):
        model.score(rows["left"].ids, {other: of for other, of in rows.items() if other != name})
    column = model.needed_columns[name][0]
    table = rows[name].table
    renamed = dataclasses.replace(
        table,
        columns=tuple("else" if c == column else c for c in table.columns),
        levels={("else" if c == column else c): v for c, v in table.levels.items()},
    )
    with pytest.raises(DataError, match=f"have no column '{column}'"):
        model.score(rows["left"].ids, {**rows, name: IdentifiedTable(rows[name].ids, renamed)})


def test_parts_of_different_runs_are_not_mixed(runs, tmp_path):
    model, rows = runs[1].model(), new_rows()
    name = next(iter(model.parts))
    foreign = {**model.parts, name: dataclasses.replace(model.parts[name], run_id=bytes(16))}
    mixed = dataclasses.replace(model, parts=foreign)
    with pytest.raises(PeerError, match="refused JoinPrediction: ProtocolError"):
        mixed.score(rows["left"].ids, rows)
    write_finished(tmp_path / "run", runs[1], describe(runs[1]))
    card = tmp_path / "run" / "clients" / name / "model.json"
    card.write_text(card.read_text().replace(model.server.run_id.hex(), "00" * 16))
    with pytest.raises(ConfigError, match="belongs to another run"):
        Model.load(tmp_path / "run")


@pytest.mark.parametrize("file", ["server/model.safetensors", "server/weights.state", "server/model.json"])
def test_a_damaged_model_is_refused(file, runs, tmp_path):
    write_finished(tmp_path / "run", runs[0], describe(runs[0]))
    path = tmp_path / "run" / file
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StateFileError, match="damaged"):
        Model.load(tmp_path / "run")


def test_the_bytes_that_are_told_are_those_that_travel(runs):
    model, rows = runs[1].model(), new_rows()
    scores = model.score(rows["left"].ids, rows)
    kinds = ("EmbedBatch", "EncryptedEmbedding", "RemoveShare", "MaskedSum")
    sent = sum(scores.traffic.to_clients.get(k, 0) + scores.traffic.to_server.get(k, 0) for k in kinds)
    told = scores.bytes_per_row * ROWS
    assert told <= sent < told + 600 * len(model.parts)  # headers
    assert scores.bytes_per_row <= scores.bytes_per_row_without_selection


def test_a_folder_without_a_finished_run_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="holds no finished run"):
        Model.load(tmp_path)
    (tmp_path / "run.partial").mkdir()
    with pytest.raises(ConfigError, match="fedsdg resume"):
        Model.load(tmp_path / "run")


@pytest.mark.parametrize("party", ["server", "client"])
@pytest.mark.parametrize("change", ["missing", None, "x", -1, [], {}], ids=str)
def test_a_model_card_with_garbage_in_any_field_is_refused_clearly(change, party, runs, tmp_path):
    write_finished(tmp_path / "run", runs[0], describe(runs[0]))
    name = next(iter(runs[0].model().parts))
    path = tmp_path / "run" / ("server" if party == "server" else f"clients/{name}") / "model.json"
    whole = json.loads(path.read_text())
    needed = ["run_id", "clients", "settings", "sizes", "phase"] if party == "server" else ["run_id", "part"]
    for field in needed:
        card = {key: value for key, value in whole.items() if key != field or change != "missing"}
        if change != "missing":
            card[field] = change
        path.write_text(json.dumps(card))
        if party == "client" and field == "part" and change is None:
            continue  # a client without a part: refused when it is asked to score
        with pytest.raises(FedSDGError):
            Model.load(tmp_path / "run")

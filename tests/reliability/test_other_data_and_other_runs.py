"""What does not belong to an interrupted run is refused, with a reason, and nothing that was written is touched."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from reliability_helpers import (
    SEEDS,
    Crash,
    assert_same,
    crash_after_step,
    data,
    resumed_steps,
    run,
    settings,
    storage_in,
    training,
    uninterrupted,
)

from fedsdg.cli import one_line
from fedsdg.crypto import PrivateKey
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import FedSDGError, ProtocolError
from fedsdg.messages.survival import ListCheckpoints, ResumeRun, SaveCheckpoint
from fedsdg.party_source import EncodingSettings
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.keeper import run_id_of
from fedsdg.simulation import PartyTables, Storage, simulate


def contents(storage: Storage) -> dict[Path, bytes]:
    """Everything on the disk but the count of sessions."""
    found = [storage.server, *storage.clients.values()]
    return {
        path: path.read_bytes()
        for folder in found
        for path in folder.rglob("*")
        if path.is_file() and path.name != "sessions"
    }


def refused(storage: Storage, reason: str, of_run, tables: PartyTables | None = None, **options) -> None:
    """A resume fails with this reason, as the command line shows it, and changes no file."""
    before = contents(storage)
    with pytest.raises(FedSDGError) as problem:
        run(of_run, tables, storage=storage, resume=True, **options)
    assert re.search(reason, one_line(problem.value))
    assert "person-" not in one_line(problem.value)
    assert contents(storage) == before


def test_checkpoints_of_another_run_are_refused_and_kept(storage, profile, tmp_path):
    other = storage_in(tmp_path / "other")
    with pytest.raises(Crash):
        run(settings(profile), storage=other, watch=crash_after_step(5))
    mine = storage.clients["left"] / "checkpoints"
    mine.rename(tmp_path / "put aside")
    shutil.copytree(other.clients["left"] / "checkpoints", mine)
    refused(storage, "left.checkpoints holds checkpoints of another run", settings(profile))
    shutil.rmtree(mine)
    (tmp_path / "put aside").rename(mine)
    assert resumed_steps(storage, profile)[0] == ("compact", 1)


OTHER_SETTINGS = {
    "of training": lambda profile: settings(profile, mc_samples=2),
    "a seed": lambda profile: settings(profile, seed=5),
    "of the run": lambda profile: settings(profile, of_run={"test_fraction": 0.3}),
    "protection of labels": lambda profile: settings(profile, of_run={"label_epsilon": 3.0}),
}


@pytest.mark.parametrize("change", OTHER_SETTINGS.values(), ids=OTHER_SETTINGS)
def test_other_settings_are_refused_and_nothing_is_lost(change, storage, profile):
    refused(storage, "started with other settings", change(profile))


@pytest.mark.parametrize("profile", ["masked"], indirect=True)
def test_a_weaker_key_or_sigma_is_refused(storage, profile):
    weaker = settings("masked", of_run={"sigma": 40})
    refused(storage, "started with other settings", weaker)
    with pytest.raises(FedSDGError, match="refused ResumeRun: ProtocolError"):
        simulate(
            data(), settings(), private_seeds=SEEDS, allow_test_keys=True, key_bits=384, storage=storage, resume=True
        )


def with_table(name: str, table: FeatureTable, **changes) -> PartyTables:
    return dataclasses.replace(data(), tables={**data().tables, name: table}, **changes)


def changed_cell() -> PartyTables:
    values = data().tables["right"].values.copy()
    values[17, 1] += 1e-9
    return with_table("right", FeatureTable.of(values))


def renamed_column() -> PartyTables:
    return with_table("right", FeatureTable.of(data().tables["right"].values, ["x0", "x1", "other"]))


def fewer_rows() -> PartyTables:
    ids = {**data().client_ids, "right": data().client_ids["right"][:40]}
    return with_table("right", data().tables["right"].take(np.arange(40)), client_ids=ids)


def rows_in_another_order() -> PartyTables:
    order = np.arange(62)[::-1]
    ids = {**data().client_ids, "right": tuple(np.array(data().client_ids["right"])[order])}
    return with_table("right", data().tables["right"].take(order), client_ids=ids)


def changed_label() -> PartyTables:
    labels = data().labels.copy()
    labels[3] = "no" if labels[3] == "yes" else "yes"
    return dataclasses.replace(data(), labels=labels)


OTHER_DATA = {
    "a cell": (changed_cell, "table, how it is prepared, or its private seed has changed"),
    "a column's name": (renamed_column, "table, how it is prepared, or its private seed has changed"),
    "fewer rows": (fewer_rows, "table.* has changed since"),
    "another order of rows": (rows_in_another_order, "table, how it is prepared, or its private seed has changed"),
    "another preparation": (
        lambda: dataclasses.replace(data(), encodings={"left": EncodingSettings(levels=3)}),
        "table, how it is prepared, or its private seed has changed",
    ),
    "a label": (changed_label, "The labels, their ids or the server's private seed have changed"),
}


@pytest.mark.parametrize(("change", "reason"), OTHER_DATA.values(), ids=OTHER_DATA)
def test_changed_data_is_refused_and_nothing_is_lost(change, reason, storage, profile):
    refused(storage, reason, settings(profile), change())


def test_a_refused_resume_can_be_tried_again_with_the_right_data(storage, profile):
    refused(storage, "", settings(profile), changed_cell())
    refused(storage, "", settings(profile, mc_samples=2))
    assert resumed_steps(storage, profile)[0] == ("compact", 1)


@pytest.mark.parametrize("party", ["server", "left"])
def test_another_private_seed_is_refused_and_nothing_is_lost(party, storage, profile):
    before = contents(storage)
    seeds = {**SEEDS, party: bytes(32)}
    with pytest.raises(FedSDGError):
        simulate(
            data(),
            settings(profile),
            private_seeds=seeds,
            allow_test_keys=True,
            key_bits=512,
            storage=storage,
            resume=True,
        )
    assert contents(storage) == before


# --- A client that is asked for what it does not have --------------------------------------------------------------


class AskedFirst(InProcessChannel):
    """Lets a test ask the clients before the server does."""

    def __init__(self, roles, ask) -> None:
        super().__init__(roles)
        ask(self)


@pytest.mark.parametrize("profile", ["masked"], indirect=True)
def test_a_client_goes_back_only_to_a_checkpoint_that_it_has_of_a_run_that_it_knows(storage, profile):
    run_id = run_id_of(storage.checkpoints)
    text = training().model_dump_json()

    def ask(channel: AskedFirst) -> None:
        role = channel.roles["left"]
        key = PrivateKey.generate(512, allow_test_size=True).public_key.to_bytes()
        right = ResumeRun("left", run_id, 4, text, 512, 64, key)
        for wrong, reason in (
            ({"run_id": bytes(16)}, "belongs to another run"),
            ({"number": 3}, "Cannot read"),
            ({"number": -1}, "Cannot read"),
            ({"client": "right"}, "meant for another"),
            ({"settings": "{}"}, "other settings"),
            ({"server_key": key[:-1]}, "key"),
        ):
            with pytest.raises(FedSDGError, match=reason):
                role.handle(dataclasses.replace(right, **wrong))
            assert role.state.order == "new"
            assert role.state.session is None
        with pytest.raises(FedSDGError, match="another run"):
            role.handle(ListCheckpoints(bytes(16)))
        assert role.handle(ListCheckpoints(run_id)).numbers == (2, 4)

    simulation = run(settings(), storage=storage, resume=True, channel_type=lambda roles: AskedFirst(roles, ask))
    assert_same(simulation, uninterrupted(settings()))


def test_a_client_without_a_folder_writes_nothing_and_says_so():
    simulation = run(settings())
    role = simulation.channel.roles["left"]
    with pytest.raises(ProtocolError, match="without a folder"):
        role.handle(SaveCheckpoint(3))
    assert role.state.order == "ready"

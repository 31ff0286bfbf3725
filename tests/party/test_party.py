"""Organisations agree on a job, train, go on after a crash, and score, each with its own file and folder."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from party_helpers import SETTINGS, BytesChannel, Organisations

from fedsdg.errors import ConfigError, PeerError, PeerLost, StateFileError
from fedsdg.messages.agreement import job_hash
from fedsdg.party import PartyRole, load_party, lock_run
from fedsdg.party_server import agree, canonical_job, drive, tell_all
from fedsdg.state_files import FolderLock
from plain_twins import learned_the_same, plain_twin

JOB = {"kind": "train", "run": "first", "settings": SETTINGS}


@pytest.fixture
def organisations(tmp_path: Path) -> Iterator[Organisations]:
    found = Organisations(tmp_path)
    yield found
    found.close()


def run(organisations: Organisations, channel: BytesChannel | None = None, **changes: object) -> dict:
    bank = organisations.party("bank")
    return drive(bank, channel or organisations.channel(), organisations.clients, {**JOB, **changes})


def twin_of(organisations: Organisations):
    """The same job in one process, in the clear, from the seeds that the parties drew."""
    parties = {name: organisations.party(name) for name in ("bank", *organisations.clients)}
    return plain_twin(parties, "bank", "first", SETTINGS)


def test_a_job_between_organisations_learns_the_same_bits_as_in_one_process_in_the_clear(organisations):
    result = run(organisations)
    assert learned_the_same(result, twin_of(organisations))


def test_every_part_stays_in_its_own_folder_and_names_stay_with_their_owner(organisations):
    result = run(organisations)
    assert json.loads((organisations.state("bank") / "model.json").read_text())["party"] == "server"
    for name in organisations.clients:
        card = json.loads((organisations.state(name) / "model.json").read_text())
        assert card["party"] == name
        columns = pl.read_csv(organisations.folder / name / "rows.csv").columns[1:]
        seen = json.dumps(result) + "".join(
            path.read_text(errors="replace") for path in organisations.state("bank").rglob("*") if path.is_file()
        )
        assert not [column for column in columns if column in seen]
    assert not list(organisations.folder.rglob("checkpoint-*"))


def test_new_rows_are_scored_for_the_label_owner_alone(organisations):
    run(organisations)
    found = run(organisations, kind="predict")
    assert 0 < found["scored"] < found["asked"] == 250
    scores = pl.read_csv(organisations.state("bank") / found["file"])
    assert scores.columns == ["who", "prediction", "probability_0", "probability_1", "status"]
    assert (scores["status"] == "scored").sum() == found["scored"]
    for name in organisations.clients:
        assert not list((organisations.folder / name).rglob("scores*"))


def test_a_client_of_whose_columns_none_was_selected_does_not_block_predictions(organisations):
    settings = {**SETTINGS, "training": {**SETTINGS["training"], "n_features": 1}}
    run(organisations, settings=settings)
    kept = [json.loads((organisations.state(name) / "model.json").read_text()) for name in organisations.clients]
    assert sorted(len(card["selected"]) for card in kept) == [0, 1]
    found = run(organisations, settings=settings, kind="predict")
    assert 0 < found["scored"] < found["asked"] == 250


class Cut(BytesChannel):
    """Loses the connection at a message."""

    def __init__(self, channel: BytesChannel, at: int) -> None:
        super().__init__(channel.answers)
        self.left = at

    def carry_all(self, requests):
        self.left -= 1
        if self.left < 0:
            raise PeerError("the line is dead")
        return super().carry_all(requests)


def test_a_run_that_broke_off_is_resumed_with_new_processes_and_ends_the_same(organisations):
    with pytest.raises(PeerError, match="the line is dead"):
        run(organisations, Cut(organisations.channel(), 45))
    with pytest.raises((PeerError, ConfigError), match=r"interrupted run|ConfigError"):
        run(organisations)  # not from the beginning, over what was begun
    result = run(organisations, kind="resume")
    assert result["losses"] == {p: list(losses) for p, losses in twin_of(organisations).result.losses.items()}


class LostAfter(BytesChannel):
    """Loses the connection to everybody when the first client has answered a request of this kind."""

    def __init__(self, channel: BytesChannel, kind: str) -> None:
        super().__init__(channel.answers)
        self.kind = kind.encode()

    def carry_all(self, requests):
        client, blob = next(iter(requests.items()))
        if self.kind in blob[:64]:
            self.answers[client](blob)
            raise PeerLost("the line is dead")
        return super().carry_all(requests)


def test_a_party_that_was_done_goes_on_with_one_that_was_not(organisations):
    with pytest.raises(PeerLost, match="the line is dead"):
        run(organisations, LostAfter(organisations.channel(), "FinishRun"))
    done, other = (organisations.state(name) / "model.json" for name in organisations.clients)
    assert done.exists()
    assert not other.exists()
    with pytest.raises(PeerError, match="ConfigError"):
        run(organisations)
    result = run(organisations, kind="resume")
    assert result["losses"] == {p: list(losses) for p, losses in twin_of(organisations).result.losses.items()}
    with pytest.raises(PeerError, match="ConfigError"):
        run(organisations, kind="resume")  # now it is finished everywhere


def test_two_processes_cannot_use_one_run_of_a_party_at_once(organisations, monkeypatch, caplog):
    monkeypatch.setattr("fedsdg.party.LOCK_WAIT", 0.0)
    text = canonical_job({**JOB, "clients": organisations.clients})
    agree(organisations.channel(), organisations.clients, text)
    second = {name: PartyRole(organisations.party(name)) for name in organisations.clients}
    with pytest.raises(PeerError, match="refused ProposeJob: StateFileError"):
        agree(BytesChannel(second), organisations.clients, text)
    assert "is working in" in caplog.text
    organisations.close()
    agree(BytesChannel(second), organisations.clients, text)  # the first have let go
    for role in second.values():
        role.close()
    agree(
        BytesChannel({name: PartyRole(organisations.party(name)) for name in organisations.clients}),
        organisations.clients,
        text,
    )
    agree(organisations.channel(), organisations.clients, text)  # and so have those that nobody holds any more


def test_a_run_that_has_ended_lets_go_of_its_folder_and_one_that_ends_is_waited_for(organisations, monkeypatch):
    channel = organisations.channel()
    text = canonical_job({**JOB, "clients": organisations.clients})
    agree(channel, organisations.clients, text)
    threading.Timer(0.5, tell_all, (channel, organisations.clients, "enough")).start()
    second = {name: PartyRole(organisations.party(name)) for name in organisations.clients}
    agree(BytesChannel(second), organisations.clients, text)


def test_the_label_owners_run_is_locked_while_it_is_driven(organisations, monkeypatch):
    monkeypatch.setattr("fedsdg.party.LOCK_WAIT", 0.0)
    lock = lock_run(organisations.state("bank"), "train")
    with pytest.raises(StateFileError, match=f"Process {os.getpid()} is working in"):
        run(organisations)
    lock.release()
    FolderLock(organisations.state("bank")).release()


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("minimum_key_bits = 3072", "key_bits is 2048; policy.minimum_key_bits is 3072"),
        ("minimum_sigma = 100", "sigma is 64; policy.minimum_sigma is 100"),
        ('kinds = ["predict"]', "policy.kinds does not allow 'train'"),
        ('jobs = ["abc"]', "policy.jobs does not list this job"),
        ('columns = ["income"]', "policy.columns does not list every column that this party's rows bring"),
    ],
)
def test_a_policy_refuses_a_job_before_any_key_is_made_and_everybody_hears_why(rule, reason, organisations, caplog):
    refusing, other = organisations.clients
    organisations.policies[refusing] = rule
    caplog.set_level(logging.INFO, "fedsdg")
    with pytest.raises(PeerError, match=f"{refusing}.*refused the job: {reason}"):
        run(organisations)
    ended = [record for record in caplog.records if "the server ended the run" in record.message]
    assert sum(reason in record.message for record in ended) == 2  # in the log of each client
    assert not organisations.state(refusing).exists()
    assert not (organisations.state(other) / "checkpoints").exists()
    del organisations.policies[refusing]
    clean = organisations.folder / refusing / "party.toml"
    clean.write_text(clean.read_text().replace(rule, ""))
    agree(organisations.channel(), organisations.clients, canonical_job({**JOB, "clients": organisations.clients}))


@pytest.mark.parametrize(
    ("rule", "reason"), [("minimum_key_bits = 3072", "key_bits"), ('jobs = ["abc"]', "policy.jobs")]
)
def test_the_label_owner_has_rules_of_its_own_and_all_clients_hear_of_them(rule, reason, organisations, caplog):
    organisations.policies["bank"] = rule
    caplog.set_level(logging.INFO, "fedsdg")
    with pytest.raises(PeerError, match=f"the label owner refused the job: {reason}"):
        run(organisations)
    heard = [
        record.message
        for record in caplog.records
        if "the server ended the run: the label owner refused" in record.message
    ]
    assert len(heard) == len(organisations.clients)
    assert not (organisations.state("bank") / "private_seed").exists()  # before the label owner began anything


def test_a_client_that_agrees_writes_down_what_the_job_asks(organisations, caplog):
    caplog.set_level(logging.INFO, "fedsdg")
    run(organisations)
    assert "(train): 2 clients, keys of 2048 bits, sigma 64" in caplog.text


def test_which_columns_a_policy_does_not_list_only_their_owner_is_told(organisations, caplog):
    refusing = organisations.clients[0]
    organisations.policies[refusing] = 'columns = ["income"]'
    unlisted = [
        name for name in pl.read_csv(organisations.folder / refusing / "rows.csv").columns[1:] if name != "income"
    ]
    with pytest.raises(PeerError) as caught:
        run(organisations)
    assert not [name for name in unlisted if name in str(caught.value)]
    told = [record.message for record in caplog.records if "policy.columns does not list" in record.message]
    assert f"policy.columns does not list {', '.join(unlisted)}" in told
    assert not [name for text in told if "the server ended" in text for name in unlisted if name in text]


def test_a_job_that_was_looked_at_can_be_approved_by_its_hash(organisations):
    text = canonical_job({**JOB, "clients": organisations.clients})
    organisations.policies[organisations.clients[0]] = f'jobs = ["{job_hash(text)}"]'
    assert run(organisations)["job_hash"] == job_hash(text)
    changed = canonical_job({**JOB, "clients": organisations.clients, "settings": {**SETTINGS, "sigma": 80}})
    assert job_hash(changed) != job_hash(text)


def test_a_row_is_not_asked_for_more_often_than_the_policy_allows(organisations, caplog):
    organisations.policies[organisations.clients[0]] = "maximum_queries_per_row = 2"
    with pytest.raises(PeerError, match="refused EmbedBatch: QueryLimitReached"):
        run(organisations)
    assert "the reason: A row was asked for more than 2 times: policy.maximum_queries_per_row." in caplog.text
    told = f"the server ended the run: client {organisations.clients[0]!r} refused EmbedBatch: QueryLimitReached"
    assert caplog.text.count(told) == 2


def test_another_version_of_the_package_is_refused_by_both_numbers(organisations, monkeypatch):
    monkeypatch.setattr("fedsdg.party_server.own_version", lambda: "99.0.0")
    with pytest.raises(PeerError, match=r"the server runs fedsdg 99\.0\.0, this party"):
        run(organisations)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"\[party\] is missing"),
        ('[party]\nname = "a"\nfolder = "f"', r"neither \[rows\] nor \[labels\]"),
        (
            '[party]\nname = "a"\nfolder = "f"\n[rows]\ntable = "t.csv"\n[labels]\ntable="l.csv"\ntarget="y"',
            r"\[rows\] and",
        ),
        ('[party]\nname = "server"\nfolder = "f"\n[rows]\ntable = "t.csv"', "cannot be called 'server'"),
        ('[party]\nname = "a"\nfolder = "f"\nage = 3\n[rows]\ntable = "t.csv"', "party.age: unknown setting"),
        (
            '[party]\nname = "a"\nfolder = "f"\n[rows]\ntable = "t.csv"\n[policy]\nminimum_key_bits = 512',
            "minimum_key_bits",
        ),
        ("[party", "not valid TOML"),
        ("[people]", r"unknown section \[people\]"),
    ],
)
def test_a_wrong_party_file_is_refused_by_key(text: str, complaint: str, tmp_path: Path):
    (tmp_path / "party.toml").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_party(tmp_path / "party.toml")


def test_without_a_party_file_the_variable_is_named(monkeypatch):
    monkeypatch.delenv("FEDSDG_PARTY", raising=False)
    with pytest.raises(ConfigError, match="FEDSDG_PARTY"):
        load_party()

"""Organisations agree on a job, train, go on after a crash, and score, each with its own file and folder."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import polars as pl
import pytest
from party_helpers import SETTINGS, BytesChannel, Organisations

from fedsdg.data.sources import read_labels, read_party
from fedsdg.errors import ConfigError, PeerError
from fedsdg.job import RunSettings
from fedsdg.messages.agreement import job_hash
from fedsdg.party import load_party
from fedsdg.party_server import canonical_job, drive
from fedsdg.simulation import PartyTables, simulate

JOB = {"kind": "train", "run": "first", "settings": SETTINGS}


@pytest.fixture
def organisations(tmp_path: Path) -> Organisations:
    return Organisations(tmp_path)


def run(organisations: Organisations, channel: BytesChannel | None = None, **changes: object) -> dict:
    bank = organisations.party("bank")
    return drive(bank, channel or organisations.channel(), organisations.clients, {**JOB, **changes})


def plain_twin(organisations: Organisations):
    """The same job in one process, in the clear, from the seeds that the parties drew."""
    bank = organisations.party("bank")
    labels, _ = read_labels(bank.labels, "bank")
    rows = {name: read_party(organisations.party(name).rows, name) for name in organisations.clients}
    names = {"server": "bank", **{name: name for name in organisations.clients}}
    seeds = {
        name: bytes.fromhex((organisations.state(party) / "private_seed").read_text()) for name, party in names.items()
    }
    return simulate(
        PartyTables(
            labels.labels,
            {name: of.table for name, of in rows.items()},
            "bank",
            labels.ids,
            client_ids={name: of.ids for name, of in rows.items()},
        ),
        RunSettings(**{**SETTINGS, "profile": "plain"}),
        private_seeds=seeds,
    )


def test_a_job_between_organisations_learns_the_same_bits_as_in_one_process_in_the_clear(organisations):
    result = run(organisations)
    twin = plain_twin(organisations)
    assert result["losses"] == {phase: list(losses) for phase, losses in twin.result.losses.items()}
    assert result["selected"] == twin.result.n_selected
    assert result["metrics"]["test"] == twin.test_score.value


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
    assert result["losses"] == {p: list(losses) for p, losses in plain_twin(organisations).result.losses.items()}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("minimum_key_bits = 3072", "key_bits is 2048; policy.minimum_key_bits is 3072"),
        ("minimum_sigma = 100", "sigma is 64; policy.minimum_sigma is 100"),
        ('kinds = ["predict"]', "policy.kinds does not allow 'train'"),
        ('jobs = ["abc"]', "policy.jobs does not list this job"),
    ],
)
def test_a_policy_refuses_a_job_before_any_key_is_made_and_everybody_hears_why(rule, reason, organisations, caplog):
    refusing, other = organisations.clients
    organisations.policies[refusing] = rule
    caplog.set_level(logging.INFO, "fedsdg")
    with pytest.raises(PeerError, match=f"{refusing}.*refused the job: {reason}"):
        run(organisations)
    ended = [record for record in caplog.records if "the server ended the run" in record.message]
    assert any(reason in record.message for record in ended)  # the other client's log
    assert not organisations.state(refusing).exists()
    assert not (organisations.state(other) / "checkpoints").exists()


def test_a_job_that_was_looked_at_can_be_approved_by_its_hash(organisations):
    text = canonical_job({**JOB, "clients": organisations.clients})
    organisations.policies[organisations.clients[0]] = f'jobs = ["{job_hash(text)}"]'
    assert run(organisations)["job_hash"] == job_hash(text)
    changed = canonical_job({**JOB, "clients": organisations.clients, "settings": {**SETTINGS, "sigma": 80}})
    assert job_hash(changed) != job_hash(text)


def test_a_row_is_not_asked_for_more_often_than_the_policy_allows(organisations):
    organisations.policies[organisations.clients[0]] = "maximum_queries_per_row = 2"
    with pytest.raises(PeerError, match="refused EmbedBatch: ProtocolError"):
        run(organisations)


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

"""Reports across organisations: each party reports on its own folder, and a run that broke off is whole again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from report_helpers import Tags, drawings

from fedsdg.errors import ConfigError
from fedsdg.party_server import drive
from fedsdg.report import html
from fedsdg.report.build import build_page

sys.path.insert(0, str(Path(__file__).parents[1] / "party"))

from party_helpers import SETTINGS, BytesChannel, Organisations

JOB = {"kind": "train", "run": "first", "settings": SETTINGS}


class Cable:
    """A channel that is cut after some messages."""

    def __init__(self, channel: BytesChannel, messages: int) -> None:
        self.channel, self.left, self.carry = channel, messages, channel.carry_all
        channel.carry_all = self.carry_some

    def carry_some(self, requests):
        self.left -= 1
        if self.left < 0:
            raise ConnectionError
        return self.carry(requests)


@pytest.fixture(scope="module")
def organisations(tmp_path_factory):
    """Three organisations whose job broke off once and went on."""
    found = Organisations(tmp_path_factory.mktemp("organisations"))
    bank, channel = found.party("bank"), found.channel()
    Cable(channel, 70)
    with pytest.raises(ConnectionError):
        drive(bank, channel, found.clients, JOB)
    found.broken = (found.state("bank") / "metrics.jsonl").read_text()
    with pytest.raises(ConfigError, match="not finished"):
        build_page([found.state("bank")])
    found.result = drive(found.party("bank"), found.channel(), found.clients, {**JOB, "kind": "resume"})
    yield found
    found.close()


def columns_of(organisations, name):
    return (organisations.folder / name / "rows.csv").read_text().splitlines()[0].split(",")[1:]


def test_the_label_owner_sees_time_bytes_and_scores_and_no_clients_columns(organisations):
    page = html.render(build_page([organisations.state("bank")]))
    text = Tags(page).text
    assert {drawing[0].text for drawing in drawings(page)} == {
        "Accuracy against open features",
        "Open features over time",
        "Embedding dimensions over time",
        "Bytes over time",
        "Training loss",
    }
    assert f"{organisations.result['metrics']['test']:.3f}" in text
    for name in organisations.clients:
        assert name in text
        assert not [column for column in columns_of(organisations, name) if column in page]


def test_a_client_sees_its_own_gates_only(organisations):
    first, second = organisations.clients
    page = html.render(build_page([organisations.state(first)]))
    assert [drawing[0].text for drawing in drawings(page)] == [f"Gate paths of {first}"]
    assert not [column for column in columns_of(organisations, second) if column in page]


def test_a_run_that_broke_off_has_every_step_once(organisations):
    lines = [json.loads(line) for line in (organisations.state("bank") / "metrics.jsonl").read_text().splitlines()]
    losses = organisations.result["losses"]
    assert organisations.broken.count("\n") > 0
    assert [line["loss"] for line in lines] == [*losses["gated"], *losses["compact"]]
    assert [line["step"] for line in lines] == [
        *range(1, len(losses["gated"]) + 1),
        *range(1, len(losses["compact"]) + 1),
    ]
    assert [line["bytes"] for line in lines] == sorted(line["bytes"] for line in lines)

"""Texts nested deeper than a parser can go, from other parties or in files, are refused like any other nonsense."""

from __future__ import annotations

import pytest

from fedsdg.client.agreement import read_job
from fedsdg.client.session import _settings
from fedsdg.errors import ConfigError, ProtocolError, StateFileError
from fedsdg.job import load_job
from fedsdg.learning.client_files import read_card
from fedsdg.party import load_party

DEEP = "[" * 100_000


def test_a_proposed_job_and_its_settings():
    with pytest.raises(ProtocolError, match="cannot be read"):
        read_job(DEEP)
    with pytest.raises(ConfigError, match="not JSON"):
        _settings(DEEP)


@pytest.mark.parametrize("read", [load_job, load_party])
def test_a_job_file_and_a_party_file(read, tmp_path):
    path = tmp_path / "file.toml"
    path.write_text("a = " + DEEP)
    with pytest.raises(ConfigError, match="not valid TOML"):
        read(path)


def test_a_model_card(tmp_path):
    (tmp_path / "model.json").write_text(DEEP)
    with pytest.raises(StateFileError, match="damaged"):
        read_card(tmp_path)

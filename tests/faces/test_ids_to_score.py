"""Whose scores a prediction gives: the ids of the label owner, read as they were for training."""

from __future__ import annotations

import polars as pl
import pytest

from fedsdg.errors import ConfigError, DataError
from fedsdg.scoring import ids_to_score


@pytest.fixture
def owner_file(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("key,age\n007,30\n010,31\n7,32\n", encoding="utf-8")
    return path


def test_ids_of_a_file_stay_text_as_written(owner_file):
    assert ids_to_score(owner_file, None, "bank", "key") == ("007", "010", "7")


def test_ids_of_a_frame_are_read_like_those_of_training():
    assert ids_to_score(pl.DataFrame({"key": [7.0, 10.0]}), None, "bank", "key") == ("7", "10")


def test_one_id_is_an_id_and_no_list_of_letters(owner_file):
    assert ids_to_score(owner_file, "007", "bank", "key") == ("007",)


def test_ids_that_the_label_owner_does_not_hold_are_refused_and_not_quoted(owner_file):
    with pytest.raises(DataError, match=r"2 of 3 cannot be scored: the rows of bank do not hold them") as refusal:
        ids_to_score(owner_file, ["007", "secret-8", "secret-9"], "bank", "key")
    assert "secret" not in str(refusal.value)


def test_without_rows_any_ids_may_be_asked_for():
    assert ids_to_score(None, ["b", "a"], "bank", "key") == ("b", "a")


@pytest.mark.parametrize(("ids", "told"), [(None, "Whose scores"), ([], "the list is empty")])
def test_no_ids_at_all_are_refused(ids, told):
    with pytest.raises(ConfigError, match=told):
        ids_to_score(None, ids, "bank", "key")


def test_a_file_without_the_id_column_is_refused(owner_file):
    with pytest.raises(DataError, match="bank: there is no id column 'customer'"):
        ids_to_score(owner_file, None, "bank", "customer")

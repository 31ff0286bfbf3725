"""Which columns a row says were chosen, however many."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiment_helpers import TINY, row, small_cell

from fedsdg.baselines.all_features import AllFeatures
from fedsdg.baselines.original_gate import OriginalGate
from fedsdg.experiments import chosen_columns
from fedsdg.experiments.chosen_columns import columns_of, record_columns, unpack
from fedsdg.experiments.forms import Answer
from fedsdg.experiments.measure import config_hash, measure
from fedsdg.experiments.security_cost import job_table
from fedsdg.experiments.stability import agreement


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 4999, 5003])
def test_columns_are_read_back_whatever_their_number(count):
    chosen = np.sort(np.random.default_rng(count).permutation(5003)[:count])
    written = json.loads(json.dumps(record_columns(chosen, 5003)))
    assert ("packed_columns" in written) == (count > chosen_columns.MOST_COLUMNS_LISTED)
    assert columns_of(written) == frozenset(chosen.tolist())
    assert len(json.dumps(written)) < 3000
    Answer(dataset="A", method="m", fold=0, seed=0, **written)


def test_a_row_that_does_not_say_it_has_no_columns():
    assert columns_of({}) is None
    assert columns_of({"columns": None}) is None


@pytest.mark.parametrize("text", ["nicht base64!", "AAA", "ä"])
def test_what_is_no_packed_selection_is_refused(text):
    with pytest.raises(ValueError, match="base64"):
        unpack(text)
    with pytest.raises(ValueError, match="base64"):
        Answer(dataset="A", method="m", fold=0, seed=0, packed_columns=text)


def test_large_selections_are_compared_too(monkeypatch):
    monkeypatch.setattr(chosen_columns, "MOST_COLUMNS_LISTED", 2)
    rows = [{**record_columns(np.array(chosen), 9), "ratio": 4 / 9} for chosen in ([0, 1, 2, 3], [0, 1, 2, 8])]
    assert agreement(rows) == pytest.approx(1 - (1 / 9) / (20 / 81))


def test_profiles_that_do_not_say_their_columns_are_not_called_equal():
    plain, masked = row(method="plain"), row(method="masked")
    for each in (plain, masked):
        each |= {"columns": None, "job_seconds": 1.0, "messages": 1}
    assert "0 of 1" in job_table([plain, masked])
    for each in (plain, masked):
        each |= record_columns(np.arange(600), 700)
    assert "1 of 1" in job_table([plain, masked])


def test_a_row_says_which_settings_its_model_was_trained_with():
    cell = small_cell(config=TINY)
    usual, gates = measure(cell, AllFeatures()), measure(cell, OriginalGate())
    assert usual["trained_with"] == config_hash(cell.vertical.config)
    assert gates["trained_with"] == config_hash(OriginalGate().config(cell.vertical.config))
    assert gates["trained_with"] != usual["trained_with"]

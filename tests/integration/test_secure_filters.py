"""Filters under encryption give the same scores as in the clear, bit for bit, whatever the columns and the classes."""

from __future__ import annotations

import hashlib
from typing import get_args

import numpy as np
import pytest

from fedsdg.baselines.ranking import top
from fedsdg.baselines.secure_filters import PLAIN, masked_scores, plain_scores, run_filter
from fedsdg.baselines.selector import SERVER, VerticalData
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import BinningSettings, TrainingConfig
from fedsdg.crypto import Decryptor, Encryptor, Evaluator
from fedsdg.crypto.residues import residues_from_bytes, residues_to_bytes
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DoesNotFit, MalformedMessage, PeerError
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages import codec, square_sum_layout
from fedsdg.messages.filter_layout import ChiSquareLayout, ClassSumLayout, filter_layout
from fedsdg.messages.filter_scores import ScoreColumns
from fedsdg.messages.filter_statistics import Statistic, class_square_sums, fixed_point_cells, label_columns
from fedsdg.messages.gini_initialization import MaskedCounts
from fedsdg.messages.refusal import Refusal
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server import filter_scores as at_server
from fedsdg.server.federation import MaskedFederation
from fedsdg.server.gini_initialization import square_sums

STATISTICS = get_args(Statistic)
BITS = 512
CONFIG = TrainingConfig(binning=BinningSettings(bins=5))


def columns_of_all_kinds(labels, n_columns=9, seed=0):
    """Informative, constant, telling everything, few values, sparse, with an outlier, huge, and noise."""
    rng, n_rows = np.random.default_rng(seed), len(labels)
    codes = np.unique(labels, return_inverse=True)[1]
    values = rng.normal(size=(n_rows, n_columns))
    values[:, 0] += codes
    values[:, 1] = 0.1  # a mean of many 0.1 is not exactly 0.1
    values[:, 2] = codes
    values[:, 3] = rng.integers(0, 4, n_rows)
    values[:, 4] = (rng.random(n_rows) < 0.1) * rng.integers(1, 9, n_rows)
    values[7, 5] = -5e4
    values[:, 6] *= 1e100
    return values


def deal(values, labels, n_clients, config=CONFIG):
    parts = np.array_split(np.arange(values.shape[1]), n_clients)
    tables = {f"client {i}": FeatureTable.of(values[:, part]) for i, part in enumerate(parts)}
    seeds = {name: hashlib.sha256(name.encode()).digest() for name in (SERVER, *tables)}
    return VerticalData(tables, labels, np.arange(len(labels) - 10), config, seeds)


def table(n_classes, n_clients, n_rows=110):
    labels = np.random.default_rng(n_classes).integers(0, n_classes, n_rows)
    if n_classes == 1:
        labels = np.random.default_rng(3).normal(size=n_rows)
    return deal(columns_of_all_kinds(np.digitize(labels, [0]) if n_classes == 1 else labels), labels, n_clients)


def same(masked, plain) -> bool:
    return list(masked) == list(plain) and all(masked[c].tobytes() == plain[c].tobytes() for c in plain)


@pytest.mark.parametrize("n_clients", [2, 3])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_masked_scores_equal_plain_ones_bit_for_bit(statistic, n_classes, n_clients):
    data = table(n_classes, n_clients)
    masked = masked_scores(data, statistic, key_bits=BITS, allow_test_keys=True)
    plain = plain_scores(data, statistic)
    assert same(masked, plain)
    every = np.concatenate(list(masked.values()))
    assert np.argmin(every) == 1  # the constant column
    assert np.argmax(every) == 2  # the one that tells everything
    assert len(np.unique(every)) > 6


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_numeric_target_is_scored_alike(statistic):
    data = table(1, 2)
    assert data.objective.task == "regression"
    assert same(masked_scores(data, statistic, key_bits=BITS, allow_test_keys=True), plain_scores(data, statistic))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_masked_scores_equal_plain_ones_with_keys_of_2048_bits(statistic):
    labels = np.arange(40) % 3
    data = deal(columns_of_all_kinds(labels, n_columns=7), labels, 2)
    assert same(masked_scores(data, statistic), plain_scores(data, statistic))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_scores_depend_on_the_labels_and_on_the_rows_that_train(statistic):
    data = table(2, 2)
    other = deal(np.hstack([t.values for t in data.tables.values()]), 1 - data.labels[::-1], 2)
    plain = plain_scores(data, statistic)
    assert not same(masked_scores(other, statistic, key_bits=BITS, allow_test_keys=True), plain)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_columns_are_worked_off_in_chunks_with_as_few_messages(statistic, monkeypatch):
    monkeypatch.setattr(square_sum_layout, "CHUNK_ITEMS", 8)
    labels = np.arange(60) % 3
    data = deal(columns_of_all_kinds(labels, n_columns=24), labels, 2)
    layout = filter_layout(statistic, len(data.train_rows), 12, 3, CONFIG.binning, BITS, 64)
    assert len(list(layout.chunks())) > 1
    run = run_filter(data, statistic, key_bits=BITS, allow_test_keys=True)
    assert same(run.scores, plain_scores(data, statistic))
    filters = {kind: run.traffic.messages[kind] for kind in ("ScoreColumns", "MaskedCounts", "FinishFilter")}
    assert filters == dict.fromkeys(filters, 2)


def test_cells_are_multiplied_in_blocks(monkeypatch):
    monkeypatch.setattr("fedsdg.client.filter_scores.BITS_AT_ONCE", 2 * 8 * 85 * 17)
    data = table(3, 2)
    assert len(data.train_rows) == 85
    assert same(masked_scores(data, "sffs", key_bits=BITS, allow_test_keys=True), plain_scores(data, "sffs"))


def test_a_class_that_no_training_row_has_changes_no_equality():
    labels = np.array([0, 1] * 50 + [0, 1, 2] * 3 + [2])
    data = deal(columns_of_all_kinds(labels), labels, 2)
    assert 2 not in data.labels[data.train_rows]
    for statistic in STATISTICS:
        masked = masked_scores(data, statistic, key_bits=BITS, allow_test_keys=True)
        assert same(masked, plain_scores(data, statistic))


def test_the_same_scores_select_the_same_columns():
    data = table(4, 3)
    for statistic in STATISTICS:
        chosen = [
            top(scores, 3).columns
            for scores in (
                masked_scores(data, statistic, key_bits=BITS, allow_test_keys=True),
                plain_scores(data, statistic),
            )
        ]
        assert {c: p.tolist() for c, p in chosen[0].items()} == {c: p.tolist() for c, p in chosen[1].items()}


# --- Widths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [2, 3, 50, 1000])
@pytest.mark.parametrize("balance", ["one", "half", "all but one"])
def test_the_largest_possible_sums_fit_their_slots(n_rows, balance):
    ones = {"one": 1, "half": max(1, n_rows // 2), "all but one": n_rows - 1}[balance]
    codes = (np.arange(n_rows) < ones).astype(np.int64)
    cells = fixed_point_cells(np.column_stack([codes, 1 - codes]).astype(float))  # tells everything, in both signs
    numbers = label_columns("sffs", codes, 2)
    layout = ClassSumLayout(n_rows, 2, 1, 2, 2048, 64)
    values = numbers.T @ cells
    assert values.min() >= -layout.shift
    assert values.max() < (1 << layout.value_bits) - layout.shift
    assert max(class_square_sums(cells, numbers)) <= layout.largest_sum < 1 << layout.score_width
    table_layout = ChiSquareLayout(n_rows, 2, 2, 2, 2048, 64)
    w = label_columns("chi2", codes, 2).max(axis=0)  # bins are the classes: bin weights equal class weights
    v = [int(x) ** 2 * int(n) for x, n in zip(w, (n_rows - ones, ones), strict=True)]
    assert max(v) < 1 << table_layout.value_bits
    assert sum(x * x for x in v) <= table_layout.largest_sum < 1 << table_layout.score_width


def test_layouts_that_cannot_be_are_refused():
    with pytest.raises(DoesNotFit):
        ChiSquareLayout(n_rows=50, n_columns=1, n_bins=2, n_classes=2, key_bits=120, sigma=64)
    with pytest.raises(ConfigError):
        ClassSumLayout(n_rows=50, n_columns=1, n_bins=2, n_classes=2, key_bits=512, sigma=64)
    with pytest.raises(ConfigError):
        filter_layout("chi2", 50, 3, 1, CONFIG.binning, 512, 64)  # a numeric target has no table


# --- Peers that do something else ----------------------------------------------------------------------------------


def test_an_unknown_filter_is_refused():
    with pytest.raises(ConfigError, match="there are gini, ms_gini, sffs, chi2"):
        masked_scores(table(2, 2), "entropy")
    assert set(PLAIN) == set(STATISTICS)


def test_sums_that_do_not_belong_to_the_counts_are_noticed(monkeypatch):
    def of_another_mask(reply, layout, decryptor):
        sums = bytearray(square_sums(reply, layout, decryptor))
        sums[-2] ^= 1  # far above the slots that are used
        return bytes(sums)

    monkeypatch.setattr(at_server, "square_sums", of_another_mask)
    for statistic in ("sffs", "chi2"):
        with pytest.raises(PeerError) as refused:
            masked_scores(table(2, 2), statistic, key_bits=BITS, allow_test_keys=True)
        assert isinstance(refused.value.__cause__, MalformedMessage)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_sum_that_fits_its_slot_but_no_labels_is_noticed(statistic, monkeypatch):
    def one_bit_more(reply, layout, decryptor):
        T = residues_from_bytes(square_sums(reply, layout, decryptor), layout.score_ciphertexts, decryptor.key)
        return residues_to_bytes([T[0] + (1 << (layout.score_width - 1)), *T[1:]], decryptor.key)

    monkeypatch.setattr(at_server, "square_sums", one_bit_more)
    with pytest.raises(PeerError) as refused:
        masked_scores(table(2, 2), statistic, key_bits=BITS, allow_test_keys=True)
    assert "out of range" in str(refused.value.__cause__)


def prepared_client(n_classes=3):
    """A client that waits for a filter, and what an honest server would send it."""
    data = table(n_classes, 2)
    name, rows = next(iter(data.tables.items()))
    role = ClientRole(
        ClientState(LocalClient(name, rows, data.seeds[name]), minimum_key_bits=BITS, allow_test_keys=True)
    )
    federation = MaskedFederation(
        InProcessChannel({name: role}), [name], CONFIG, key_bits=BITS, sigma=64, n_rows=110, allow_test_keys=True
    )
    federation.begin(CONFIG, data.train_rows)
    codes, _ = data.classes()
    return role, federation, codes


@pytest.mark.parametrize("statistic", STATISTICS)
def test_label_numbers_of_another_shape_or_number_of_classes_are_refused_and_change_nothing(statistic):
    role, federation, codes = prepared_client()
    numbers = label_columns(statistic, codes, 3)
    blob = federation._encryptor.encrypt(numbers.ravel().tolist(), numbers.shape).to_bytes()
    short = federation._encryptor.encrypt(numbers[1:].ravel().tolist(), numbers[1:].shape).to_bytes()
    for wrong in (
        ScoreColumns(statistic, 2, blob),
        ScoreColumns(statistic, 1 << 40, blob),
        ScoreColumns(statistic, 0, blob),
        ScoreColumns(statistic, -1, blob),
        ScoreColumns(statistic, 3, short),
        ScoreColumns(statistic, 3, blob[:-1]),
    ):
        answer = codec.decode(role.answer(codec.encode(wrong)))
        assert isinstance(answer, Refusal)
        assert answer.error in ("MalformedMessage", "InvalidCiphertext", "ConfigError")
        assert role.state.order == "prepared"
        assert role.state.pending_filter is None
    federation.score_by_filter(statistic, numbers, 3)
    assert role.state.filter_scores is not None


def test_several_filters_and_then_algorithm_one_may_follow_each_other():
    role, federation, codes = prepared_client()
    found = []
    for statistic in (*STATISTICS, "gini"):
        federation.score_by_filter(statistic, label_columns(statistic, codes, 3), 3)
        found.append(role.state.filter_scores)
    assert found[0].tobytes() == found[-1].tobytes()
    federation.initialise_gates(codes, 3)
    assert role.state.order == "initialised"
    assert role.state.local.gini_scores is not None


def test_a_masked_sum_outside_its_range_is_noticed_by_the_server(test_key):
    encryptor = Encryptor(test_key)
    layout = ClassSumLayout(50, 1, 1, 2, BITS, 64)
    assert layout.count_ciphertexts == layout.score_ciphertexts == 1
    evaluator = Evaluator(encryptor)
    zero = encryptor.encrypt([0]).to_bytes()
    wide = evaluator.add_plain(encryptor.encrypt([0]), [(1 << layout.count_width) - 1]).to_bytes()
    with pytest.raises(MalformedMessage, match="out of range"):
        square_sums(MaskedCounts(wide, zero), layout, Decryptor(encryptor))

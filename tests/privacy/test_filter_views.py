"""Secure filters: whole transcripts, what each party can make of its view, and that each claim can fail."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from filter_helpers import BITS, CONFIG, N_BINS, N_COLUMNS, N_ROWS, SIGMA, STATISTICS, server_capabilities
from gmpy2 import mpz
from privacy_helpers import array_of, byte_fields, ciphertexts, nonce_part

from fedsdg.audit import label_from_gini
from fedsdg.baselines.sffs import f_classes
from fedsdg.client import filter_scores, gini_initialization
from fedsdg.client.filter_scores import mask_class_sums, mask_table
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.crypto.packing import centred
from fedsdg.crypto.residues import residues_from_bytes
from fedsdg.data.binning import Binning, bin_columns
from fedsdg.data.feature_table import FeatureTable
from fedsdg.learning.gini import WEIGHT_FRACTION_BITS, bin_weight
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages import codec
from fedsdg.messages.filter_layout import ChiSquareLayout, ClassSumLayout, filter_layout
from fedsdg.messages.filter_statistics import (
    CELL_BITS,
    CLASS_FRACTION_BITS,
    Statistic,
    class_square_sums,
    fixed_point_cells,
    label_columns,
    split_at_mean,
)
from fedsdg.runtime.transcript import RecordingChannel
from fedsdg.server.federation import MaskedFederation
from fedsdg.server.gini_initialization import square_sums


@pytest.fixture(scope="module")
def server():
    return server_capabilities()


# --- Whole transcripts ---------------------------------------------------------------------------------------------


class WatchedFilter:
    """A filter over two clients with every byte kept."""

    def __init__(self, statistic: Statistic, telling: bool = False) -> None:
        stream, n_classes = np.random.default_rng(8), 3
        self.values = {"bank": stream.normal(size=(60, 4)), "shop": stream.normal(size=(60, 5))}
        self.codes = np.arange(60) % n_classes
        if telling:
            self.values = {
                name: np.repeat(self.codes[:, None], values.shape[1], axis=1) for name, values in self.values.items()
            }
        seed = b"a private seed, of a test only..."
        self.roles = {
            name: ClientRole(
                ClientState(
                    LocalClient(name, FeatureTable.of(values), seed), minimum_key_bits=BITS, allow_test_keys=True
                )
            )
            for name, values in self.values.items()
        }
        self.channel = RecordingChannel(self.roles)
        self.federation = MaskedFederation(
            self.channel, list(self.roles), CONFIG, key_bits=BITS, sigma=SIGMA, n_rows=60, allow_test_keys=True
        )
        self.federation.begin(CONFIG, np.arange(60))
        self.federation.score_by_filter(statistic, label_columns(statistic, self.codes, n_classes), n_classes)

    @property
    def entries(self):
        return [e for e in self.channel.transcript if e.kind in ("ScoreColumns", "MaskedCounts", "FinishFilter")]

    def decrypted(self, kind: str):
        decryptor = self.federation._decryptor
        for entry in self.entries:
            for _, blob in byte_fields(entry):
                parsed = array_of(blob)
                if entry.kind == kind and parsed is not None:
                    for c, m in zip(parsed[2], decryptor.decrypt(decryptor.load(blob, parsed[1])), strict=True):
                        yield int(c), int(m)


@pytest.fixture(scope="module", params=STATISTICS)
def watched(request):
    return request.param, WatchedFilter(request.param)


def test_nothing_but_the_documented_messages_crosses_and_each_says_who_learns_what(watched):
    _, run = watched
    kinds = Counter(entry.kind for entry in run.channel.transcript)
    assert kinds == {
        **dict.fromkeys(("JoinRun", "Joined", "PrepareColumns", "ScoreColumns", "MaskedCounts", "FinishFilter"), 2),
        "Done": 4,
    }
    for kind in ("ScoreColumns", "FinishFilter"):
        assert "Client learns:" in codec.registered()[kind].__doc__


def test_no_ciphertext_and_no_nonce_comes_twice_but_for_the_labels_that_go_to_every_client(watched):
    _, run = watched
    for client in run.roles:
        view = [e for e in run.entries if e.client == client]
        assert Counter(value for _, _, value in ciphertexts(view)).most_common(1)[0][1] == 1
    n = int(run.federation._decryptor.key.n)
    both = Counter(nonce_part(c, m, n) for c, m in run.decrypted("ScoreColumns"))
    assert set(both.values()) == {2}  # encrypted once, sent to two clients
    replies = [nonce_part(c, m, n) for c, m in run.decrypted("MaskedCounts")]
    assert len(set(replies)) == len(replies)
    assert not set(replies) & set(both)
    assert 1 not in replies


def test_masks_and_labels_are_encrypted_anew_in_every_run(watched):
    statistic, run = watched
    again = WatchedFilter(statistic)
    for client, role in run.roles.items():
        assert role.state.filter_scores.tobytes() == again.roles[client].state.filter_scores.tobytes()
    assert not {c for _, _, c in ciphertexts(run.entries)} & {c for _, _, c in ciphertexts(again.entries)}
    assert not {m for _, m in run.decrypted("MaskedCounts")} & {m for _, m in again.decrypted("MaskedCounts")}


def without_masks(statistic: Statistic, values: np.ndarray, codes: np.ndarray) -> set[int]:
    """What the server would read in the slots if nothing were masked."""
    numbers = label_columns(statistic, codes, 3)
    if statistic == "sffs":
        shift = ClassSumLayout(len(values), values.shape[1], 1, 3, BITS, SIGMA).shift
        return {int(v) + shift for v in (numbers.T @ fixed_point_cells(values)).ravel()}
    binning = split_at_mean(values) if statistic == "ms_gini" else bin_columns(values, CONFIG.binning)
    fraction_bits = CLASS_FRACTION_BITS if statistic == "chi2" else WEIGHT_FRACTION_BITS
    found = set()
    for column, n_bins in enumerate(binning.n_bins.tolist()):
        for i in range(n_bins):
            rows = binning.codes[:, column] == i
            found |= {bin_weight(int(rows.sum()), fraction_bits) * int(c) for c in numbers[rows].sum(axis=0)}
    return found - {0}


def readable(statistic: Statistic, run: WatchedFilter) -> set[int]:
    """Weighted sums that the server can read in what it decrypts."""
    layout = filter_layout(statistic, 60, 4, 3, CONFIG.binning, BITS, SIGMA)
    width, capacity = layout.counts.width, layout.counts.capacity
    seen = {(m >> (width * i)) % (1 << width) for _, m in run.decrypted("MaskedCounts") for i in range(capacity)}
    return seen & set().union(*(without_masks(statistic, values, run.codes) for values in run.values.values()))


def test_the_server_reads_no_weighted_sum(watched):
    assert readable(*watched) == set()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_without_masks_the_server_reads_the_weighted_sums(statistic, monkeypatch):
    for module in (filter_scores, gini_initialization):
        monkeypatch.setattr(module, "below", lambda bound, count: [mpz(0)] * count)
    run = WatchedFilter(statistic)
    assert readable(statistic, run) == set().union(
        *(without_masks(statistic, values, run.codes) for values in run.values.values())
    )


def test_the_labels_cross_only_under_encryption(watched):
    """Their plaintexts are the label numbers, so a client with the server's key would read every label."""
    statistic, run = watched
    numbers = label_columns(statistic, run.codes, 3)
    assert [m for _, m in run.decrypted("ScoreColumns")] == 2 * numbers.ravel().tolist()
    for entry in run.entries:
        if entry.kind == "ScoreColumns":
            message = entry.message()
            assert (message.statistic, message.n_classes) == (statistic, 3)
            assert array_of(message.labels) is not None


@pytest.mark.parametrize("statistic", ["chi2", "sffs"])
def test_a_client_learns_its_sums_and_nothing_else_because_it_could_write_the_answer_itself(server, statistic):
    """From its own masks and one sum of squares per column the client computes every byte of the server's answer."""
    encryptor, evaluator, decryptor = server
    stream = np.random.default_rng(2)
    codes, values = np.arange(N_ROWS) % 3, stream.normal(size=(N_ROWS, N_COLUMNS))
    numbers = label_columns(statistic, codes, 3)
    blob = encryptor.encrypt(numbers.ravel().tolist(), numbers.shape).to_bytes()
    layout = filter_layout(statistic, N_ROWS, N_COLUMNS, 3, CONFIG.binning, BITS, SIGMA)
    cells = fixed_point_cells(values)
    binning = Binning(stream.integers(0, N_BINS, (N_ROWS, N_COLUMNS)), np.full(N_COLUMNS, N_BINS))
    reply, finish = (
        mask_class_sums(blob, cells, layout, evaluator)
        if isinstance(layout, ClassSumLayout)
        else mask_table(blob, binning, layout, evaluator)
    )
    answer = square_sums(reply, layout, decryptor)
    pending = next(
        cell.cell_contents
        for cell in finish.__closure__
        if isinstance(cell.cell_contents, gini_initialization.PendingSums)
    )
    sums = gini_initialization.unmask_square_sums(pending, answer, evaluator)
    if statistic == "sffs":
        assert sums == class_square_sums(cells, numbers)
    n, slots = encryptor.key.n, layout.scores
    written = []
    for at, first in enumerate(range(0, N_COLUMNS, slots.capacity)):
        of = slice(first, first + slots.capacity)
        packed = slots.pack_wide(sums[of]) + slots.pack_wide(pending.constants[of])
        written.append((packed - pending.masks[at]) % n)
    assert written == residues_from_bytes(answer, len(written), encryptor.key)


def test_the_server_learns_sizes_only_from_the_length_of_a_reply():
    """Columns that tell everything and columns of noise give replies of the same length."""
    for statistic in STATISTICS:
        lengths = [
            {e.client: len(e.blob) for e in WatchedFilter(statistic, telling).entries if e.to_server}
            for telling in (False, True)
        ]
        assert lengths[0] == lengths[1]
    chi2 = [ChiSquareLayout(60, 4, bins, 3, BITS, SIGMA).count_ciphertexts for bins in (2, 10)]
    assert chi2[0] < chi2[1]  # the padded number of bins is public


# --- What the documentation says that a client learns --------------------------------------------------------------


def scores_with_label(statistic: Statistic, label: int) -> np.ndarray:
    """Scores of columns that set the first or the second person apart, with this label of the first one."""
    labels = np.array([label, 1] + [0] * 20 + [1] * 38)
    values = np.zeros((60, 3))
    values[0, 0] = values[1, 1] = 1.0
    values[:, 2] = np.arange(60)
    role = ClientRole(
        ClientState(LocalClient("me", FeatureTable.of(values), bytes(32)), minimum_key_bits=BITS, allow_test_keys=True)
    )
    federation = MaskedFederation(
        RecordingChannel({"me": role}), ["me"], CONFIG, key_bits=BITS, sigma=SIGMA, n_rows=60, allow_test_keys=True
    )
    federation.begin(CONFIG, np.arange(60))
    federation.score_by_filter(statistic, label_columns(statistic, labels, 2), 2)
    return role.state.filter_scores


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_column_that_sets_one_person_apart_tells_its_class_where_bins_have_no_minimum(statistic):
    same_class, other_class = scores_with_label(statistic, 1), scores_with_label(statistic, 0)
    assert same_class[0] == same_class[1]  # both people are of class 1
    if statistic in ("gini", "chi2"):
        assert other_class[0] == other_class[1]  # too few rows for a bin: the column says nothing about anybody
    else:
        assert other_class[0] != other_class[1]


def test_f_statistics_of_many_columns_give_all_labels_and_of_few_do_not():
    stream = np.random.default_rng(5)
    labels = (stream.random(60) < 0.4).astype(np.int64)

    def guessed(n_columns: int) -> float:
        values = stream.normal(size=(60, n_columns))
        centred = values - values.mean(axis=0)
        scores = f_classes(values, labels, 2)
        share = scores / (scores + 58)
        wanted = share * (centred**2).sum(axis=0)
        excess = wanted - wanted.mean()
        start = np.linalg.eigh((centred * excess) @ centred.T)[1][:, -1] * np.sqrt(60)
        found, _ = label_from_gini._descend(start / np.sqrt(60), centred.T, wanted)
        ordered = np.sort(found)
        cut = ordered[np.argmax(np.diff(ordered))]  # two clusters: the threshold is the largest gap
        hits = np.mean((found > cut) == labels)
        return float(max(hits, 1 - hits))

    assert guessed(6 * 60) == 1.0
    assert guessed(12) < 0.9


def test_a_server_that_encrypts_other_numbers_than_labels_reads_a_cell(server):
    """Outside the model, and documented: masks are as wide as sums of labels need, not as wide as anything."""
    encryptor, evaluator, decryptor = server
    layout = ClassSumLayout(N_ROWS, 1, 1, 1, BITS, SIGMA)
    cells = fixed_point_cells(np.random.default_rng(6).normal(size=(N_ROWS, 1)))
    used = layout.counts.width * layout.counts.capacity
    numbers = [0] * N_ROWS
    numbers[7] = 1 << used
    blob = encryptor.encrypt(numbers, (N_ROWS, 1)).to_bytes()
    reply, _ = mask_class_sums(blob, cells, layout, evaluator)
    u = decryptor.decrypt(decryptor.load(reply.counts, (1,)))[0]
    assert int(centred(u, encryptor.key.n) >> used) == cells[7, 0]


def test_cells_of_a_filter_are_as_narrow_as_documented():
    cells = fixed_point_cells(np.array([[1e9], [-1e9], [3.0]]))
    assert np.abs(cells).max() == (1 << CELL_BITS) - 1

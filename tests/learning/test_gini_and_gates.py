"""Claims about Gini scores, gate initialisation and the stochastic gate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsdg.config import BinningSettings, GateSettings
from fedsdg.data.binning import Binning, bin_columns
from fedsdg.errors import DataError
from fedsdg.learning.gate_initialization import embedding_start, initial_gates, unit_ranks
from fedsdg.learning.gini import (
    bin_weight,
    class_counts,
    exact_gini,
    gini_from_square_sum,
    gini_scores,
    weighted_square_sum,
)
from fedsdg.learning.stochastic_gate import StochasticGate, open_probability, penalty, penalty_gradient

counts_arrays = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 10), st.integers(2, 5)), elements=st.integers(0, 300)
).filter(lambda counts: counts.sum() > 0)


@given(counts_arrays)
def test_the_integer_gini_is_within_a_millionth_of_the_exact_one(counts):
    approximate = gini_from_square_sum(weighted_square_sum(counts), int(counts.sum()))
    assert approximate == pytest.approx(float(exact_gini(counts)), abs=2e-6)


@given(st.integers(1, 10**7))
def test_a_bin_weight_is_the_rounded_root(size):
    weight = bin_weight(size)
    assert abs(Fraction(weight) - Fraction(math.isqrt((1 << 80) // size), 1 << 16)) <= Fraction(501, 1000)


def test_a_perfect_column_scores_zero_and_a_useless_one_the_label_impurity():
    labels = np.repeat([0, 1], 50)
    codes = np.column_stack([labels, np.tile([0, 1], 50)])
    scores = gini_scores(Binning(codes, np.array([2, 2])), labels, 2)
    assert scores.scores == pytest.approx([0.0, 0.5], abs=2e-6)
    assert scores.label_impurity == pytest.approx(0.5, abs=2e-6)


def test_counts_are_those_of_the_bins():
    counts = class_counts(np.array([0, 0, 1, 1, 1]), 2, np.array([0, 1, 1, 1, 0]), 2)
    assert counts.tolist() == [[1, 1], [1, 2]]


@pytest.mark.parametrize(("n_bins", "n_classes"), [(2, 2), (10, 2), (10, 5)])
def test_unrelated_columns_have_standard_deviations_from_chance(n_bins, n_classes):
    stream = np.random.default_rng(n_bins + n_classes)
    labels = stream.integers(0, n_classes, 1000)
    codes = stream.integers(0, n_bins, (1000, 800))
    z = gini_scores(Binning(codes, np.full(800, n_bins)), labels, n_classes).deviations_from_chance()
    assert z.mean() == pytest.approx(0, abs=0.15)
    assert z.std() == pytest.approx(1, abs=0.15)


def test_a_constant_column_ranks_below_chance():
    labels = np.random.default_rng(0).integers(0, 2, 100)
    binning = bin_columns(np.column_stack([np.ones(100), labels]), BinningSettings())
    z = gini_scores(binning, labels, 2).deviations_from_chance()
    assert z[0] == -3
    assert z[1] > 50


def test_equal_labels_cannot_score():
    with pytest.raises(DataError, match="at least two classes"):
        gini_scores(Binning(np.zeros((5, 1), dtype=np.int64), np.array([1])), np.zeros(5, dtype=np.int64), 2)
    with pytest.raises(DataError, match="5 rows of features and 4 labels"):
        gini_scores(Binning(np.zeros((5, 1), dtype=np.int64), np.array([1])), np.array([0, 1, 0, 1]), 2)


def test_gates_open_with_the_evidence():
    stream = np.random.default_rng(1)
    labels = stream.integers(0, 2, 500)
    columns = np.column_stack([labels + 0.1 * stream.standard_normal(500), stream.standard_normal((500, 30))])
    scores = gini_scores(bin_columns(columns, BinningSettings()), labels, 2)
    gates = initial_gates(scores, 31, GateSettings())
    assert gates[0] == pytest.approx(0.8)
    assert np.all((gates[1:] >= 0.2) & (gates[1:] < 0.6))
    inverse = initial_gates(scores, 31, GateSettings(initialization="inverse_gini"))
    assert inverse.mean() == pytest.approx(0.5)
    assert inverse.argmax() == 0
    assert set(initial_gates(scores, 31, GateSettings(initialization="constant"))) == {0.5}


def test_embedding_gates_start_the_wider_the_more_columns_tell_something():
    stream = np.random.default_rng(2)
    labels = stream.integers(0, 2, 500)
    told = labels[:, None] + stream.standard_normal((500, 20))
    noise = stream.standard_normal((500, 20))
    settings = GateSettings(embedding_start="gini")

    def start(columns):
        return embedding_start(gini_scores(bin_columns(columns, BinningSettings()), labels, 2), settings)

    useless, mixed, useful = start(noise), start(np.hstack([told[:, :10], noise[:, :10]])), start(told)
    assert 0.5 <= useless < 0.6 < mixed < 0.8 < 0.95 < useful <= 1.0


def test_without_scores_embedding_gates_start_half_open():
    assert embedding_start(None, GateSettings(embedding_start="gini")) == 0.5
    assert embedding_start(None, GateSettings(embedding_start=0.7)) == 0.7
    assert embedding_start(None, GateSettings()) == 0.5


def test_ranks_run_from_zero_to_one():
    assert unit_ranks(np.array([3.0, 1.0, 2.0])).tolist() == [1.0, 0.0, 0.5]
    assert unit_ranks(np.array([7.0])).tolist() == [1.0]


@given(hnp.arrays(np.float64, 6, elements=st.floats(-2, 2)), st.floats(0.1, 2))
def test_the_penalty_gradient_is_the_derivative_of_the_penalty(mean, sigma):
    means = torch.tensor(mean, requires_grad=True)
    penalty(means, sigma).backward()
    assert torch.allclose(means.grad, penalty_gradient(means.detach(), sigma))


def test_a_gate_is_open_as_often_as_its_probability_says():
    gate = StochasticGate(np.array([-0.4, 0.0, 0.3]), 0.5)
    draws = gate.pass_on(torch.randn(gate.draws(40_000), generator=torch.Generator().manual_seed(1)), 40_000)
    often = (draws > 0).double().mean(dim=0)
    assert torch.allclose(often, open_probability(gate.mean.detach(), 0.5).double(), atol=0.01)
    # the test can fail: another sigma is told apart
    assert not torch.allclose(often, open_probability(gate.mean.detach(), 0.7).double(), atol=0.01)


def test_outside_training_a_gate_passes_its_clipped_mean_and_open_means_positive():
    gate = StochasticGate(np.array([-0.1, 0.4, 1.7]), 0.5)
    assert gate.expected().tolist() == pytest.approx([0.0, 0.4, 1.0])
    assert gate.selected().tolist() == [False, True, True]


def test_the_penalty_alone_closes_a_gate_by_plain_steps():
    gate = StochasticGate(np.array([0.3]), 0.5)
    slope = float(penalty_gradient(gate.mean.detach(), 0.5))
    gate.descend(rate=2.0, penalty_weight=0.1)
    assert gate.means()[0] == pytest.approx(0.3 - 0.2 * slope)

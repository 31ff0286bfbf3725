"""Claims about LESS-VFL with the settings that it is shipped with: its path passes through every useful sparsity."""

from __future__ import annotations

import numpy as np
import pytest
from baseline_helpers import global_columns, vertical

from fedsdg.baselines.less_vfl import LessVFL
from fedsdg.baselines.less_vfl_clients import ColumnPath
from fedsdg.baselines.less_vfl_server import ComponentPath
from fedsdg.baselines.penalty_path import curvature, gain
from fedsdg.baselines.ranking import VALIDATED, HowMany
from fedsdg.baselines.survival import Survival
from fedsdg.baselines.vertical_network import VerticalNetwork, column_norms, prepared_features
from fedsdg.job import PRESETS

HALF = 30
TRUE = [3, 11, 20, HALF + 5, HALF + 17, HALF + 25]


def settings(preset):
    config = PRESETS[preset]()
    return config.with_changes(compact_phase=config.compact_phase.model_copy(update={"steps": 100}))


def noisy_table(n_rows=1000):
    """Six of sixty columns carry the label, three at each client; one is constant."""
    stream = np.random.default_rng(4)
    X = stream.standard_normal((n_rows, 2 * HALF))
    X[:, 7] = 3.0
    return X, (X[:, TRUE].sum(axis=1) > 0).astype(np.int64)


class Walked:
    """The shipped method step by step."""

    def __init__(self, preset):
        self.data = vertical(*noisy_table(), config=settings(preset))
        self.features = prepared_features(self.data)
        self.network = VerticalNetwork(self.data, "less_vfl")
        method = LessVFL()
        method.pretrain(self.network, self.data, self.features)
        self.looks, self.kept = method.components.walk(self.network, self.data, self.features)
        everything = np.ones(2 * self.network.width, dtype=bool)
        self.survival = method.columns.survival(self.network, self.data, self.features, everything)


@pytest.fixture(scope="module", params=["default", "wide"])
def walked(request):
    return Walked(request.param)


def test_the_path_goes_from_all_columns_to_none_in_small_steps(walked):
    n_open = walked.survival.n_open
    assert n_open[0] >= 2 * HALF - 1
    assert n_open[-1] <= 3
    drops = -np.diff(n_open)
    assert drops.max() <= HALF / 3
    for number in (3, 6, 12, 30, 45):
        assert np.abs(n_open - number).min() <= 3


def test_the_columns_that_matter_live_longest(walked):
    scores = walked.survival.scores(walked.data)
    ranked = np.argsort(-np.concatenate([scores["a"], scores["b"]]))
    assert set(TRUE) <= set(ranked[:12].tolist())
    assert ranked[-1] == 7  # constant


def test_the_servers_path_passes_from_all_components_to_few(walked):
    numbers = [look.n_open for look in walked.looks]
    everything = 2 * walked.network.width
    assert numbers[0] == everything
    assert min(numbers) <= everything / 4
    assert any(everything / 4 < number < everything * 0.8 for number in numbers)


@pytest.mark.parametrize("preset", ["default", "wide"])
def test_validation_takes_a_few_columns_among_them_those_that_matter(preset):
    found = LessVFL().select(vertical(*noisy_table(), config=settings(preset)))
    assert found.n_selected <= HALF
    assert len(set(TRUE) & set(global_columns(found, HALF))) >= min(5, found.n_selected)


@pytest.mark.parametrize("count", [1, 6, 40, 60])
def test_the_wished_number_is_exact_and_takes_those_that_lived_longest(count):
    data = vertical(*noisy_table(), config=settings("wide"))
    found = LessVFL(HowMany(count=count)).select(data)
    assert found.n_selected == count
    assert len(set(TRUE) & set(global_columns(found, HALF))) >= min(count, 6) - 1
    assert all(1 <= width <= data.config.compact_phase.embedding for width in found.embedding.values())


def test_a_client_without_kept_components_loses_its_columns_first_and_the_others_do_not_hear_of_it(walked):
    data, network = walked.data, VerticalNetwork(walked.data, "less_vfl")
    LessVFL().pretrain(network, data, walked.features)
    kept = np.repeat([True, False], network.width)
    found = ColumnPath().survival(network, data, walked.features, kept)
    assert found.lived["b"].max() == 0
    scores = found.scores(data)
    assert np.delete(scores["a"], 7).min() > scores["b"].max()
    dropped = kept.copy()
    dropped[:3] = False
    network = VerticalNetwork(data, "less_vfl")
    ColumnPath(steps=2, strongest=0.002).survival(network, data, walked.features, dropped)
    last = network.bottoms[0][-2].weight.detach().numpy()
    assert not last[:3].any()
    assert np.abs(last[3:]).sum(axis=1).min() > 0


def test_a_look_at_the_servers_path_leaves_the_network_as_it_is(walked):
    network = VerticalNetwork(walked.data, "less_vfl")
    before = {name: values.clone() for name, values in network.state_dict().items()}
    kept = ComponentPath(steps=30).select(network, walked.data, walked.features)
    assert kept.shape == (2 * network.width,)
    assert all((values == before[name]).all() for name, values in network.state_dict().items())


def test_equals_are_told_apart_by_their_norm(walked):
    constant_free = {"a": np.full(HALF, 5.0), "b": np.full(HALF, 4.0)}
    norms = {"a": np.arange(HALF) / 10, "b": np.arange(HALF) * 100.0}
    scores = Survival(constant_free, norms).scores(walked.data)
    assert (np.diff(np.delete(scores["a"], 7)) > 0).all()
    assert np.delete(scores["a"], 7).min() > scores["b"].max()


def test_the_embedding_can_be_left_as_wide_as_that_of_others():
    data = vertical(*noisy_table(), config=settings("wide"))
    assert not LessVFL(HowMany(count=6), own_widths=False).select(data).embedding


def test_names_tell_whether_a_number_was_wished_for():
    assert LessVFL().name == LessVFL(VALIDATED).name == "less_vfl"
    assert LessVFL(HowMany(count=4)).name == "less_vfl@k=4"


def test_rates_follow_the_largest_eigenvalue_and_the_gain_of_the_layers_above(walked):
    values = walked.features["a"]
    largest = np.linalg.eigvalsh((values.T @ values / len(values)).numpy()).max()
    assert curvature(values) == pytest.approx(largest, rel=1e-4)
    assert gain(walked.network.top) > 0
    assert column_norms(walked.network.interactive.weight).min() > 0

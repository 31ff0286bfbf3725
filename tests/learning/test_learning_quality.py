"""Claims about what is learned: the right features, at the accuracy that the right features allow.

Thresholds are the product's quality bar. Nothing is tuned or chosen on the test rows.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from learning_helpers import deal, private_seeds, selected, take

from fedsdg.config import GateSettings, PenaltySettings, TrainingConfig
from fedsdg.datasets.named_tables import bank_loans
from fedsdg.datasets.synthetic import friedman_like, madelon_like
from fedsdg.learning.plain_training import train_plain

MADELON_SEEDS = (11, 12, 13, 14, 15)


@pytest.fixture(scope="module")
def madelon():
    """Train on 2,000 x 500 with two clients; 1,000 further rows are the test. Five data sets: one is luck."""
    runs = []
    for seed in MADELON_SEEDS:
        data = madelon_like(3000, 500, seed=seed)
        tables, parts = deal(data.features, 2, seed=1)
        training, test = np.arange(2000), np.arange(2000, 3000)
        model = train_plain(take(tables, training), data.labels[training], private_seeds=private_seeds(tables))
        runs.append((data, tables, parts, training, test, model))
    return runs


def test_madelon_like_features_are_found_with_precision(madelon):
    precisions = []
    for data, _, parts, _, _, model in madelon:
        found = selected(model, parts)
        assert 5 <= len(found) <= 20
        precisions.append(data.relevant[found].mean())
    assert np.mean(precisions) >= 0.95, precisions


def test_madelon_like_accuracy_is_that_of_the_true_features(madelon):
    no_pressure = TrainingConfig(penalty=PenaltySettings(strength=0.0), gates=GateSettings(initialization="constant"))
    accuracies, best = [], []
    for data, tables, _, training, test, model in madelon:
        true_tables, _ = deal(data.features[:, data.relevant], 2, seed=1)
        reference = train_plain(
            take(true_tables, training), data.labels[training], no_pressure, private_seeds=private_seeds(tables)
        )
        assert sum(map(len, reference.selected_columns.values())) >= 18
        accuracies.append(model.score(take(tables, test), data.labels[test]))
        best.append(reference.score(take(true_tables, test), data.labels[test]))
    assert np.mean(accuracies) >= np.mean(best) - 0.02, (accuracies, best)
    assert min(accuracies) >= 0.85


def test_friedman_like_features_are_found():
    data = friedman_like(1000, 600, seed=5)
    tables, parts = deal(data.features, 2, seed=2)
    training, test = np.arange(750), np.arange(750, 1000)
    model = train_plain(take(tables, training), data.labels[training], private_seeds=private_seeds(tables))
    found = selected(model, parts)
    assert data.relevant[found].sum() >= 4
    assert (~data.relevant[found]).sum() <= 2
    assert model.score(take(tables, test), data.labels[test]) >= 0.85


def steps_until_a_tenth_is_open(data, initialization):
    """Steps of the gated phase until at most 10 % of the gates are open."""
    tables, _ = deal(data.features, 2, seed=1)
    config = TrainingConfig(
        gates=GateSettings(initialization=initialization),
        validation={"every": 2, "patience": None},
        retrain=False,
    )
    target, reached = 0.1 * data.features.shape[1], []

    class EnoughSeenError(Exception):
        pass

    def watch(progress):
        if progress.point is not None and progress.point.n_open <= target:
            reached.append(progress.step)
            raise EnoughSeenError

    with pytest.raises(EnoughSeenError):
        train_plain(tables, data.labels, config, private_seeds=private_seeds(tables), watch=watch)
    return reached[0]


def test_gini_initialisation_reaches_a_tenth_of_the_features_in_60_percent_of_the_steps():
    steps = {"gini": 0, "constant": 0}
    for seed in range(11, 17):  # one seed alone varies between 54 and 62 %
        data = madelon_like(2000, 500, seed=seed)
        for initialization in steps:
            steps[initialization] += steps_until_a_tenth_is_open(data, initialization)
    assert steps["gini"] <= 0.6 * steps["constant"]


def test_permuted_labels_give_chance_accuracy():
    data = madelon_like(1600, 60, seed=3)
    labels = np.random.default_rng(0).permutation(data.labels)
    tables, _ = deal(data.features)
    training, test = np.arange(1000), np.arange(1000, 1600)
    model = train_plain(take(tables, training), labels[training], private_seeds=private_seeds(tables))
    assert abs(model.score(take(tables, test), labels[test]) - 0.5) < 0.07  # 3.4 standard errors


def test_the_bank_story_is_solved_by_columns_that_matter():
    story = bank_loans(2500, seed=2)
    training, test = np.arange(1800), np.arange(1800, 2500)
    model = train_plain(take(story.tables, training), story.labels[training], private_seeds=private_seeds(story.tables))
    chosen = {(client, name) for client, names in model.selected_columns.items() for name in names}
    truth = {(client, name) for client, names in story.relevant.items() for name in names}
    assert len(chosen & truth) >= 4
    assert len(chosen - truth) <= 2
    assert model.score(take(story.tables, test), story.labels[test]) >= 0.85


@pytest.mark.skipif("FEDSDG_DATA" not in os.environ, reason="FEDSDG_DATA does not name a folder with data sets")
def test_genuine_madelon_is_learned():
    path = Path(os.environ["FEDSDG_DATA"]) / "MADELON.npz"
    if not path.exists():
        pytest.skip("FEDSDG_DATA holds no MADELON.npz")
    archive = np.load(path)
    relevant = np.isin(np.arange(500), archive["relevant"])
    tables, parts = deal(archive["X"].astype(float), 2, seed=3)
    training, test = np.flatnonzero(archive["split"] == 0), np.flatnonzero(archive["split"] == 1)
    model = train_plain(take(tables, training), archive["y"][training], private_seeds=private_seeds(tables))
    found = selected(model, parts)
    assert relevant[found].mean() >= 0.9
    assert len(found) <= 20
    assert model.score(take(tables, test), archive["y"][test]) >= 0.84  # expected .88, three standard errors below

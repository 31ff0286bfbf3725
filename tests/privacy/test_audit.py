"""The attacks of `fedsdg.audit` work where the threat model says that something leaks, and only there."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedsdg.audit import label_from_gini, label_from_gradients
from fedsdg.audit.embedding_from_outputs import explained_by_scale, explained_share
from fedsdg.audit.label_from_own_columns import smoothed_scores
from fedsdg.audit.observation import observe
from fedsdg.audit.repeated_responses import majority_share
from fedsdg.audit.run import (
    INFORMED,
    UNINFORMED,
    Measurement,
    column_shares,
    generated_problem,
    gini_attack,
    gradient_attack,
    refitted_accuracy,
    run_observed,
    seeds_of,
    table,
    with_outputs,
)
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.data.binning import bin_columns
from fedsdg.learning.gini import gini_scores
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.two_phase_training import train
from fedsdg.server.label_privacy import inference_bound, randomised_response

torch.set_num_threads(1)

QUICK = TrainingConfig(
    gated_phase=PhaseSettings(steps=80, hidden=(16,), top_hidden=(32,)),
    compact_phase=PhaseSettings(steps=80, hidden=(16,), outputs=8, top_hidden=(32,)),
    validation=ValidationSettings(every=20),
)


def noise_of(share: float, count: int) -> float:
    """Five standard deviations of a share of that many coins."""
    return 5 * math.sqrt(share * (1 - share) / count)


@pytest.fixture(scope="module")
def problem():
    return generated_problem(1000)


@pytest.fixture(scope="module", params=["dense", "elementwise"])
def observed(request, problem):
    return run_observed(problem, problem.labels, QUICK.with_changes(interactive=request.param))


@pytest.mark.parametrize("client", [INFORMED, UNINFORMED])
def test_without_protection_a_client_reads_labels_from_its_gradients(observed, problem, client):
    one_epoch = 6
    scores = gradient_attack(observed, client, len(problem.labels), one_epoch)
    assert label_from_gradients.ranking_quality(scores, problem.labels) > 0.95


def test_one_batch_already_tells_about_its_labels(observed, problem):
    scores = gradient_attack(observed, INFORMED, len(problem.labels), 1)
    assert np.isfinite(scores).sum() == QUICK.gated_phase.batch_size
    assert label_from_gradients.ranking_quality(scores, problem.labels) > 0.6


def test_rows_that_never_came_are_not_guessed(observed, problem):
    scores = gradient_attack(observed, INFORMED, len(problem.labels))
    assert np.isnan(scores[problem.test_rows]).all()
    assert np.isnan(scores[observed.result.validation_rows]).all()


def test_watching_a_run_does_not_change_it(problem):
    observed = run_observed(problem, problem.labels, QUICK)
    seeds = seeds_of(problem)
    clients = {name: LocalClient(name, table, seeds[name]) for name, table in problem.tables.items()}
    plain = train(PlainFederation(clients), problem.labels, QUICK, seeds["server"], rows=problem.fit_rows)
    assert observed.result.losses == plain.losses


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_label_epsilon_bounds_what_gradients_tell(problem, epsilon):
    secret = seeds_of(problem)["server"]
    protected = np.asarray(randomised_response(problem.labels, epsilon, secret))
    observation = run_observed(problem, protected, QUICK)
    bound = inference_bound(epsilon, 2)
    for client in (INFORMED, UNINFORMED):
        for steps in (1, 6, None):
            scores = gradient_attack(observation, client, len(protected), steps)
            count = int(np.isfinite(scores).sum())
            share = label_from_gradients.guessed_share(scores, problem.labels)
            assert share < bound + noise_of(bound, count)
    scores = gradient_attack(observation, INFORMED, len(protected), None)
    assert label_from_gradients.guessed_share(scores, protected) > 0.8  # the randomised labels are read all the same


def test_label_epsilon_does_not_bound_what_columns_predict(problem):
    """The bound is about one person's response; a client with good columns learns the rule behind all of them."""
    protected = np.asarray(randomised_response(problem.labels, 1.0, seeds_of(problem)["server"]))
    scores = gradient_attack(run_observed(problem, protected, QUICK), INFORMED, len(protected))
    smoothed = smoothed_scores(problem.tables[INFORMED].values, scores)
    assert label_from_gradients.guessed_share(smoothed, problem.labels) > inference_bound(1.0, 2) + 0.1


def test_a_model_of_randomised_labels_is_still_useful(problem):
    protected = np.asarray(randomised_response(problem.labels, 2.0, seeds_of(problem)["server"]))
    assert refitted_accuracy(run_observed(problem, protected, QUICK), problem) > 0.85


@pytest.mark.parametrize("per_row", [2, 4])
def test_gini_scores_of_many_columns_give_all_labels(per_row):
    labels = (np.random.default_rng(1).random(100) < 0.4).astype(np.int64)
    assert gini_attack(labels, per_row * len(labels)) == 1.0


def test_gini_scores_of_few_columns_do_not_give_the_labels():
    labels = (np.random.default_rng(1).random(100) < 0.5).astype(np.int64)
    assert gini_attack(labels, 20) < 0.75


def test_label_epsilon_bounds_what_gini_scores_tell():
    labels = np.random.default_rng(2).integers(0, 2, 120)
    protected = np.asarray(randomised_response(labels, 1.0, b"a secret for this test only"))
    binning = bin_columns(np.random.default_rng(3).standard_normal((120, 480)), TrainingConfig().binning)
    found = label_from_gini.label_scores(binning.codes, gini_scores(binning, protected, 2))
    assert label_from_gradients.guessed_share(found, protected) == 1.0
    bound = inference_bound(1.0, 2)
    assert label_from_gradients.guessed_share(found, labels) < bound + noise_of(bound, len(labels))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_the_label_impurity_tells_the_class_balance(share):
    assert label_from_gini.minority_share(2 * share * (1 - share)) == pytest.approx(share)


def test_as_many_outputs_as_dimensions_let_the_server_read_embeddings_from_a_few_known_rows(problem):
    seen = run_observed(problem, problem.labels, QUICK).outputs(INFORMED, "compact", "validation")[-1]
    assert seen.outputs.shape[1] >= seen.embeddings.shape[1]
    assert explained_share(seen.outputs, seen.embeddings, 30) > 0.999


def test_fewer_outputs_keep_more_of_the_columns_from_the_server(problem):
    few, many = (
        column_shares(run_observed(problem, problem.labels, with_outputs(QUICK, outputs)), problem)
        for outputs in (1, 8)
    )
    assert few[1] < many[1] - 0.2  # the column that is read best
    assert many[1] > 0.8


def test_two_known_rows_open_an_elementwise_layer(problem):
    config = QUICK.with_changes(interactive="elementwise")
    seen = run_observed(problem, problem.labels, config).outputs(INFORMED, "gated", "validation")[-1]
    assert explained_by_scale(seen.outputs, seen.embeddings) > 0.999


def test_unrelated_numbers_explain_nothing():
    stream = np.random.default_rng(0)
    assert explained_share(stream.standard_normal((300, 4)), stream.standard_normal((300, 6)), 100) < 0.05
    assert explained_share(stream.standard_normal((30, 2)), np.ones((30, 1)), 10) == 0.0


def test_one_seed_answers_alike_for_ever_and_new_seeds_add_up():
    labels = np.random.default_rng(0).integers(0, 2, 3000)
    bound = inference_bound(1.0, 2)
    assert majority_share(labels, 1.0, 9, same_seed=True) < bound + noise_of(bound, len(labels))
    assert majority_share(labels, 1.0, 9, same_seed=False) > 0.9


def test_the_quality_of_a_ranking_is_the_area_under_its_curve():
    labels = np.array([0, 0, 1, 1])
    assert label_from_gradients.ranking_quality(np.array([0.1, 0.2, 0.8, 0.9]), labels) == 1.0
    assert label_from_gradients.ranking_quality(np.array([0.9, 0.8, 0.2, 0.1]), labels) == 1.0
    assert label_from_gradients.ranking_quality(np.array([0.5, 0.5, 0.5, 0.5]), labels) == 0.5
    assert label_from_gradients.ranking_quality(np.array([0.1, 0.6, 0.4, np.nan]), labels) == 0.5
    assert label_from_gradients.ranking_quality(np.array([0.3, 0.1]), np.array([1, 1])) == 0.5


def test_the_table_is_aligned_and_shows_bounds_where_there_are_any():
    lines = table([Measurement("a", "b", "AUC", 0.5, 0.5), Measurement("longer", "c", "right", 0.7, 0.5, 0.731)])
    assert lines.splitlines()[-1].endswith("0.731")
    assert len(lines.splitlines()) == 4


@pytest.mark.parametrize("bound", [True, False], ids=["as it is", "streams not bound to the run"])
def test_a_private_seed_used_for_two_runs_gives_the_first_weights_away_unless_streams_are_bound(
    problem, monkeypatch, bound
):
    """The same dither on two batches would cancel in their difference, so streams depend on settings and data."""
    if not bound:
        monkeypatch.setattr(RandomStreams, "bound_to", lambda self, *facts: self)
    seeds = seeds_of(problem)

    def first_batch(joint_seed):
        config = QUICK.with_changes(interactive="elementwise", seed=joint_seed)
        observation = observe(problem.tables, problem.labels, config, seeds, problem.fit_rows)
        return observation, observation.outputs(INFORMED, "gated", "training")[0].outputs

    observation, Z = first_batch(1)
    other_Z = first_batch(2)[1]
    W0 = observation.federation.clients[INFORMED]._learners["gated"].initial_weights()
    stolen = np.gcd.reduce(np.abs(Z - other_Z), axis=0)
    assert (np.mean(stolen == np.abs(W0)) > 0.5) != bound
    assert np.mean(np.gcd.reduce(np.abs(Z), axis=0) == np.abs(W0)) == 0  # one run alone does not

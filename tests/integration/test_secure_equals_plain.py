"""A `masked` run and a `plain` run from the same private seeds are the same run, bit for bit.

Compared is everything that was learned: losses, validation scores, Gini scores, gates, selection, every parameter of
every model, and the interactive weights, which in a masked run nobody holds: the test adds the two shares up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fedsdg.client import interactive_share
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import GateSettings, PenaltySettings, PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.crypto.layouts import plan_minibatch
from fedsdg.data.feature_table import FeatureTable
from fedsdg.learning import two_phase_training
from fedsdg.learning.gate_initialization import embedding_start
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.plain_training import PlainModel, train_plain
from fedsdg.learning.training_result import TrainingResult
from fedsdg.learning.two_phase_training import train
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server import noisy_weights
from fedsdg.server.federation import MaskedFederation

torch.set_num_threads(1)

N_ROWS, N_COLUMNS = 96, 10


def labelled_rows(task: str, n_rows: int = N_ROWS):
    stream = np.random.default_rng(5)
    features = stream.standard_normal((n_rows, N_COLUMNS))
    features[:, 3] = np.where(
        features[:, 3] > 1.2, features[:, 3], 0.0
    )  # a sparse column: its large bin is a complement
    features[:, 7] = 1.0  # a constant one: a single bin
    signal = features[:, 0] + features[:, 1]
    if task == "binary":
        return features, np.where(signal > 0, "yes", "no")
    if task == "multiclass":
        return features, np.digitize(signal, [-0.6, 0.6])
    return features, 3.0 * signal + 10


def configured(gated_steps: int = 12, compact_steps: int = 8, **changes) -> TrainingConfig:
    sizes = {"hidden": (8,), "embedding": 4, "outputs": 3, "batch_size": 20, "top_hidden": (8,)}
    values = {
        "gated_phase": PhaseSettings(steps=gated_steps, **sizes),
        "compact_phase": PhaseSettings(steps=compact_steps, schedule="cosine", input_noise=0.1, **sizes),
        "validation": ValidationSettings(every=4),
    }
    return TrainingConfig(**{**values, **changes})


@dataclass
class Masked:
    federation: MaskedFederation
    roles: dict[str, ClientRole]
    result: TrainingResult
    dropped: list[int]  # the steps of the gated phase after which a client dropped dimensions


def both(task: str, n_clients: int, config: TrainingConfig, key_bits: int = 512) -> tuple[Masked, PlainModel]:
    features, labels = labelled_rows(task)
    parts = np.array_split(np.arange(N_COLUMNS), n_clients)
    tables = {f"client{i}": FeatureTable.of(features[:, part]) for i, part in enumerate(parts)}
    seeds = {name: f"{name}, {task}".encode().ljust(32, b".") for name in (*tables, "server")}
    plain = train_plain(tables, labels, config, private_seeds=seeds)

    roles = {
        name: ClientRole(
            ClientState(LocalClient(name, table, seeds[name]), minimum_key_bits=256, allow_test_keys=key_bits < 2048)
        )
        for name, table in tables.items()
    }
    federation = MaskedFederation(
        InProcessChannel(roles),
        list(tables),
        config,
        key_bits=key_bits,
        sigma=64,
        n_rows=N_ROWS,
        allow_test_keys=key_bits < 2048,
    )
    dropped: list[int] = []
    backward = federation.backward

    def watched_backward(gradients, dithers, step):
        backward(gradients, dithers, step)
        if federation._changed:
            dropped.append(step + 1)

    federation.backward = watched_backward  # type: ignore[method-assign]
    return Masked(federation, roles, train(federation, labels, config, seeds["server"]), dropped), plain


def bits(arrays) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(value).tobytes() for name, value in arrays.items()}


def assert_same_run(masked: Masked, plain: PlainModel) -> None:
    ours, reference = masked.result, plain.result
    assert ours.losses == reference.losses
    assert ours.path == reference.path
    assert ours.scores == reference.scores
    assert ours.chosen == reference.chosen
    assert ours.kept == reference.kept
    assert ours.n_selected == reference.n_selected
    assert ours.clipped_gradients == reference.clipped_gradients
    assert ours.learners.keys() == reference.learners.keys()
    for phase in ours.learners:
        assert bits(ours.learners[phase].snapshot()) == bits(reference.learners[phase].snapshot())
    for name, role in masked.roles.items():
        mine, other = role.state.local, plain.federation.clients[name]
        assert (mine.gini_scores is None) == (other.gini_scores is None)
        if mine.gini_scores is not None:
            assert mine.gini_scores.scores.tobytes() == other.gini_scores.scores.tobytes()
            assert mine.gini_scores.label_impurity == other.gini_scores.label_impurity
        assert mine.starting_gates.tobytes() == other.starting_gates.tobytes()
        assert mine.final_gates.tobytes() == other.final_gates.tobytes()
        assert mine.selected_columns == other.selected_columns
        assert mine._learners.keys() == other._learners.keys()
        for phase in mine._learners:
            assert bits(mine._learners[phase].snapshot()) == bits(other._learners[phase].snapshot())
    for phase, layers in plain.federation._layers.items():
        for name, layer in layers.items():
            noisy = masked.federation._weights[phase][name].noisy
            share = masked.roles[name].state.shares[phase].share
            assert np.array_equal(noisy - share, layer.weights.astype(object))


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_every_task_and_layer_learns_the_same_bits(task, interactive):
    assert_same_run(*both(task, 2, configured(interactive=interactive)))


@pytest.mark.parametrize("n_clients", [1, 3, 5])
@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_any_number_of_clients_learns_the_same_bits(n_clients, interactive):
    assert_same_run(*both("binary", n_clients, configured(interactive=interactive)))


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize("n_clients", [1, 3])
def test_dimensions_dropped_on_the_way_change_nothing(n_clients, interactive):
    config = configured(
        gated_steps=30,
        interactive=interactive,
        penalty=PenaltySettings(embedding_strength=0.02),
        gates=GateSettings(narrowest_embedding=1),
        validation=ValidationSettings(every=6, patience=None),
    )
    masked, plain = both("binary", n_clients, config)
    assert masked.dropped  # or the test would show nothing
    assert_same_run(masked, plain)


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_returning_to_a_snapshot_from_before_a_drop_changes_nothing(interactive, monkeypatch):
    monkeypatch.setattr(two_phase_training, "choose_point", lambda path, *settings: path[0])
    config = configured(
        gated_steps=30,
        interactive=interactive,
        retrain=False,
        penalty=PenaltySettings(embedding_strength=0.02),
        validation=ValidationSettings(every=2, patience=None),
    )
    masked, plain = both("binary", 2, config)
    assert masked.result.chosen.step < min(masked.dropped)
    assert_same_run(masked, plain)
    rows = masked.result.validation_rows
    again, reference = (f.forward(rows, 1000, "validation") for f in (masked.federation, plain.federation))
    assert {name: z.tobytes() for name, z in again.items()} == {name: z.tobytes() for name, z in reference.items()}


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_two_gate_draws_per_row_change_nothing(interactive):
    assert_same_run(*both("multiclass", 2, configured(interactive=interactive, mc_samples=2), key_bits=768))


@pytest.mark.parametrize("n_clients", [1, 2])
def test_embedding_gates_that_start_by_gini_learn_the_same_bits(n_clients):
    masked, plain = both("binary", n_clients, configured(gates=GateSettings(embedding_start="gini")))
    assert_same_run(masked, plain)
    starts = {
        name: embedding_start(client.gini_scores, GateSettings(embedding_start="gini"))
        for name, client in plain.federation.clients.items()
    }
    assert all(0.5 < start < 1 for start in starts.values())  # or it is the start of all other tests
    assert len(set(starts.values())) == n_clients  # each client's own


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_a_linear_model_learns_the_same_bits(task, interactive):
    assert_same_run(*both(task, 2, configured(interactive=interactive, model="linear"), key_bits=768))


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_dropout_and_a_last_phase_on_all_rows_learn_the_same_bits(interactive):
    config = configured(interactive=interactive, final_rows="all")
    dropout = {"embedding_dropout": 0.5, "input_dropout": 0.5}
    config = config.with_changes(compact_phase=config.compact_phase.model_copy(update=dropout))
    masked, plain = both("binary", 2, config)
    assert masked.result.kept == "compact"
    assert set(masked.result.scores) == {"gated"}  # validation rows that were learned from judge nothing
    assert masked.result.validation_score == masked.result.scores["gated"]
    assert_same_run(masked, plain)


def test_a_wished_number_of_features_gives_the_same_choice():
    masked, plain = both("binary", 3, configured(n_features=3, retrain=True), key_bits=768)
    assert sum(masked.result.n_selected.values()) == 3
    assert_same_run(masked, plain)


def test_gates_that_start_alike_and_no_second_phase_learn_the_same_bits():
    config = configured(gates=GateSettings(initialization="constant"), retrain=False)
    assert_same_run(*both("binary", 2, config))


@pytest.mark.parametrize("layout", ["columns", "reversed"])
def test_both_layouts_of_the_weight_gradient_learn_the_same_bits(layout, monkeypatch):
    for module in (interactive_share, noisy_weights):
        monkeypatch.setattr(
            module, "plan_minibatch", lambda *sizes, forced=layout: plan_minibatch(*sizes, gradient=forced)
        )
    assert_same_run(*both("binary", 2, configured(), key_bits=768))


def test_a_hundred_steps_drift_by_no_bit():
    assert_same_run(*both("binary", 2, configured(gated_steps=60, compact_steps=40)))


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_a_complete_run_with_real_keys_learns_the_same_bits(interactive):
    config = configured(gated_steps=6, compact_steps=4, interactive=interactive, validation=ValidationSettings(every=3))
    assert_same_run(*both("binary", 2, config, key_bits=2048))


@pytest.mark.parametrize(
    ("task", "n_clients", "interactive"),
    [("binary", 2, "dense"), ("multiclass", 3, "elementwise"), ("regression", 5, "dense")],
)
def test_runs_of_hundreds_of_steps_are_equal(task, n_clients, interactive):
    patient = ValidationSettings(every=40, patience=None)
    config = configured(150, 100, interactive=interactive, validation=patient)
    masked, plain = both(task, n_clients, config)
    assert_same_run(masked, plain)
    assert sum(len(losses) for losses in masked.result.losses.values()) >= 200

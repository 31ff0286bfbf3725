"""Claims about training: repeatable, exact, for every task, number of clients and layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learning_helpers import deal, private_seeds, selected, take
from torch import nn

from fedsdg.config import GateSettings, PenaltySettings, TrainingConfig, paper_config
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError, ProtocolError, SlotOverflow
from fedsdg.learning import two_phase_training
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.fixed_point_layer import build_layer
from fedsdg.learning.objective import Objective
from fedsdg.learning.plain_training import train_plain
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.server_learner import ServerLearner

SEED = b"a seed for tests, not a secret.."


def easy_data(task, n_rows=400, n_columns=20, seed=0):
    """The first two columns decide, and nothing else does."""
    stream = np.random.default_rng(seed)
    features = stream.standard_normal((n_rows, n_columns))
    signal = features[:, 0] + features[:, 1]
    if task == "binary":
        return features, np.where(signal > 0, "yes", "no")
    if task == "multiclass":
        return features, np.digitize(signal, [-0.6, 0.6])
    return features, 3.0 * signal + 10


def train_easy(task, config, n_clients=2, **options):
    features, labels = easy_data(task)
    tables, parts = deal(features, n_clients)
    model = train_plain(
        take(tables, np.arange(300)), labels[:300], config, private_seeds=private_seeds(tables), **options
    )
    return model, parts, model.score(take(tables, np.arange(300, 400)), labels[300:])


FLOOR = {"binary": 0.8, "multiclass": 0.65, "regression": 0.6}


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_every_task_is_learned_over_both_layers(task, interactive, short_config):
    model, _, score = train_easy(task, short_config.with_changes(interactive=interactive))
    assert model.result.server.objective.task == task
    assert score >= FLOOR[task]


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize(("task", "floor"), [("binary", 0.9), ("multiclass", 0.75), ("regression", 0.95)])
def test_a_linear_model_solves_a_linear_task(task, floor, interactive, short_config):
    longer = {
        phase: getattr(short_config, phase).model_copy(update={"steps": 200})  # a single layer learns slowly
        for phase in ("gated_phase", "compact_phase")
    }
    model, parts, score = train_easy(task, short_config.with_changes(model="linear", interactive=interactive, **longer))
    assert {0, 1} <= set(selected(model, parts).tolist())
    assert score >= floor


@pytest.mark.parametrize("n_clients", [1, 2, 3, 5])
@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_any_number_of_clients_finds_the_two_columns(n_clients, interactive, short_config):
    model, parts, score = train_easy("binary", short_config.with_changes(interactive=interactive), n_clients)
    assert {0, 1} <= set(selected(model, parts).tolist())
    assert score >= 0.8


def bits_of(model):
    """Everything that was learned, as bytes."""
    arrays = []
    for client in model.federation.clients.values():
        arrays += [value.tobytes() for _, value in sorted(client.learner.snapshot().items())]
    arrays += [layer.weights.tobytes() for layer in model.federation.layers.values()]
    return [*arrays, *(value.tobytes() for _, value in sorted(model.result.server.snapshot().items()))]


def test_a_run_is_repeated_bit_for_bit_from_its_seeds(short_config):
    first, _, _ = train_easy("binary", short_config)
    torch.manual_seed(12345)  # the global stream plays no part
    again, _, _ = train_easy("binary", short_config)
    assert bits_of(first) == bits_of(again)


def test_the_joint_seed_moves_the_batches_and_not_the_initial_weights(short_config):
    features, _ = easy_data("binary")
    plans = [PhasePlan("gated", short_config.with_changes(seed=seed), 1, 20, 300, 1) for seed in (0, 1)]
    learners = [
        ClientLearner(features.astype(np.float32), plan, RandomStreams(SEED), input_gates=np.full(20, 0.5))
        for plan in plans
    ]
    rows = np.arange(10)
    assert np.array_equal(learners[0].initial_weights(), learners[1].initial_weights())
    assert np.array_equal(learners[0].embed(rows, 0, True), learners[1].embed(rows, 0, True))
    assert not np.array_equal(plans[0].batches.batch(0), plans[1].batches.batch(0))


def test_no_party_learns_from_the_validation_or_test_rows(short_config):
    features, labels = easy_data("regression")
    tables, _ = deal(features[:300])
    first = train_plain(tables, labels[:300], short_config, private_seeds=private_seeds(tables))
    changed = features[:300].copy()
    changed[first.result.validation_rows] += 100.0
    other_tables, _ = deal(changed)
    config = short_config.with_changes(validation={"every": 10, "patience": None})
    runs = [
        train_plain(t, labels[:300], config, private_seeds=private_seeds(tables)).result.losses["gated"]
        for t in (tables, other_tables)
    ]
    assert runs[0] == runs[1]


def test_a_wished_number_of_features_is_met_exactly(short_config):
    for wish in (1, 2, 5):
        model, parts, _ = train_easy("binary", short_config.with_changes(n_features=wish))
        assert len(selected(model, parts)) == wish
    assert set(selected(model, parts)) >= {0, 1}


def test_without_a_second_phase_the_gated_model_uses_the_selected_columns_only(short_config):
    model, parts, score = train_easy("binary", short_config.with_changes(n_features=2, retrain=False))
    assert model.result.kept == "gated"
    features, _ = easy_data("binary")
    tables, _ = deal(features)
    before = model.outputs(tables)
    noise = features.copy()
    unused = np.setdiff1d(np.arange(20), selected(model, parts))
    noise[:, unused] = np.random.default_rng(1).standard_normal((400, len(unused)))
    assert torch.allclose(before, model.outputs(deal(noise)[0]), atol=1e-4)
    assert score > 0.7


def test_the_compact_model_does_not_ask_clients_without_a_selected_column(short_config):
    model, _, _ = train_easy("binary", short_config.with_changes(n_features=2), n_clients=5)
    holders = {name for name, columns in model.selected_columns.items() if columns}
    assert set(model.federation._layers["compact"]) == holders
    assert len(holders) <= 2


def test_several_gate_draws_per_row_train(short_config):
    _, _, score = train_easy("binary", short_config.with_changes(mc_samples=2))
    assert score >= 0.8


def test_a_users_own_module_can_be_the_bottom_model(short_config):
    def factory(n_columns, embedding):
        return nn.Sequential(nn.Linear(n_columns, 12), nn.ELU(), nn.Dropout(0.1), nn.Linear(12, embedding), nn.Tanh())

    options = {"bottom_models": {"client0": factory, "client1": factory}}
    first, _, score = train_easy("binary", short_config, **options)
    again, _, _ = train_easy("binary", short_config, **options)
    assert score >= 0.8
    assert bits_of(first) == bits_of(again)  # dropout included


def test_a_module_of_the_wrong_width_is_refused(short_config):
    options = {"bottom_models": {"client0": lambda n_columns, embedding: nn.Linear(n_columns, embedding + 1)}}
    with pytest.raises(DataError, match="bottom model returned shape"):
        train_easy("binary", short_config, **options)


def test_the_papers_settings_run():
    config = paper_config()
    config = config.with_changes(gated_phase=config.gated_phase.model_copy(update={"steps": 5}))
    model, _, _ = train_easy("binary", config)
    assert model.result.kept == "gated"


def test_closed_embedding_dimensions_are_dropped_and_never_come_back(short_config):
    config = short_config.with_changes(
        penalty=PenaltySettings(strength=0.0, embedding_strength=0.02),
        validation={"every": 40, "rule": "last"},
        retrain=False,
    )
    for interactive in ("dense", "elementwise"):
        model, _, _ = train_easy("binary", config.with_changes(interactive=interactive))
        for name, layer in model.federation.layers.items():
            learner = model.federation.clients[name].learner
            open_dimensions = learner.open_dimensions()
            assert 1 <= len(open_dimensions) < learner.width
            assert layer.weights.shape[0] == len(open_dimensions)


def test_the_compact_embedding_follows_the_open_gates_within_limits(short_config):
    closing = short_config.with_changes(
        penalty=PenaltySettings(strength=0.0, embedding_strength=0.02), gates=GateSettings(narrowest_embedding=2)
    )
    model, _, _ = train_easy("binary", closing.with_changes(validation={"every": 40, "rule": "last"}))
    widths = [model.federation.clients[name].learner.width for name in model.federation.layers]
    assert all(2 <= width <= 8 for width in widths)
    assert min(widths) < 8
    model, _, _ = train_easy("binary", closing.with_changes(gates=GateSettings()))
    assert {model.federation.clients[name].learner.width for name in model.federation.layers} == {8}


def test_gates_that_close_after_the_chosen_point_narrow_the_compact_embedding(short_config, monkeypatch):
    monkeypatch.setattr(two_phase_training, "choose_point", lambda path, *settings: path[0])
    closing = short_config.with_changes(
        penalty=PenaltySettings(strength=0.0, embedding_strength=0.02), gates=GateSettings(narrowest_embedding=2)
    )
    model, _, _ = train_easy("binary", closing.with_changes(validation={"every": 2, "patience": None}))
    assert model.result.chosen.step == 2  # when all eight were open
    gated = model.result.learners["gated"]
    assert all(len(gated.open_dimensions(name)) == 8 for name in gated.clients)
    assert all(model.result.learners["compact"].widths[name] < 8 for name in model.federation.layers)


def test_a_snapshot_restores_every_bit(short_config):
    features, _ = easy_data("binary")
    plan = PhasePlan("gated", short_config, 1, 20, 300, 1)
    learner = ClientLearner(features.astype(np.float32), plan, RandomStreams(SEED), input_gates=np.full(20, 0.5))
    rows = np.arange(64)

    def take_step(step):
        shape = learner.embed(rows, step, True).shape
        learner.apply_gradient(np.random.default_rng(step).integers(-(2**40), 2**40, shape), step)

    for step in range(3):
        take_step(step)
    saved = learner.snapshot()
    take_step(3)
    after = learner.snapshot()
    learner.restore(saved)
    take_step(3)
    assert {name: value.tobytes() for name, value in learner.snapshot().items()} == {
        name: value.tobytes() for name, value in after.items()
    }
    fresh = ClientLearner(features.astype(np.float32), plan, RandomStreams(SEED), input_gates=np.full(20, 0.5))
    fresh.restore(after)
    assert np.array_equal(fresh.embed(rows, 4, True), learner.embed(rows, 4, True))


def test_integer_training_follows_float_training_closely(short_config):
    """One step of the integer layer against torch's own gradient of the same network."""
    features, labels = easy_data("binary")
    plan = PhasePlan("gated", short_config, 1, 20, 300, 1)
    objective = Objective.fit("binary", labels, np.arange(300))
    client = ClientLearner(features.astype(np.float32), plan, RandomStreams(SEED), input_gates=np.full(20, 0.5))
    server = ServerLearner(plan, objective, {"a": client.width}, RandomStreams(SEED))
    fixed = short_config.fixed_point
    layer = build_layer("dense", client.initial_weights(), fixed)
    rows = np.arange(64)
    G = client.embed(rows, 0, True)
    Z = layer.forward(G, client.forward_dither((64, plan.outputs), 0))

    g = torch.tensor(G / 2.0**fixed.embedding_fraction_bits, dtype=torch.float32, requires_grad=True)
    w = torch.tensor(layer.weights / 2.0**fixed.weight_fraction_bits, dtype=torch.float32, requires_grad=True)
    objective.per_sample_loss(server._top(g @ w), rows).sum().backward()

    server.forward({"a": Z}, rows, 0)
    gradient = server.backward(0)["a"]
    dG = layer.backward(gradient.gradient, server.backward_dither("a", 64, 0))
    before = layer.weights
    layer.update(G, gradient.step_gradient)
    moved = (before - layer.weights) / 2.0**fixed.weight_fraction_bits
    assert np.allclose(dG / 2.0**fixed.backward_fraction_bits, g.grad.numpy(), atol=2e-4)
    assert np.allclose(moved, 0.3 / 64 * w.grad.numpy(), atol=1e-5)


def test_diverging_weights_raise_instead_of_wrapping(short_config):
    wild = short_config.gated_phase.model_copy(update={"interactive_learning_rate": 5000.0})
    with pytest.raises((SlotOverflow, DataError), match="diverg"):
        train_easy("regression", short_config.with_changes(gated_phase=wild))


def test_gradients_out_of_turn_are_refused(short_config):
    features, labels = easy_data("binary")
    plan = PhasePlan("gated", short_config, 1, 20, 300, 1)
    client = ClientLearner(features.astype(np.float32), plan, RandomStreams(SEED), input_gates=np.full(20, 0.5))
    server = ServerLearner(plan, Objective.fit("binary", labels, np.arange(300)), {"a": 8}, RandomStreams(SEED))
    with pytest.raises(ProtocolError, match="step 0"):
        client.apply_gradient(np.zeros((4, 8), dtype=np.int64), 0)
    client.embed(np.arange(4), 1, True)
    with pytest.raises(DataError, match="shape"):
        client.apply_gradient(np.zeros((5, 8), dtype=np.int64), 1)
    with pytest.raises(SlotOverflow, match="dL/dG"):
        client.apply_gradient(np.full((4, 8), 1 << 60), 1)
    with pytest.raises(ProtocolError, match="step 0"):
        server.backward(0)
    with pytest.raises(ProtocolError, match="missing"):
        server.forward({}, np.arange(4), 0)
    with pytest.raises(DataError, match="Z must have shape"):
        server.forward({"a": np.zeros((4, 9), dtype=np.int64)}, np.arange(4), 0)
    with pytest.raises(SlotOverflow, match="Z of client"):
        server.forward({"a": np.full((4, 4), 1 << 60)}, np.arange(4), 0)


def test_runs_that_cannot_start_say_why(short_config):
    features, labels = easy_data("binary", n_rows=60)
    tables, _ = deal(features)
    with pytest.raises(ConfigError, match="no client"):
        train_plain({}, labels, short_config)
    with pytest.raises(DataError, match="60 rows and there are 59 labels"):
        train_plain(tables, labels[:59], short_config)
    with pytest.raises(DataError, match="differ in rows"):
        train_plain({**tables, "c": FeatureTable.of(np.ones((5, 1)))}, labels, short_config)
    with pytest.raises(ConfigError, match="20 columns in total"):
        train_plain(tables, labels, short_config.with_changes(n_features=21))
    with pytest.raises(DataError, match="single class"):
        train_plain(tables, np.zeros(60), short_config)
    with pytest.raises(ConfigError, match="'server'"):
        train_plain({"server": tables["client0"]}, labels, short_config)


def test_constant_columns_and_tiny_tables_are_survived(short_config):
    features, labels = easy_data("binary", n_rows=30, n_columns=6)
    features[:, 3] = 7.0
    tables, _ = deal(features)
    model = train_plain(tables, labels, short_config, private_seeds=private_seeds(tables))
    assert len(model.predict(tables)) == 30


def test_a_prediction_needs_the_same_columns(short_config):
    model, _, _ = train_easy("binary", short_config)
    features, labels = easy_data("binary")
    tables, _ = deal(features)
    with pytest.raises(DataError, match="missing"):
        model.predict({})
    renamed = {
        name: FeatureTable(tuple(f"other{c}" for c in table.columns), table.values) for name, table in tables.items()
    }
    with pytest.raises(DataError, match="have no column"):
        model.predict(renamed)
    with pytest.raises(DataError, match="3 labels for 400 rows"):
        model.score(tables, labels[:3])
    assert model.predict_probabilities(tables).shape == (400, 2)


def test_gates_that_start_alike_need_no_gini(short_config):
    config = short_config.with_changes(gates=GateSettings(initialization="constant"))
    model, _, _ = train_easy("binary", config)
    assert all(client.gini_scores is None for client in model.federation.clients.values())


def test_the_default_configuration_is_the_recipe_for_encrypted_runs():
    config = TrainingConfig()
    assert (config.gated_phase.embedding, config.gated_phase.outputs, config.gated_phase.steps) == (8, 4, 250)
    assert (config.compact_phase.embedding, config.compact_phase.outputs, config.compact_phase.steps) == (
        8,
        8,
        600,
    )

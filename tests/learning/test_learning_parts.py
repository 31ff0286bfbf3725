"""Claims about streams, schedules, tasks, selection rules and settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedsdg.config import (
    FixedPointSettings,
    PenaltySettings,
    PhaseSettings,
    TrainingConfig,
    ValidationSettings,
    paper_config,
    wide_config,
)
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.calibration import calibrated_row_losses, row_losses
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.objective import Objective, Score, guess_task, split_rows
from fedsdg.learning.randomness import BatchOrder, RandomStreams, fresh_private_seed
from fedsdg.learning.schedule import PhasePlan, cosine, exponential_ramp
from fedsdg.learning.selection import (
    PathPoint,
    Taste,
    choose_point,
    out_of_reach,
    quotas,
    steadied,
)
from fedsdg.learning.stochastic_gate import StochasticGate

SEED = b"a seed for tests, not a secret.."


def test_a_stream_depends_on_seed_path_purpose_and_step_only():
    streams = RandomStreams(SEED).derive("client")

    def draw(source, purpose, step):
        return source.numpy(purpose, step).integers(0, 2**62)

    first = draw(streams, "noise", 3)
    streams.numpy("noise", 4).random(100)
    assert draw(RandomStreams(SEED, ("client",)), "noise", 3) == first
    others = [
        draw(streams, "noise", 4),
        draw(streams, "nois", 3),
        draw(streams.derive("client"), "noise", 3),
        draw(RandomStreams(fresh_private_seed(), ("client",)), "noise", 3),
    ]
    assert first not in others
    assert torch.equal(
        torch.randn(3, generator=streams.torch("noise", 3)),
        torch.randn(3, generator=streams.torch("noise", 3)),
    )


def test_symmetric_integers_fill_their_open_range():
    values = RandomStreams(SEED).symmetric_integers("dither", 0, 2, (1000,))
    assert set(values.tolist()) == set(range(-3, 4))


def test_a_seed_that_can_be_guessed_is_refused_and_never_shown():
    with pytest.raises(ConfigError, match="16 bytes"):
        RandomStreams(b"short")
    assert "seed for tests" not in repr(RandomStreams(SEED))


def test_an_epoch_of_batches_visits_every_row_once():
    order = BatchOrder(joint_seed=5, phase="gated", n_rows=20, batch_size=5)
    for epoch in range(2):
        rows = np.concatenate([order.batch(step) for step in range(4 * epoch, 4 * epoch + 4)])
        assert sorted(rows.tolist()) == list(range(20))
    assert order.batch(0).tolist() != order.batch(4).tolist()
    assert order.batch(0).tolist() != BatchOrder(6, "gated", 20, 5).batch(0).tolist()
    assert len(BatchOrder(5, "gated", 3, 128).batch(7)) == 3


def plan(**changes):
    return PhasePlan("gated", TrainingConfig(**changes), 2, 500, 1700, 1)


def test_the_penalty_rises_by_a_constant_factor_and_is_averaged_over_columns():
    assert exponential_ramp(1, 10, 0, 250) == pytest.approx(1)
    assert exponential_ramp(1, 10, 249, 250) == pytest.approx(10)
    assert exponential_ramp(1, 100, 5, 11) == pytest.approx(10)
    fixed = plan(penalty=PenaltySettings(strength=3.0))
    assert fixed.input_penalty(0) * 500 == pytest.approx(1)
    assert fixed.input_penalty(249) * 500 == pytest.approx(3)
    summed = plan(penalty=PenaltySettings(strength=0.1, reduction="sum"))
    assert summed.input_penalty(100) == pytest.approx(0.1)
    assert plan(penalty=PenaltySettings(strength=0.0)).input_penalty(9) == 0


def test_rates_follow_columns_steps_and_schedule():
    assert plan().input_gate_rate() == pytest.approx(0.006 * 500 * (600 / 250) ** 0.5)
    assert plan().embedding_gate_rate() == pytest.approx(3 * (600 / 250) ** 0.5)
    assert cosine(0, 600) == 1
    assert cosine(599, 600) == pytest.approx(0)
    assert plan().learning_rate(200) == 0.012


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ([0, 1, 1], "binary"),
        (["yes", "no", "yes"], "binary"),
        ([1, 2, 3, 3], "multiclass"),
        ([0.5, 1.5, 2.5], "regression"),
        (list(range(200)), "regression"),
    ],
)
def test_the_task_is_guessed_from_the_labels(labels, task):
    assert guess_task(np.array(labels)) == task


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_gradients_are_per_sample_whatever_the_batch(task):
    labels = np.array([0, 1, 2, 1, 0, 2]) if task != "binary" else np.array([0, 1, 1, 0, 1, 0])
    rows = np.arange(6)
    objective = Objective.fit(task, labels, rows)
    outputs = torch.linspace(-1, 1, 6 * objective.n_outputs).reshape(6, -1)

    def gradient(chosen):
        z = outputs[chosen].clone().requires_grad_(True)
        objective.per_sample_loss(z, rows[chosen]).sum().backward()
        return z.grad

    assert torch.allclose(gradient(slice(0, 2)), gradient(slice(0, 6))[:2])


def test_predictions_speak_the_language_of_the_labels():
    labels = np.array(["paid", "lost", "paid", "lost"])
    objective = Objective.fit("auto", labels, np.arange(4))
    outputs = torch.tensor([[2.0], [-1.0]])
    assert objective.predictions(outputs).tolist() == ["paid", "lost"]
    assert objective.probabilities(outputs).sum(axis=1) == pytest.approx([1, 1])
    target = np.array([10.0, 20.0, 30.0, 45.5])
    regression = Objective.fit("auto", target, np.arange(3))
    assert regression.predictions(regression.targets[:, None]) == pytest.approx(target, rel=1e-5)
    assert regression.score(regression.targets[:, None], np.arange(4)).value == pytest.approx(1)
    with pytest.raises(DataError, match="no class probabilities"):
        regression.probabilities(outputs)


@pytest.mark.parametrize(
    ("task", "labels", "reason"),
    [
        ("auto", [1, 1, 1], "single class"),
        ("binary", [1, 2, 3], "task='multiclass'"),
        ("regression", [2.0, 2.0, 2.0], "constant"),
        ("regression", ["a", "b", "c"], "numeric"),
        ("auto", [1.0, np.nan, 2.0], "NaN"),
        ("auto", [[1], [2], [3]], "one value per row"),
    ],
)
def test_labels_that_cannot_be_learned_say_why(task, labels, reason):
    with pytest.raises(DataError, match=reason):
        Objective.fit(task, labels, np.arange(3))


def test_validation_rows_keep_the_classes_balance():
    labels = np.repeat([0, 1], [80, 20])
    training, validation = split_rows(labels, True, 0.15, np.random.default_rng(0))
    assert np.bincount(labels[validation]).tolist() == [12, 3]
    assert sorted([*training, *validation]) == list(range(100))
    with pytest.raises(DataError, match="too few"):
        split_rows([0, 1], True, 0.15, np.random.default_rng(0))


def point(step, n_open, value, error=0.02):
    return PathPoint(step, n_open, Score(value, error, 1 - value))


def with_losses(at, losses):
    return PathPoint(at.step, at.n_open, Score(at.score.value, 0.02, float(np.mean(losses)), np.asarray(losses)))


def test_a_point_is_chosen_by_its_loss_row_by_row():
    hard_and_easy = np.array([2.0, 0.1, 0.1, 0.1, 2.0, 0.1, 0.1, 0.1])
    unsteady = np.array([0.2, -0.1, 0.1, -0.1, 0.1, 0.1, -0.2, -0.05])  # 0.006 on average, 0.045 its standard error
    path = [
        with_losses(point(25, 90, 0.80), hard_and_easy + 0.3),
        with_losses(point(50, 40, 0.90), hard_and_easy),
        with_losses(point(75, 12, 0.885), hard_and_easy + unsteady),
        with_losses(point(90, 8, 0.90), hard_and_easy + 0.02),  # far less than rows differ, but worse on every one
        with_losses(point(100, 3, 0.80), hard_and_easy + 0.3),
        with_losses(point(125, 0, 0.5), hard_and_easy * 0),
    ]
    assert choose_point(path, "one_standard_error").step == 75
    assert choose_point(path, "plausible").step == 50
    assert choose_point(path, "best").step == 50
    assert choose_point(path, "last").step == 100
    assert choose_point(path, "one_standard_error", n_features=20).step == 50
    with pytest.raises(ConfigError, match="at most 90"):
        choose_point(path, "best", n_features=91)
    with pytest.raises(DataError, match="every gate closed"):
        choose_point([point(1, 0, 0.5)], "best")


def path_of_losses(numbers, lost_errors, n_rows=100):
    """A path whose points lose so many standard errors to the lowest, whatever the rows."""
    noise = np.resize([1.0, -1.0], n_rows)
    base = np.ones(n_rows)
    return [
        with_losses(point(step, n_open, 0.9), base + (noise * 0.1 + lost * 0.1 / np.sqrt(n_rows) if lost else 0))
        for step, (n_open, lost) in enumerate(zip(numbers, lost_errors, strict=True))
    ]


HALVINGS = [1000, 500, 250, 125, 62, 31, 16, 8]


def test_where_the_rows_say_nothing_the_number_is_half_way_up_to_plenty_by_ratios():
    nothing = path_of_losses(HALVINGS, [0.0] * 8)
    assert choose_point(nothing, "plausible").n_open == 125  # half-way between 8 and 1000: 89
    assert choose_point(nothing, "plausible", taste=Taste(62)).n_open == 31  # beyond 62 ever less
    assert choose_point(nothing, "plausible", taste=Taste(1)).n_open == 8
    assert choose_point(nothing, "one_standard_error").n_open == 8


def test_a_taste_for_plenty_settles_what_the_rows_leave_open():
    nothing = path_of_losses(HALVINGS, [0.0] * 8)
    for plenty in (31, 62, 125, 250):
        assert choose_point(nothing, "plausible", taste=Taste(plenty, below=2, beyond=12)).n_open == plenty


def test_where_the_rows_speak_clearly_they_are_followed_whatever_is_plenty():
    clear = path_of_losses(HALVINGS, [30.0, 25.0, 20.0, 15.0, 10.0, 9.0, 0.0, 12.0])
    all_needed = path_of_losses(HALVINGS, [0.0, 12.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0])
    few = path_of_losses(HALVINGS, [30.0, 25.0, 20.0, 15.0, 10.0, 6.0, 5.0, 0.0])
    for plenty in (15, 150, 1000):
        for below, beyond in ((0, 2), (2, 12)):
            taste = Taste(plenty, below, beyond)
            assert choose_point(clear, "plausible", taste=taste).n_open == 16
            assert choose_point(few, "plausible", taste=taste).n_open == 8
    for plenty in (150, 500):
        assert choose_point(all_needed, "plausible", taste=Taste(plenty, 2, 12)).n_open == 1000


def test_a_taste_without_measure_still_has_an_answer():
    nothing = path_of_losses(HALVINGS, [0.0] * 8)
    assert choose_point(nothing, "plausible", taste=Taste(1e23, below=32)).n_open == 1000
    assert choose_point(nothing, "plausible", taste=Taste(1e-9, beyond=32)).n_open == 8


def test_a_share_of_few_columns_is_not_called_plenty():
    settings = ValidationSettings(plenty=0.15, plenty_at_least=30)
    assert Taste.of(settings, 20).plenty == 30
    assert Taste.of(settings, 1000).plenty == 150
    assert Taste.of(ValidationSettings(), 20).plenty == 3


def test_the_number_hardly_moves_with_the_luck_of_one_point():
    """What one standard error does not manage: a point just inside or outside of it moves it from end to end."""
    inside = path_of_losses(HALVINGS, [0.0, 0.3, 0.6, 1.1, 1.1, 1.1, 1.1, 0.95])
    outside = path_of_losses(HALVINGS, [0.0, 0.3, 0.6, 1.1, 1.1, 1.1, 1.1, 1.05])
    assert choose_point(inside, "one_standard_error").n_open == 8
    assert choose_point(outside, "one_standard_error").n_open == 250
    assert {choose_point(path, "plausible", taste=Taste(150)).n_open for path in (inside, outside)} == {62}


def test_a_path_of_one_point_has_one_answer():
    assert choose_point(path_of_losses([7], [0.0]), "plausible", taste=Taste(1)).n_open == 7


def test_of_several_looks_at_one_number_the_best_counts_and_is_taken():
    path = path_of_losses([100, 20, 20, 20, 10], [9.0, 4.0, 0.0, 4.0, 4.0])
    assert choose_point(path, "plausible").step == 2
    assert choose_point(path[1:4], "plausible").step == 2


def test_a_path_that_left_the_band_of_the_best_is_given_up():
    falling = [point(1, 9, 0.9), point(2, 5, 0.85), point(3, 4, 0.84), point(4, 3, 0.83)]
    assert out_of_reach(falling, 3)
    assert not out_of_reach(falling[:3], 3)
    assert not out_of_reach([*falling, point(5, 3, 0.89)], 3)
    assert not out_of_reach(falling, None)
    losses = (0.6, 0.65, 0.64, 0.63)  # one lucky look at a model that has hardly begun to learn
    learning = [PathPoint(p.step, 9, Score(p.score.value, 0.01, loss)) for p, loss in zip(falling, losses, strict=True)]
    assert not out_of_reach(learning, 3)


def test_a_point_is_found_where_losses_are_alike_or_not_numbers():
    alike = [with_losses(point(step, n_open, 1.0), np.zeros(4)) for step, n_open in ((1, 9), (2, 5), (3, 7))]
    assert choose_point(alike, "one_standard_error").step == 2
    assert choose_point(alike, "plausible").step == 3
    broken = [with_losses(point(1, 9, 0.5), np.ones(4)), with_losses(point(2, 5, 0.5), np.full(4, np.nan))]
    assert choose_point(broken, "one_standard_error").step == 1
    assert choose_point(broken[::-1], "one_standard_error").step == 1
    assert choose_point(broken, "plausible").step == 1


def test_one_lucky_look_does_not_set_the_mark():
    losses = (0.30, 0.31, 0.15, 0.32, 0.30, 0.31)
    wobble = np.array([0.01, -0.01, 0.02, -0.02])
    path = [with_losses(point(i, 10 - i, 0.9), level + wobble * (i % 2)) for i, level in enumerate(losses)]
    assert choose_point(path, "one_standard_error").step == 2
    steady = steadied(path)
    assert [p.step for p in steady] == [0, 1, 2, 3, 4, 5]
    assert steady[0].score.row_losses.mean() == pytest.approx(0.305)
    assert steady[2].score.row_losses.mean() == pytest.approx(0.26)
    assert steady[2].score.value == 0.9


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_confidence_alone_changes_no_calibrated_loss(task):
    stream = np.random.default_rng(3)
    outputs = torch.from_numpy(stream.normal(size=(200, 1 if task == "binary" else 4)))
    noisy = outputs + torch.from_numpy(stream.normal(size=outputs.shape))
    labels = (noisy[:, 0] > 0).float() if task == "binary" else noisy.argmax(1)
    modest, boastful = (calibrated_row_losses(task, factor * outputs, labels) for factor in (0.5, 20.0))
    assert modest.numpy() == pytest.approx(boastful.numpy(), abs=1e-6)
    assert float(boastful.mean()) < float(
        row_losses(task, 20.0 * outputs, labels.double() if task == "binary" else labels).mean()
    )
    ignorant = calibrated_row_losses(task, torch.from_numpy(stream.normal(size=outputs.shape)), labels)
    assert float(modest.mean()) < float(ignorant.mean())


def test_calibration_stays_in_its_limits_where_all_answers_are_right_or_wrong():
    outputs, labels = torch.tensor([[3.0], [-2.0]]), torch.tensor([1.0, 0.0])
    for factor in (1.0, -1.0):
        assert torch.isfinite(calibrated_row_losses("binary", factor * outputs, labels)).all()
    squares = calibrated_row_losses("regression", outputs, torch.tensor([1.0, 0.0]))
    assert squares.tolist() == [2.0, 2.0]


def test_the_loss_counts_less_in_the_gates_where_columns_far_outnumber_rows():
    def evidence(rows, columns, config=TrainingConfig()):  # noqa: B008 - settings are immutable
        return PhasePlan("gated", config, 2, columns, rows, 1).gate_evidence()

    assert evidence(1_000, 500) == evidence(500, 1_000) == 1.0
    assert evidence(100, 10_000) == pytest.approx(0.0004)
    always = TrainingConfig(gates={"rows_for_full_evidence": 0})
    assert evidence(100, 10_000, always) == 1.0
    gates = StochasticGate(np.array([0.5, 0.5]), 0.5)
    gates.mean.grad = torch.tensor([1.0, -1.0])
    gates.descend(0.1, 0.0, 0.04)
    assert gates.means() == pytest.approx([0.496, 0.504])


def test_a_wished_number_is_shared_by_the_width_of_the_gates():
    means = {"a": np.array([0.9, 0.5, 0.1]), "b": np.array([0.8, 0.2])}
    assert quotas(means, 3) == {"a": 2, "b": 1}
    with pytest.raises(ConfigError, match="only 5 gates"):
        quotas(means, 6)


def test_settings_are_frozen_and_name_what_is_wrong():
    config = TrainingConfig()
    with pytest.raises(Exception, match="frozen"):
        config.seed = 3
    with pytest.raises(ConfigError, match="batch_size"):
        PhaseSettings(batch_size=0)
    with pytest.raises(ConfigError, match="unknown_name"):
        TrainingConfig(unknown_name=1)
    with pytest.raises(ConfigError, match="steps"):
        TrainingConfig(gated_phase={"steps": 0})
    with pytest.raises(ConfigError, match="smaller embedding"):
        TrainingConfig(gated_phase=PhaseSettings(embedding=500))
    with pytest.raises(ConfigError, match="strength"):
        PenaltySettings(strength=-1.0)
    with pytest.raises(ConfigError, match="at least 1"):
        PhaseSettings(hidden=(0,))


def test_changes_keep_the_rest_and_are_validated():
    config = TrainingConfig(n_features=7).with_changes(mc_samples=2)
    assert (config.n_features, config.mc_samples) == (7, 2)
    with pytest.raises(ConfigError, match="mc_samples"):
        config.with_changes(mc_samples=0)
    assert TrainingConfig.model_validate_json(config.model_dump_json()) == config


def test_a_bare_penalty_is_its_strength():
    assert TrainingConfig(penalty=3.0).penalty == PenaltySettings(strength=3.0)
    assert TrainingConfig(penalty="auto") == TrainingConfig()
    with pytest.raises(ConfigError, match="penalty"):
        TrainingConfig(penalty="strong")


def test_the_wide_preset_fits_its_slots():
    assert wide_config(n_features=3).gated_phase.embedding == 32


def test_the_paper_preset_has_the_papers_parameter_counts():
    phase = paper_config().gated_phase
    columns, classes = 617, 26  # ISOLET
    hidden, embedding = *phase.hidden, phase.embedding
    clients = sum(d * hidden + hidden + hidden * embedding + embedding for d in (308, 309))
    interactive, head = 2 * phase.embedding * phase.outputs + phase.outputs, phase.outputs * classes + classes
    assert clients + interactive + head == 100 * columns + 30_450 + 51 * classes == 93_476


def test_fixed_point_fractions_are_bounded():
    with pytest.raises(ConfigError, match="embedding_fraction_bits"):
        FixedPointSettings(embedding_fraction_bits=40)


def test_dropout_grows_with_the_inputs_per_row_and_stops_at_its_limit():
    phase = PhaseSettings(embedding_dropout=0.5)
    assert phase.dropout_for(inputs=1000, rows=100) == 0.5
    assert phase.dropout_for(inputs=20, rows=1000) == pytest.approx(0.25)
    assert phase.dropout_for(inputs=1, rows=10**6) < 1e-4
    assert PhaseSettings().dropout_for(inputs=1000, rows=10) == 0.0
    phase = PhaseSettings(input_dropout=0.5)
    assert phase.input_dropout_for(inputs=20, rows=100) == 0.5
    assert phase.input_dropout_for(inputs=20, rows=1000) == pytest.approx(0.05)
    assert PhaseSettings(embedding_dropout=0.5).input_dropout_for(inputs=1000, rows=10) == 0.0


def test_dropout_silences_embedding_values_while_training_only():
    plan = PhasePlan("compact", TrainingConfig(compact_phase=PhaseSettings(embedding_dropout=0.9)), 1, 4, 8, 1)
    learner = ClientLearner(np.ones((8, 4), np.float32), plan, RandomStreams(bytes(32), ("dropout",)))
    rows = np.arange(8)
    silent = learner.embed(rows, 0, training=True) == 0
    assert 0.5 < silent.mean() < 1
    assert not (learner.embed(rows, 0, training=False) == 0).any()


def test_dropout_silences_inputs_while_training_only():
    settings = PhaseSettings(hidden=(), embedding=2, embedding_activation="identity", input_dropout=0.9)
    plan = PhasePlan("compact", TrainingConfig(compact_phase=settings), 1, 40, 8, 1)
    learner = ClientLearner(np.ones((8, 40), np.float32), plan, RandomStreams(bytes(32), ("dropout",)))
    rows = np.arange(8)
    assert len(np.unique(learner.embed(rows, 0, training=True), axis=0)) == 8  # equal rows, other inputs left out
    assert len(np.unique(learner.embed(rows, 0, training=False), axis=0)) == 1

"""An estimate is an upper bound, and close to what a run that goes to the end really sends."""

from __future__ import annotations

import numpy as np
import pytest

from fedsdg.config import GateSettings, PenaltySettings, PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError
from fedsdg.estimate import estimate
from fedsdg.job import RunSettings
from fedsdg.simulation import PartyTables, simulate

STEPS = 4
LABELS = {
    "binary": lambda x: (x > 0).astype(int),
    "multiclass": lambda x: np.digitize(x, [-0.5, 0.5]),
    "regression": lambda x: 2 * x + 0.25,
}


def tables(task):
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(120, 4)), rng.normal(size=(120, 3))
    labels = LABELS[task](left[:, 0] + right[:, 1])
    return PartyTables(labels, {"left": FeatureTable.of(left), "right": FeatureTable.of(right)})


def training(**changes):
    """Settings under which no gate closes: the run goes to the end with all clients."""
    phase = PhaseSettings(steps=STEPS, batch_size=32)
    values = {
        "gated_phase": phase,
        "compact_phase": phase.model_copy(update={"outputs": 8}),
        "penalty": PenaltySettings(strength=0.0, embedding_strength=0.0),
        "validation": ValidationSettings(every=2, patience=None),
        "gates": GateSettings(input_rate=1e-6),
    }
    return TrainingConfig(**{**values, **changes})


CASES = {
    "the default": ("binary", training(), {}),
    "the paper's layer, no test rows": ("binary", training(interactive="elementwise"), {"test_fraction": 0.0}),
    "a linear model of three classes": ("multiclass", training(model="linear"), {}),
    "a last phase on all rows": ("binary", training(final_rows="all"), {}),
    "a wish, a regression, two draws": ("regression", training(n_features=7, mc_samples=2), {}),
    "protected labels, one phase, gates alike": (
        "binary",
        training(retrain=False, gates=GateSettings(initialization="constant", input_rate=1e-6)),
        {"label_epsilon": 3.0},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_messages_and_bytes_are_bounded_within_a_third_of_the_truth(case):
    task, config, more = CASES[case]
    data, settings = tables(task), RunSettings(training=config, **more)
    expected = estimate(data, settings)
    done = simulate(data, settings)
    assert all(len(losses) == STEPS for losses in done.result.losses.values())
    messages, size = sum(done.traffic.messages.values()), done.traffic.total
    assert messages <= expected.messages <= 1.3 * messages
    assert size <= expected.bytes <= 1.3 * size
    assert expected.messages == sum(phase.messages for phase in expected.phases)
    assert expected.seconds > 0
    assert expected.backend == done.federation.backend


def test_a_run_in_the_clear_sends_nothing():
    found = estimate(tables("binary"), RunSettings(profile="plain", training=training()))
    assert (found.messages, found.bytes, found.backend) == (0, 0, "none")
    assert found.phases[0].steps == 2 * STEPS


def test_an_estimate_refuses_what_a_run_would_refuse():
    data = tables("binary")
    with pytest.raises(ConfigError, match="n_features"):
        estimate(data, RunSettings(training=training(n_features=99)))
    with pytest.raises(DataError, match="single class"):
        estimate(PartyTables(np.ones(120), data.tables), RunSettings(training=training()))

"""FedSDGSelector behaves as scikit-learn users expect."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsdg import FedSDGSelector, TrainingConfig
from fedsdg.config import PhaseSettings, ValidationSettings
from fedsdg.errors import ConfigError

QUICK = TrainingConfig(
    gated_phase=PhaseSettings(steps=30, batch_size=32),
    compact_phase=PhaseSettings(steps=30, batch_size=32),
    validation=ValidationSettings(every=10),
)


@parametrize_with_checks([FedSDGSelector(training=QUICK)])
def test_the_selector_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    y = np.where(2 * X[:, 1] - 1.5 * X[:, 7] + 0.3 * rng.normal(size=400) > 0, "yes", "no")
    return X, y


@pytest.fixture(scope="module")
def fitted(data):
    return FedSDGSelector(parties={"bank": range(6), "shop": range(6, 12)}).fit(*data)


def test_it_finds_the_columns_that_matter(fitted, data):
    assert set(np.flatnonzero(fitted.get_support())) == {1, 7}
    assert fitted.transform(data[0]).shape == (400, 2)
    assert fitted.score(*data) > 0.85
    assert set(fitted.predict(data[0])) == {"yes", "no"}


def test_learned_attributes_tell_the_whole_story(fitted):
    assert fitted.scores_.shape == fitted.gate_probs_.shape == fitted.gini_scores_.shape == (12,)
    assert (fitted.scores_[[1, 7]] > 0).all()
    assert fitted.gini_scores_[1] < fitted.gini_scores_[0]
    assert fitted.result_.clients["bank"].selected == ("x1",)
    assert fitted.result_.profile == "plain"


def test_the_encrypted_profile_selects_the_same_features_and_predicts_the_same(data, test_key, monkeypatch):
    X, y = data
    few = TrainingConfig(
        gated_phase=PhaseSettings(steps=12, batch_size=64), compact_phase=PhaseSettings(steps=12, batch_size=64)
    )
    plain = FedSDGSelector(training=few).fit(X, y)
    masked = FedSDGSelector(training=few, profile="masked").fit(X, y)
    assert masked.result_.profile == "masked"
    assert masked.result_.key_bits == 2048
    assert masked.result_.bytes["total"] > 0
    np.testing.assert_array_equal(plain.scores_, masked.scores_)
    np.testing.assert_array_equal(plain.get_support(), masked.get_support())
    np.testing.assert_array_equal(plain.predict(X[:50]), masked.predict(X[:50]))


def test_it_works_in_a_pipeline_and_in_cross_validation(data):
    pipeline = make_pipeline(FedSDGSelector(training=QUICK, n_features=3), LogisticRegression())
    assert cross_val_score(pipeline, *data, cv=3).mean() > 0.7


def test_a_number_of_features_can_be_asked_for(data):
    assert FedSDGSelector(n_features=4).fit(*data).get_support().sum() == 4


def test_party_maps_are_checked(data):
    X, y = data
    with pytest.raises(ConfigError, match="held by 'a' and by 'b'"):
        FedSDGSelector(parties={"a": [0, 1], "b": [1]}).fit(X, y)
    with pytest.raises(ConfigError, match="no column 99"):
        FedSDGSelector(parties={"a": [99]}).fit(X, y)
    with pytest.raises(ConfigError, match="at least 1"):
        FedSDGSelector(parties=0).fit(X, y)


def test_regression_and_linear_models_work(data):
    X, _ = data
    target = 3 * X[:, 0] - 2 * X[:, 5]
    selector = FedSDGSelector(model="linear", parties=3).fit(X, target)
    assert {0, 5} <= set(np.flatnonzero(selector.get_support()))
    assert selector.score(X, target) > 0.9


def test_parties_can_be_given_by_column_names_and_probabilities_add_up(data):
    X, y = data
    names = [f"column {j}" for j in range(12)]
    frame = pl.DataFrame(dict(zip(names, X.T, strict=True)))
    selector = FedSDGSelector(parties={"bank": names[:6], "shop": names[6:]}, training=QUICK).fit(frame, y)
    assert list(selector.feature_names_in_) == names
    assert set(selector.result_.clients["bank"].gates) == set(names[:6])
    probabilities = selector.predict_proba(frame)
    assert probabilities.shape == (400, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (selector.classes_[probabilities.argmax(axis=1)] == selector.predict(frame)).all()


def test_a_row_gets_the_same_prediction_alone_and_among_others(fitted, data):
    X, _ = data
    whole = fitted.predict_proba(X)
    alone = np.concatenate([fitted.predict_proba(X[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(alone, whole[:20])
    np.testing.assert_array_equal(fitted.predict_proba(X[::-1])[::-1], whole)


@pytest.mark.parametrize("profile", ["plain", "masked"])
def test_a_saved_selector_is_the_same_when_it_is_loaded(profile, data, test_key, tmp_path):
    X, y = data
    few = TrainingConfig(
        gated_phase=PhaseSettings(steps=12, batch_size=64), compact_phase=PhaseSettings(steps=12, batch_size=64)
    )
    parties = {"bank": range(6), "shop": range(6, 12)}
    fitted = FedSDGSelector(parties=parties, training=few, profile=profile).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = FedSDGSelector.load(tmp_path / "model")
    named = pl.DataFrame(dict(zip([f"x{j}" for j in range(12)], X.T, strict=True)))
    np.testing.assert_array_equal(loaded.predict_proba(named), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(named), fitted.predict(X))
    np.testing.assert_array_equal(loaded.get_support(), fitted.get_support())
    np.testing.assert_array_equal(loaded.scores_, fitted.scores_)
    assert loaded.result_ == fitted.result_
    with pytest.raises(ConfigError, match="exists"):
        fitted.save(tmp_path / "model")

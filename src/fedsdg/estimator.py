"""`FedSDGSelector`: the method behind scikit-learn's interface, one X plus a map from parties to columns.

All parties live in one process here, so there is no secrecy to keep and the default profile is `plain`: the same
integers, the same selection, without the cost of encryption. `profile="masked"` runs the real protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsdg.api import describe
from fedsdg.config import Interactive, PenaltySettings, Task, TrainingConfig
from fedsdg.data.feature_table import FeatureTable
from fedsdg.data.vertical_split import split_columns
from fedsdg.errors import ConfigError
from fedsdg.job import Profile, RunSettings
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.prediction import Model
from fedsdg.run_folder import read_result, write_finished
from fedsdg.simulation import SERVER, PartyTables, simulate

Parties = int | Mapping[str, Sequence[int] | Sequence[str]]


class FedSDGSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select features with stochastic dual gates, as several parties would.

    Parameters
    ----------
    parties : int or dict, default=2
        Number of parties among which the columns are dealt at random, or a map from party names to columns
        (positions, or names if X has them). Columns that nobody holds are left out.
    task : {"auto", "binary", "multiclass", "regression"}, default="auto"
        What the labels are.
    profile : {"plain", "masked"}, default="plain"
        In the clear, or with the encrypted protocol. Both select the same features.
    key_bits : int, default=2048
        Paillier key size of `masked`.
    penalty : "auto" or float, default="auto"
        A rising penalty whose best point validation chooses, or the end of a ramp.
    n_features : int, default=None
        Select exactly this many features.
    interactive : {"dense", "elementwise"}, default="dense"
        The interactive layer.
    model : {"mlp", "linear"}, default="mlp"
        Neural network, or logistic / linear regression.
    label_epsilon : float, default=None
        Randomised response on the labels.
    training : TrainingConfig, default=None
        Every other setting; the parameters above win over it.
    bottom_models : dict, default=None
        A function per party that builds its own `torch.nn.Module` from (inputs, outputs).
    random_state : int, RandomState or None, default=0
        Seeds of all parties.

    Attributes
    ----------
    scores_ : ndarray
        Final gate means; selected means above 0.
    gate_probs_ : ndarray
        Probability that a gate is open.
    gini_scores_ : ndarray
        Gini score of every column (NaN where none was computed).
    result_ : SelectionResult
        Everything about the run.
    parties_ : dict
        Columns of each party.

    Notes
    -----
    `save` writes a run folder, as `fedsdg run` does; `load` reads either. One row cannot be fitted.
    """

    def __init__(
        self,
        parties: Parties = 2,
        *,
        task: Task = "auto",
        profile: Profile = "plain",
        key_bits: int = 2048,
        penalty: float | Literal["auto"] = "auto",
        n_features: int | None = None,
        interactive: Interactive = "dense",
        model: Literal["mlp", "linear"] = "mlp",
        label_epsilon: float | None = None,
        training: TrainingConfig | None = None,
        bottom_models: Mapping[str, BottomModelFactory] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.parties = parties
        self.task = task
        self.profile = profile
        self.key_bits = key_bits
        self.penalty = penalty
        self.n_features = n_features
        self.interactive = interactive
        self.model = model
        self.label_epsilon = label_epsilon
        self.training = training
        self.bottom_models = bottom_models
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> FedSDGSelector:
        """Select features of X that explain y."""
        checked: tuple[NDArray[np.float64], NDArray[np.generic]] = validate_data(
            self, X, y, dtype=np.float64, ensure_min_samples=2, y_numeric=self.task == "regression"
        )
        matrix, labels = checked
        if self.task in ("binary", "multiclass"):
            check_classification_targets(labels)
        if self.task == "auto" and type_of_target(labels) == "unknown":
            raise ValueError(f"Unknown label type: {type_of_target(labels)}")
        stream = check_random_state(self.random_state)
        seed = int(stream.randint(0, 2**31 - 1))
        self.parties_ = self._columns_of_parties(matrix.shape[1], seed)
        settings = self._settings(seed)
        names = self._column_names(matrix.shape[1])
        tables = {
            party: FeatureTable.of(matrix[:, columns], [names[c] for c in columns], party)
            for party, columns in self.parties_.items()
        }
        # Drawn apart from the joint seed, which every party knows: private seeds must not follow from it.
        seeds = {name: stream.bytes(32) for name in (SERVER, *tables)}
        self.simulation_ = simulate(
            PartyTables(labels, tables), settings, private_seeds=seeds, bottom_models=self.bottom_models
        )
        self.result_ = describe(self.simulation_)
        self.model_ = self.simulation_.model()
        self._collect(matrix.shape[1])
        return self

    def save(self, folder: str | Path) -> None:
        """Write the fitted model as a run folder: one subfolder per party, nothing overwritten."""
        check_is_fitted(self)
        if not hasattr(self, "simulation_"):
            raise ConfigError("This selector was loaded; its run folder exists already.")
        write_finished(Path(folder), self.simulation_, self.result_)

    @classmethod
    def load(cls, folder: str | Path) -> FedSDGSelector:
        """Load a finished run: the columns of X are then those of all clients, client by client, in their own order."""
        model, result = Model.load(folder), read_result(Path(folder))
        names = [column for client in result.clients.values() for column in client.gates]
        if len(set(names)) < len(names):  # two parties use one name
            names = [f"{party}.{column}" for party, client in result.clients.items() for column in client.gates]
        ends = np.cumsum([client.n_features for client in result.clients.values()])
        starts = [0, *ends[:-1].tolist()]
        parties = {
            party: list(range(start, int(end))) for party, start, end in zip(result.clients, starts, ends, strict=True)
        }
        selector = cls(parties=parties, profile="masked" if model.server.masked else "plain")
        selector.model_, selector.result_ = model, result
        selector.parties_ = {party: np.array(columns, np.int64) for party, columns in parties.items()}
        selector.n_features_in_ = len(names)
        selector.feature_names_in_ = np.array(names, dtype=object)
        selector._collect(len(names))
        return selector

    def _collect(self, n_columns: int) -> None:
        self.scores_ = np.full(n_columns, -np.inf)
        self.gate_probs_ = np.zeros(n_columns)
        self.gini_scores_ = np.full(n_columns, np.nan)
        self.support_ = np.zeros(n_columns, bool)
        for party, columns in self.parties_.items():
            of_client = self.result_.clients[party]
            self.scores_[columns] = list(of_client.gates.values())
            self.gate_probs_[columns] = list(of_client.gate_probabilities.values())
            if of_client.gini:
                self.gini_scores_[columns] = list(of_client.gini.values())
            chosen = set(of_client.selected)
            self.support_[columns] = [column in chosen for column in of_client.gates]
        if self.model_.objective.classes is not None:
            self.classes_ = self.model_.objective.classes

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Predict with the model that was trained along with the selection."""
        tables = self._tables(X)  # first, since it checks that the estimator is fitted
        return self.model_.predict(tables)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return class probabilities."""
        tables = self._tables(X)
        return np.asarray(self.model_.probabilities(tables), np.float64)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return accuracy, or R squared for a regression."""
        predicted = self.predict(X)
        regression = self.model_.objective.task == "regression"
        return float(r2_score(y, predicted) if regression else accuracy_score(y, predicted))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def _tables(self, X: ArrayLike) -> dict[str, FeatureTable]:
        check_is_fitted(self)
        for saved in self.model_.parts.values():
            coded = [] if saved.part is None else [f.name for f in saved.part.encoder.features if f.kind != "number"]
            if coded:
                raise ConfigError(
                    f"The model reads {coded[0]!r}, which is no number: an array cannot hold it. Score rows with "
                    "fedsdg.predict."
                )
        matrix = validate_data(self, X, dtype=np.float64, reset=False)
        return {
            party: FeatureTable(tuple(self.result_.clients[party].gates), matrix[:, columns])
            for party, columns in self.parties_.items()
        }

    def _column_names(self, n_columns: int) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"x{j}" for j in range(n_columns)]

    def _columns_of_parties(self, n_columns: int, seed: int) -> dict[str, NDArray[np.int64]]:
        if isinstance(self.parties, Mapping):
            return _named_parties(self.parties, self._column_names(n_columns))
        if not isinstance(self.parties, (int, np.integer)) or self.parties < 1:
            raise ConfigError(f"parties must be a number of at least 1 or a map of columns, not {self.parties!r}")
        count = min(int(self.parties), n_columns)
        dealt = split_columns(n_columns, count, seed)
        return {f"party_{i + 1}": np.asarray(columns) for i, columns in enumerate(dealt)}

    def _settings(self, seed: int) -> RunSettings:
        base = self.training or TrainingConfig()
        penalty = base.penalty
        if self.penalty != "auto":
            penalty = PenaltySettings(**{**penalty.model_dump(), "strength": self.penalty})
        training = base.with_changes(
            task=self.task,
            n_features=self.n_features if self.n_features is not None else base.n_features,
            interactive=self.interactive,
            model=self.model,
            penalty=penalty,
            seed=seed,
        )
        return RunSettings(
            profile=self.profile,
            key_bits=self.key_bits,
            label_epsilon=self.label_epsilon,
            test_fraction=0.0,
            training=training,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = False
        return tags


def _named_parties(parties: Mapping[str, Any], names: list[str]) -> dict[str, NDArray[np.int64]]:
    position = {name: j for j, name in enumerate(names)}
    out: dict[str, NDArray[np.int64]] = {}
    seen: dict[int, str] = {}
    for party, columns in parties.items():
        chosen = []
        for column in columns:
            j = position.get(column) if isinstance(column, str) else int(column)
            if j is None or not 0 <= j < len(names):
                raise ConfigError(f"parties[{party!r}]: there is no column {column!r}")
            if j in seen:
                raise ConfigError(f"column {column!r} is held by {seen[j]!r} and by {party!r}; deal it to one of them")
            seen[j] = party
            chosen.append(j)
        if not chosen:
            raise ConfigError(f"parties[{party!r}] holds no column")
        out[party] = np.array(chosen, np.int64)
    if not out:
        raise ConfigError("parties is empty: at least one party must hold columns")
    return out

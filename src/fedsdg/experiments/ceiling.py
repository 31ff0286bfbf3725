"""The ceiling: the best of a few known-good centralised models, with all columns in one place and nothing secret.

Candidates are compared by cross-validation inside the fold's training rows; the winner is fitted to all of them and
scored once on the test rows. What a vertical model loses against it is the price of the setting, not of the selection.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel, SelectPercentile, f_classif
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from fedsdg.experiments.cell import Cell, Row

INNER_FOLDS = 3
FEW = 20
COMPONENTS = 5
MOSTLY_ZERO = 0.8


def measure_ceiling(cell: Cell) -> Row:
    """Return the score of the best centralised model on the fold's test rows, and which it was."""
    features, labels = cell.data.X, cell.data.y
    fit, test = cell.fit_rows, cell.test_rows
    regression = cell.data.task == "regression"
    candidates = regressors(cell.seed, cell.data.n_columns) if regression else classifiers(cell.seed, features[fit])
    inner = (KFold if regression else StratifiedKFold)(INNER_FOLDS, shuffle=True, random_state=cell.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = {
            name: float(cross_val_score(model, features[fit], labels[fit], cv=inner).mean())
            for name, model in candidates.items()
        }
        best = max(scores, key=lambda name: -math.inf if math.isnan(scores[name]) else scores[name])
        value = float(candidates[best].fit(features[fit], labels[fit]).score(features[test], labels[test]))
    return {
        "r2" if regression else "accuracy": value,
        "model": best,
        "validation": scores[best],
        "selected": cell.data.n_columns,
        "ratio": 1.0,
        "precision": None,
        "recall": None,
        "embedding_open": None,
        "bytes": None,
    }


def classifiers(seed: int, features: NDArray[np.float64]) -> dict[str, Pipeline | VotingClassifier]:
    """Return candidates for classes: those of texts for word counts, others for everything else."""
    if (features >= 0).all() and (features == 0).mean() >= MOSTLY_ZERO:
        logarithms = FunctionTransformer(np.log1p)
        return {
            "linear SVM, unit rows": make_pipeline(logarithms, Normalizer(), LinearSVC(C=1.0, random_state=seed)),
            "naive Bayes": make_pipeline(logarithms, MultinomialNB(alpha=0.1)),
            "naive Bayes, half of the words by F": make_pipeline(
                logarithms, SelectPercentile(f_classif, percentile=50), MultinomialNB(alpha=0.1)
            ),
            "logistic regression and naive Bayes, averaged": VotingClassifier(
                [
                    ("regression", make_pipeline(logarithms, Normalizer(), LogisticRegression(C=30.0, max_iter=300))),
                    ("bayes", make_pipeline(logarithms, MultinomialNB(alpha=0.1))),
                ],
                voting="soft",
            ),
            "RBF SVM, unit rows": make_pipeline(logarithms, Normalizer(), SVC(C=10.0)),
        }
    few = min(FEW, features.shape[1])
    trees = ExtraTreesClassifier(200, random_state=seed, n_jobs=1)
    return {
        "linear SVM, unit rows": make_pipeline(Normalizer(), LinearSVC(C=100.0, random_state=seed)),
        "RBF SVM, unit rows": make_pipeline(Normalizer(), SVC(C=10.0)),
        "RBF SVM, standardised": make_pipeline(StandardScaler(), SVC(C=10.0)),
        "10 neighbours, 20 columns by trees": make_pipeline(
            StandardScaler(), _best_by(trees, few), KNeighborsClassifier(10)
        ),
        "RBF SVM, 5 whitened components of 20 columns by trees": make_pipeline(
            StandardScaler(), _best_by(trees, few), PCA(min(COMPONENTS, few), whiten=True), SVC(C=10.0)
        ),
        "200 extra trees": make_pipeline(FunctionTransformer(), trees),
    }


def regressors(seed: int, n_columns: int) -> dict[str, Pipeline]:
    """Return candidates for a regression."""
    trees = ExtraTreesRegressor(200, max_features=1 / 3, random_state=seed, n_jobs=1)
    return {
        "Gaussian process, 5 columns by trees": make_pipeline(
            StandardScaler(),
            _best_by(trees, min(5, n_columns)),
            _gaussian_process(min(5, n_columns)),
        ),
        "lasso": make_pipeline(StandardScaler(), LassoCV(cv=3, random_state=seed)),
        "200 extra trees": make_pipeline(FunctionTransformer(), trees),
    }


def _best_by(trees: BaseEstimator, count: int) -> SelectFromModel:
    """Keep the columns that trees use most: unlike a filter, they see columns that matter together."""
    return SelectFromModel(trees, max_features=count, threshold=-np.inf)


def _gaussian_process(n_columns: int) -> GaussianProcessRegressor:
    return GaussianProcessRegressor(
        RBF(np.ones(n_columns)) + WhiteKernel(0.1), normalize_y=True, n_restarts_optimizer=0
    )

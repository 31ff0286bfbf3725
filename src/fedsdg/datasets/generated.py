"""Generated data sets under the registry's names, with known truth."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_friedman1

from fedsdg.datasets.dataset import DataSet, make
from fedsdg.datasets.synthetic import friedman_like, madelon_like


def friedman() -> DataSet:
    """FRIEDMAN as the reports use it: 1,000 rows, 5 of 1,000 columns matter, noise 1, columns shuffled.

    The paper names neither its generator nor its noise; scikit-learn's with unit noise is our choice.
    """
    features, target = make_friedman1(n_samples=1000, n_features=1000, noise=1.0, random_state=0)
    places = np.random.default_rng(0).permutation(1000)  # original column j goes to places[j]
    shuffled = np.empty_like(features)
    shuffled[:, places] = features
    return make(
        "FRIEDMAN",
        shuffled.astype(np.float32),
        target.astype(np.float32),
        "sklearn.datasets.make_friedman1(1000, 1000, noise=1.0, random_state=0), columns shuffled",
        truth=places[:5],
        regression=True,
    )


def madelon_like_set() -> DataSet:
    """MADELON's recipe with clearer clusters: 2,600 rows, 20 of 500 columns matter."""
    made = madelon_like(2600, 500, seed=0)
    return make(
        "MADELON_LIKE",
        made.features,
        np.asarray(made.labels),
        "fedsdg.datasets.synthetic.madelon_like(2600, 500, seed=0)",
        truth=np.flatnonzero(made.relevant),
    )


def friedman_like_set() -> DataSet:
    """Friedman's regression with our own generator: 1,000 rows, 5 of 1,000 columns matter."""
    made = friedman_like(1000, 1000, seed=0)
    return make(
        "FRIEDMAN_LIKE",
        made.features,
        np.asarray(made.labels),
        "fedsdg.datasets.synthetic.friedman_like(1000, 1000, seed=0)",
        truth=np.flatnonzero(made.relevant),
        regression=True,
    )

"""Small real data sets that come with scikit-learn: no download, for a quick look."""

from __future__ import annotations

import numpy as np
from sklearn import datasets as sklearn_datasets

from fedsdg.datasets.dataset import DataSet, make


def breast_cancer() -> DataSet:
    """569 tumours, 30 measurements, 2 classes."""
    return _table("BREAST_CANCER", "load_breast_cancer")


def wine() -> DataSet:
    """178 wines, 13 measurements, 3 classes."""
    return _table("WINE", "load_wine")


def digits() -> DataSet:
    """1,797 images of 8 x 8 pixels, 10 classes."""
    return _table("DIGITS", "load_digits", image_shape=(8, 8))


def diabetes() -> DataSet:
    """442 patients, 10 measurements, a regression."""
    return _table("DIABETES", "load_diabetes", regression=True)


def _table(name: str, function: str, image_shape: tuple[int, int] | None = None, regression: bool = False) -> DataSet:
    loaded = getattr(sklearn_datasets, function)()
    return make(
        name,
        np.asarray(loaded.data),
        np.asarray(loaded.target),
        f"sklearn.datasets.{function}",
        feature_names=tuple(str(column) for column in loaded.feature_names),
        image_shape=image_shape,
        regression=regression,
    )

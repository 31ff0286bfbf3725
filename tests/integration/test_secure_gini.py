"""Algorithm 1 under encryption equals the plaintext reference, whatever the columns and the classes."""

from __future__ import annotations

import numpy as np
import pytest

from fedsdg.client.gini_initialization import mask_counts, unmask_scores
from fedsdg.config import BinningSettings
from fedsdg.crypto import Decryptor, Encryptor, Evaluator
from fedsdg.data.binning import bin_columns
from fedsdg.errors import DoesNotFit
from fedsdg.learning.gini import class_counts, exact_gini, gini_scores
from fedsdg.messages.gini_initialization import CountLabels
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.server.gini_initialization import initialise_by_gini


class OneClient:
    """A channel to one client that knows Algorithm 1 and nothing else; it counts the messages."""

    def __init__(self, binning, layout, key) -> None:
        self.binning, self.layout, self.evaluator = binning, layout, Evaluator(key.public_key)
        self.messages = 0
        self.scores = None

    def exchange(self, requests):
        self.messages += len(requests)
        replies = {}
        for name, request in requests.items():
            if isinstance(request, CountLabels):
                replies[name], self.pending = mask_counts(request.indicators, self.binning, self.layout, self.evaluator)
            else:
                self.scores = unmask_scores(self.pending, request.sums, self.evaluator)
        return replies


def run_secure(values, labels, n_classes, key, bins=10):
    binning = bin_columns(values, BinningSettings(bins=bins))
    layout = GiniLayout(len(labels), values.shape[1], bins, n_classes, key.public_key.bits, 64)
    encryptor = Encryptor(key)
    client = OneClient(binning, layout, key)
    initialise_by_gini(client, {"c": layout}, labels, n_classes, encryptor, Decryptor(encryptor))
    return client, binning


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_secure_scores_equal_the_reference_and_the_exact_ones(test_key, n_classes):
    rng = np.random.default_rng(n_classes)
    labels = rng.integers(0, n_classes, 150)
    values = rng.normal(size=(150, 12))
    values[:, 0] += labels  # informative
    values[:, 1] = 4.0  # constant
    values[:, 2] = labels  # tells everything
    values[:, 3] = rng.integers(0, 4, 150)  # categorical: by value
    values[:, 4] = (rng.random(150) < 0.1) * rng.integers(1, 9, 150)  # sparse: absent or present
    client, binning = run_secure(values, labels, n_classes, test_key)
    reference = gini_scores(binning, labels, n_classes)
    np.testing.assert_array_equal(client.scores.scores, reference.scores)
    assert client.scores.label_impurity == reference.label_impurity
    for column, n_bins in enumerate(binning.n_bins):
        exact = float(exact_gini(class_counts(binning.codes[:, column], n_bins, labels, n_classes)))
        assert abs(client.scores.scores[column] - exact) < 2e-6


def test_thousands_of_columns_need_no_more_messages(test_key):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    values = (rng.random((60, 5000)) < 0.3).astype(float)
    client, binning = run_secure(values, labels, 2, test_key, bins=2)
    assert client.messages == 2
    assert len(list(client.layout.chunks())) > 1  # worked off in pieces, so memory stays bounded
    np.testing.assert_array_equal(client.scores.scores, gini_scores(binning, labels, 2).scores)


def test_a_layout_that_does_not_fit_the_key_is_refused():
    with pytest.raises(DoesNotFit):
        GiniLayout(n_rows=10**9, n_columns=1, n_bins=2, n_classes=2, key_bits=90, sigma=64)

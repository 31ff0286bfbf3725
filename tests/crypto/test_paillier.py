import numpy as np
import pytest


def test_what_is_encrypted_comes_back(party):
    n = int(party.n)
    values = [0, 1, 2, n - 1, n // 2, -1, -(n // 2)]
    assert party.receive(party.send(values, (7,))) == [v % n for v in values]


def test_signed_dot_products_are_exact(party):
    rng = np.random.default_rng(3)
    m = rng.integers(-(2**40), 2**40, (3, 5)).tolist()
    w = np.array([[int(v) << 60 for v in row] for row in rng.integers(-9, 9, (5, 4)).tolist()], object)
    result = party.evaluator.dot(party.send([v for row in m for v in row], (3, 5)), w)
    expected = (np.array(m, object) @ w).ravel()
    assert party.receive(result) == [int(v) % int(party.n) for v in expected]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 1), (2, 1, 9)])
def test_dot_products_of_one_row_or_one_column(party, shape):
    blocks, length, outputs = shape
    m = list(range(1, blocks * length + 1))
    w = np.arange(length * outputs).reshape(length, outputs) - 3
    expected = (np.array(m).reshape(blocks, length) @ w).ravel()
    assert party.receive(party.evaluator.dot(party.send(m, (blocks, length)), w)) == [
        int(v) % int(party.n) for v in expected
    ]

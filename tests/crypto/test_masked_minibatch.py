"""One masked mini-batch is exact for every layout and shape, at the worst case, and sends what the planner counted."""

import numpy as np
import pytest

from fedsdg.benchmarks import masked_minibatch
from fedsdg.benchmarks.masked_minibatch import Clock, Keys, MaskedMinibatch
from fedsdg.client import interactive_share
from fedsdg.crypto import ValueBits, plan_minibatch
from fedsdg.crypto.nonces import OwnerNonces, PublicNonces
from fedsdg.crypto.paillier import Decryptor
from fedsdg.server.noisy_weights import DenseNoisyWeights, ElementwiseNoisyWeights

NARROW = ValueBits(embedding=6, gradient=7, step=6, weight=8, sigma=40)
SHAPES = [(1, 1, 1), (1, 3, 2), (5, 1, 1), (4, 1, 3), (3, 4, 1), (9, 5, 4), (17, 9, 3), (8, 20, 2)]
HEADER = 4 + 1 + 1 + 16 + 2 * 4
MESSAGES = 6

_keys: dict[tuple[int, str], Keys] = {}


@pytest.fixture
def keys(key_of, test_key, real_key, backend):
    def find(bits: int) -> Keys:
        if (bits, backend) not in _keys:
            server = {512: test_key, 2048: real_key}.get(bits) or key_of(bits)
            _keys[bits, backend] = Keys(key_of(bits), server, backend)
        return _keys[bits, backend]

    return find


def run(plan, keys) -> set[int]:
    """Run two steps; every product is checked inside. Returns the bytes that each sent."""
    job = MaskedMinibatch(plan, keys)
    return {job.step(Clock()), job.step(Clock())}


def counted(plan) -> set[int]:
    return {sum(plan.work.wire_bytes(plan.key_bits)) + MESSAGES * HEADER}


@pytest.mark.parametrize("gradient", ["columns", "reversed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_is_exact_and_sends_what_was_planned(keys, shape, gradient):
    plan = plan_minibatch(512, *shape, gradient=gradient)
    assert run(plan, keys(512)) == counted(plan)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 3, 2), (6, 2, 5)])
def test_a_step_is_exact_under_the_smallest_key(keys, shape):
    plan = plan_minibatch(256, *shape)
    assert run(plan, keys(256)) == counted(plan)


@pytest.mark.parametrize("gradient", ["columns", "reversed"])
@pytest.mark.parametrize("shape", [(9, 2, 3), (10, 1, 1), (11, 3, 2)])
def test_several_samples_per_result_are_exact(keys, shape, gradient):
    plan = plan_minibatch(512, *shape, NARROW, gradient)
    slots = (plan.forward, plan.update, plan.backward)
    from fedsdg.crypto import layouts

    for m in (2, 3, min(shape[0], plan.backward.capacity // shape[1])):
        several = layouts._plan(512, *shape, NARROW, slots, gradient, m)
        assert run(several, keys(512)) == counted(several)


@pytest.mark.parametrize("gradient", ["columns", "reversed"])
def test_a_step_of_a_real_size_is_exact(keys, backend, gradient):
    shape = (128, 8, 4) if backend == "native" else (40, 6, 3)
    plan = plan_minibatch(2048, *shape, gradient=gradient)
    assert MaskedMinibatch(plan, keys(2048)).step(Clock()) in counted(plan)


class WorstCase:
    """Everything at its maximum: data and weights at one end, shares at their two ends in turn.

    So the difference of two shares, E' - E, is as large as it gets.
    """

    def __init__(self, values: ValueBits, of_data: int, of_weights: int, of_shares: int) -> None:
        self.weight_bits, self.of_data, self.of_weights, self.end = values.weight, of_data, of_weights, of_shares

    def data(self, rows, columns, bits):
        sign = self.of_weights if bits == self.weight_bits else self.of_data
        return np.full((rows, columns), sign * ((1 << bits) - 1))

    def shares(self, bits, count):
        self.end = -self.end
        return [(1 << bits) - 1 if self.end > 0 else -(1 << bits)] * count


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, 1), (-1, 1, -1), (-1, -1, -1)])
@pytest.mark.parametrize("gradient", ["columns", "reversed"])
@pytest.mark.parametrize(("shape", "values"), [((4, 4, 2), ValueBits()), ((8, 2, 4), NARROW), ((1, 1, 1), ValueBits())])
def test_a_step_is_exact_when_every_value_is_at_its_maximum(keys, monkeypatch, shape, values, gradient, signs):
    worst = WorstCase(values, *signs)
    monkeypatch.setattr(masked_minibatch, "_random", worst.data)
    monkeypatch.setattr(interactive_share, "signed", worst.shares)
    plan = plan_minibatch(512, *shape, values, gradient)
    assert run(plan, keys(512)) == counted(plan)


@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, -1), None])
@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (9, 4), (17, 1)])
def test_an_elementwise_step_is_exact_for_random_and_for_extreme_values(keys, monkeypatch, shape, signs):
    values, (batch, d) = ValueBits(), shape
    worst = WorstCase(values, *(signs or (1, 1, 1)))
    draw = worst.data if signs else masked_minibatch._random
    if signs:
        monkeypatch.setattr(interactive_share, "signed", worst.shares)
    W = draw(1, d, values.weight)[0]
    G, D, D_step = (draw(batch, d, bits) for bits in (values.embedding, values.gradient, values.step))
    client = interactive_share.ElementwiseShare(W, values, keys(512).of_client)
    server = ElementwiseNoisyWeights(client.first_noisy_weights, values, keys(512).of_server)
    nothing = np.zeros(shape, np.int64)
    sent = client.embed(G, training=True)
    Z = server.unmask(client.remove(server.weigh(sent.by_column, batch), nothing))
    c2, c3 = server.weight_gradient(sent.by_sample, D_step), server.embedding_gradient(sent.share, D, nothing)
    assert client.gradient(c3).tolist() == (D.astype(object) * W).tolist()
    server.update(client.update(c2))
    assert Z.tolist() == (G.astype(object) * W).tolist()
    assert (server.noisy - client.share).tolist() == (W - (G.astype(object) * D_step).sum(axis=0)).tolist()


@pytest.mark.parametrize("gradient", ["columns", "reversed"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 5, 4), (17, 9, 3)])
def test_encryptions_and_decryptions_are_as_many_as_planned(keys, monkeypatch, shape, gradient):
    done = {"owner": 0, "public": 0, "decrypted": 0}

    def count(cls, method, name, size):
        original = getattr(cls, method)

        def counting(self, argument):
            done[name] += size(argument)
            return original(self, argument)

        monkeypatch.setattr(cls, method, counting)

    count(OwnerNonces, "_compute", "owner", int)
    count(PublicNonces, "_compute", "public", int)
    count(Decryptor, "decrypt", "decrypted", lambda array: array.size)
    plan = plan_minibatch(512, *shape, gradient=gradient)
    MaskedMinibatch(plan, keys(512)).step(Clock())
    work = plan.work
    assert done == {
        "owner": work.owner_encryptions,
        "public": work.public_encryptions,
        "decrypted": work.decryptions,
    }


def test_a_wrong_product_is_noticed(keys, monkeypatch):
    original = DenseNoisyWeights.unmask
    monkeypatch.setattr(DenseNoisyWeights, "unmask", lambda self, values: original(self, values) + 1)
    with pytest.raises(AssertionError, match="not exact"):
        MaskedMinibatch(plan_minibatch(512, 3, 2, 2), keys(512)).step(Clock())

"""The planner: never costlier than the alternatives, honest about what fits, and exact about counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.crypto import ValueBits, plan_minibatch
from fedsdg.crypto.layouts import KernelProducts, plan_elementwise
from fedsdg.errors import ConfigError, DoesNotFit

SIZES = st.tuples(st.sampled_from([512, 1024, 2048, 3072]), st.integers(1, 200), st.integers(1, 64), st.integers(1, 40))


def cost(plan) -> float:
    return plan.work.kernel_products(plan.key_bits).weighted


@given(shape=SIZES)
def test_the_chosen_plan_is_never_costlier_than_a_prescribed_layout(shape):
    chosen = plan_minibatch(*shape)
    others = [plan_minibatch(*shape, gradient=layout) for layout in ("columns", "reversed")]
    assert cost(chosen) == min(cost(other) for other in others)
    assert [other.gradient for other in others] == ["columns", "reversed"]


@given(shape=SIZES)
def test_one_sample_per_result_is_never_cheaper_than_the_chosen_number(shape):
    from fedsdg.crypto import layouts

    chosen = plan_minibatch(*shape)
    slots = (chosen.forward, chosen.update, chosen.backward)
    for gradient in ("columns", "reversed"):
        for m in range(1, min(chosen.batch, max(1, chosen.backward.capacity // chosen.columns)) + 1):
            assert cost(layouts._plan(*shape, chosen.values, slots, gradient, m)) >= cost(chosen)


@given(shape=SIZES)
def test_every_slot_holds_its_worst_case(shape):
    _, batch, columns, outputs = shape
    plan = plan_minibatch(*shape)
    v = plan.values
    g, d, s, w = (2**b - 1 for b in (v.embedding, v.gradient, v.step, v.weight))
    assert columns * g * w < 1 << (plan.forward.width - 2)
    assert outputs * d * w < 1 << (plan.backward.width - 2)
    assert 2 * 2**v.share + batch * g * s < 1 << (plan.update.width - 1)  # guard_bits=1 there
    assert plan.samples_per_result * columns <= plan.backward.capacity or plan.samples_per_result == 1
    assert 1 <= plan.samples_per_result <= batch
    for layout in (plan.forward, plan.update, plan.backward):
        assert layout.width * layout.capacity <= plan.key_bits - 1


@given(shape=SIZES)
def test_blocks_cover_what_they_stand_for(shape):
    plan = plan_minibatch(*shape)
    assert plan.forward_blocks[-1].stop == plan.batch
    assert plan.backward_blocks[-1].stop == plan.columns
    assert plan.update_blocks[-1].stop == (plan.columns if plan.gradient == "columns" else plan.outputs)
    if plan.samples_per_result > 1:
        assert len(plan.backward_blocks) == 1


@pytest.mark.parametrize("shape", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, 1, 1)])
def test_nothing_to_compute_is_refused(shape):
    with pytest.raises(ConfigError):
        plan_minibatch(2048, *shape)


@pytest.mark.parametrize(
    ("bits", "values"),
    [
        (256, ValueBits(weight=300)),
        (256, ValueBits(sigma=250)),
        (256, ValueBits(embedding=200, weight=60)),
        (512, ValueBits(embedding=60, step=60, weight=40, sigma=40)),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(bits, values):
    with pytest.raises(DoesNotFit):
        plan_minibatch(bits, 8, 8, 8, values)


def test_an_update_as_wide_as_the_share_fits_and_one_bit_more_does_not():
    fits = ValueBits(embedding=40, step=40, weight=40, sigma=43)
    assert plan_minibatch(512, 8, 2, 2, fits).update.width == 86
    with pytest.raises(DoesNotFit, match="share"):
        plan_minibatch(512, 9, 2, 2, fits)


def test_the_defaults_give_the_widths_of_the_design():
    plan = plan_minibatch(2048, 128, 32, 16)
    assert (plan.forward.width, plan.update.width, plan.backward.width) == (63, 107, 62)
    assert (plan.forward.capacity, plan.update.capacity, plan.backward.capacity) == (32, 19, 33)


def test_weights_of_kernel_products_are_those_of_their_digits():
    products = KernelProducts(1, 2, 4, 8)
    assert products.weighted == 1 + 1.4 + 1 + 1.4
    assert products.digit_products(40, 20) == 16000 + 2 * 11240 + 4 * 4000 + 8 * 2820


@given(shape=SIZES)
def test_every_slot_of_the_elementwise_layer_holds_its_worst_case(shape):
    bits, batch, columns, _ = shape
    v = ValueBits()
    plan = plan_elementwise(bits, batch, columns, v)
    g, d, s, w = (2**b - 1 for b in (v.embedding, v.gradient, v.step, v.weight))
    assert g * w < 1 << (plan.forward.width - 2)
    assert d * w < 1 << (plan.backward.width - 2)
    assert 2 * 2**v.share + batch * g * s < 1 << (plan.update.width - 1)
    assert plan.samples_per_result * columns <= plan.backward.capacity or plan.samples_per_result == 1
    assert plan.forward_blocks[-1].stop == batch
    assert plan.update_blocks[-1].stop == plan.backward_blocks[-1].stop == columns


def test_an_elementwise_layer_of_nothing_or_too_wide_is_refused():
    for batch, columns in ((0, 1), (1, 0)):
        with pytest.raises(ConfigError):
            plan_elementwise(512, batch, columns, ValueBits())
    with pytest.raises(DoesNotFit):
        plan_elementwise(512, 8, 8, ValueBits(embedding=60, step=60, weight=40, sigma=40))

"""Claims about the interactive layer: exact in integers, and never wrapping around."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsdg.config import FixedPointSettings
from fedsdg.errors import ConfigError, DataError, SlotOverflow
from fedsdg.learning.fixed_point_layer import (
    DenseLayer,
    ElementwiseLayer,
    build_layer,
    exact_matmul,
    quantize,
    require_slots,
)

FIXED = FixedPointSettings()


def integers(shape, bits):
    """Arrays of |x| < 2**bits that like their extremes."""
    top = (1 << bits) - 1
    elements = st.one_of(st.sampled_from([top, -top, 0, 1, -1]), st.integers(-top, top))
    return hnp.arrays(np.int64, shape, elements=elements)


def by_python_integers(left, right):
    return left.astype(object) @ right.astype(object)


@st.composite
def dense_problems(draw):
    rows, width, outputs = draw(st.integers(1, 5)), draw(st.integers(1, 9)), draw(st.integers(1, 4))
    return (
        draw(integers((rows, width), FIXED.embedding_bits)),
        draw(integers((width, outputs), FIXED.weight_bits)),
        draw(integers((rows, outputs), FIXED.gradient_bits)),
        draw(integers((rows, outputs), 20)),
        draw(integers((rows, outputs), FIXED.forward_dither_bits)),
        draw(integers((rows, width), FIXED.backward_dither_bits)),
    )


@given(dense_problems())
def test_the_dense_layer_equals_python_integers(problem):
    G, W, D, _, tau, tau2 = problem
    # One bit of head room: at the extreme of every value the dither alone may leave the slot.
    layer = DenseLayer(W // 2, FIXED)
    assert np.array_equal(layer.forward(G, tau), by_python_integers(G, W // 2) + tau)
    assert np.array_equal(layer.backward(D, tau2), by_python_integers(D, (W // 2).T) + tau2)


@given(dense_problems())
def test_the_dense_update_is_exact_or_refused(problem):
    G, W, _, D_step, _, _ = problem
    layer = DenseLayer(W, FIXED)
    expected = W.astype(object) - by_python_integers(G.T, D_step)
    if np.abs(expected).max() < 1 << FIXED.weight_bits:
        layer.update(G, D_step)
        assert np.array_equal(layer.weights, expected)
    else:
        with pytest.raises(SlotOverflow):
            layer.update(G, D_step)
        assert np.array_equal(layer.weights, W)


@given(dense_problems())
def test_the_elementwise_layer_equals_python_integers(problem):
    G, W, _, _, _, tau2 = problem
    w, tau = W[:, 0] // 2, tau2 // (1 << 4)
    layer = ElementwiseLayer(w, FIXED)
    assert np.array_equal(layer.forward(G, tau), G.astype(object) * w + tau)
    assert np.array_equal(layer.backward(G, tau2), G.astype(object) * w + tau2)
    expected = w.astype(object) - (G.astype(object) * tau).sum(axis=0)
    if np.abs(expected).max() < 1 << FIXED.weight_bits:
        layer.update(G, tau)
        assert np.array_equal(layer.weights, expected)
    else:
        with pytest.raises(SlotOverflow):
            layer.update(G, tau)


@settings(max_examples=60)
@given(st.data(), st.integers(1, 62), st.integers(1, 62), st.integers(1, 40))
def test_integer_products_are_exact_at_every_width(data, left_bits, right_bits, inner):
    left = data.draw(integers((2, inner), left_bits))
    right = data.draw(integers((inner, 2), right_bits))
    assert np.array_equal(exact_matmul(left, right), by_python_integers(left, right))


def test_a_batch_of_usual_size_is_exact():
    stream = np.random.default_rng(0)
    G = stream.integers(-(2**16) + 1, 2**16, (128, 100))
    W = stream.integers(-(2**40) + 1, 2**40, (100, 50))
    assert np.array_equal(exact_matmul(G, W), by_python_integers(G, W))


def test_weights_beyond_their_range_are_refused_not_wrapped():
    with pytest.raises(SlotOverflow, match="interactive weights"):
        build_layer("dense", np.full((2, 2), 1 << 40), FIXED)


def test_a_forward_result_beyond_its_slot_is_refused_not_wrapped():
    layer = DenseLayer(np.full((1, 1), (1 << 40) - 1), FIXED)
    with pytest.raises(SlotOverflow, match="Z"):
        layer.forward(np.full((1, 1), 1 << 20), np.zeros((1, 1), dtype=np.int64))
    with pytest.raises(SlotOverflow, match="dL/dG"):
        layer.backward(np.full((1, 1), 1 << 30), np.zeros((1, 1), dtype=np.int64))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_slot_range_is_the_documented_one(sign):
    slot_bits = FIXED.forward_slot_bits(8)
    assert slot_bits == 16 + 40 + 3 + 2
    edge = 1 << (slot_bits - 2)
    assert require_slots(np.array([sign * (edge - 1)]), slot_bits, "Z")[0] == sign * (edge - 1)
    with pytest.raises(SlotOverflow):
        require_slots(np.array([sign * edge]), slot_bits, "Z")


def test_widths_are_those_of_the_protocol():
    assert FIXED.weight_fraction_bits == 36
    assert (FIXED.embedding_bits, FIXED.gradient_bits, FIXED.weight_bits) == (16, 16, 40)
    assert (FIXED.forward_slot_bits(32), FIXED.backward_slot_bits(16)) == (63, 62)
    assert (FIXED.forward_dither_bits, FIXED.backward_dither_bits) == (28, 30)


def test_sizes_whose_slots_do_not_fit_are_refused_before_the_start():
    FIXED.require_capacity(128, 128)
    with pytest.raises(ConfigError, match="smaller embedding"):
        build_layer("dense", np.zeros((129, 4), dtype=np.int64), FIXED)


def test_closed_dimensions_leave_the_layer():
    layer = DenseLayer(np.arange(12).reshape(4, 3), FIXED)
    layer.keep(np.array([0, 2]))
    assert layer.weights.tolist() == [[0, 1, 2], [6, 7, 8]]


def test_quantising_rounds_clips_and_counts():
    integers_, clipped = quantize(np.array([0.5, -100.0, 15.9999, 16.0]), 12, 16)
    assert integers_.tolist() == [2048, -65535, 65535, 65535]
    assert clipped == 3  # 15.9999 rounds to the first value outside
    with pytest.raises(DataError, match="diverged"):
        quantize(np.array([np.nan]), 12, 16)


def test_wrong_shapes_are_refused():
    layer = DenseLayer(np.zeros((4, 3), dtype=np.int64), FIXED)
    with pytest.raises(DataError, match=r"embeddings must have shape \(5, 4\)"):
        layer.forward(np.zeros((5, 3), dtype=np.int64), np.zeros((5, 3), dtype=np.int64))
    with pytest.raises(DataError, match="summand"):
        layer.forward(np.zeros((5, 4), dtype=np.int64), np.zeros((5, 2), dtype=np.int64))
    with pytest.raises(ConfigError, match="matrix"):
        build_layer("dense", np.zeros(3, dtype=np.int64), FIXED)
    with pytest.raises(ConfigError, match="vector"):
        build_layer("elementwise", np.zeros((3, 3), dtype=np.int64), FIXED)

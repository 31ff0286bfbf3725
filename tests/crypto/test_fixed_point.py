"""Real numbers at a public scale: rounding is half a unit, clipping is counted, nothing wraps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.crypto import FixedPoint
from fedsdg.errors import ConfigError, DataError

SCALES = (
    st.tuples(st.integers(0, 40), st.integers(0, 12)).filter(lambda s: 1 <= sum(s) <= 52).map(lambda s: FixedPoint(*s))
)


@given(scale=SCALES, data=st.data())
def test_integers_in_range_come_back_exactly(scale, data):
    top = 2**scale.value_bits - 1
    values = [*data.draw(st.lists(st.integers(-top, top), min_size=1)), top, -top, 0]
    encoded, clipped = scale.encode(scale.decode(values))
    assert encoded.tolist() == values
    assert clipped == 0


@given(scale=SCALES, values=st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_encoding_rounds_to_half_a_unit_or_clips_and_counts(scale, values):
    encoded, clipped = scale.encode(values)
    top = 2**scale.value_bits - 1
    exact = [v * 2.0**scale.fraction_bits for v in values]
    inside = [abs(np.rint(e)) <= top for e in exact]
    assert clipped == inside.count(False)
    for e, v, ok in zip(exact, encoded.tolist(), inside, strict=True):
        assert abs(v) <= top
        assert abs(v - e) <= 0.5 if ok else v == (top if e > 0 else -top)


def test_the_edges_of_the_range_are_clipped_from_one_unit_on():
    scale = FixedPoint(12, 4)
    unit = 2.0**-12
    encoded, clipped = scale.encode([16 - unit, 16 - unit / 4, 16, -16, -16 + unit, 1e300, -1e300])
    assert encoded.tolist() == [65535, 65535, 65535, -65535, -65535, 65535, -65535]
    assert clipped == 5


def test_the_largest_doubles_are_clipped_like_any_other():
    encoded, clipped = FixedPoint(40, 4).encode([1.7e308, -1.7e308])
    assert encoded.tolist() == [2**44 - 1, 1 - 2**44]
    assert clipped == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(DataError):
        FixedPoint(12, 4).encode([0.0, value])


@pytest.mark.parametrize(("fraction", "magnitude"), [(-1, 5), (0, 0), (50, 3), (12, -12), (12, 41)])
def test_scales_that_are_not_exact_are_refused(fraction, magnitude):
    with pytest.raises(ConfigError):
        FixedPoint(fraction, magnitude)


def test_shapes_are_kept():
    encoded, _ = FixedPoint(12, 4).encode(np.zeros((3, 0, 2)))
    assert encoded.shape == (3, 0, 2)
    assert FixedPoint(1, 1).decode([[1, 2]]).tolist() == [[0.5, 1.0]]

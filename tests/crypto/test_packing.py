"""Slots: what is packed comes back, and a value that leaves its slot is an error, never a neighbour's problem."""

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.crypto import SlotLayout, centred
from fedsdg.errors import CryptoError, DoesNotFit, SlotOverflow

KEY_BITS = 512
N = (1 << 511) + 111  # as small as a 512-bit modulus gets: the tightest case
WIDTHS = st.one_of(st.sampled_from([3, 8, 61, 62, 63, 64, 65, 107, 511]), st.integers(3, 511))


def limit_of(layout: SlotLayout) -> int:
    return 1 << (layout.width - 2)


@st.composite
def packed_values(draw):
    layout = SlotLayout.for_key(KEY_BITS, draw(WIDTHS))
    top = limit_of(layout) - 1
    value = st.one_of(st.sampled_from([0, top, -top]), st.integers(-top, top))
    return layout, draw(st.lists(value, min_size=1, max_size=min(layout.capacity, 20)))


@given(case=packed_values())
def test_what_is_packed_comes_back(case):
    layout, values = case
    assert layout.unpack(layout.pack(values) % N, len(values), N) == values
    assert layout.unpack(layout.pack(values), len(values), N) == values  # not yet reduced


@given(case=packed_values())
def test_packing_is_the_sum_of_shifted_values(case):
    layout, values = case
    assert layout.pack(values) == sum(v << (layout.width * i) for i, v in enumerate(values)) == layout.pack_wide(values)


@pytest.mark.parametrize("width", [3, 7, 62, 63, 64, 107, 255, 511])
def test_full_plaintexts_come_back_at_the_extremes(width):
    layout = SlotLayout.for_key(KEY_BITS, width)
    top, count = limit_of(layout) - 1, layout.capacity
    for values in ([top] * count, [-top] * count, [top, -top] * (count // 2) or [top], [0] * count, [-1] * count):
        assert layout.unpack(layout.pack(values) % N, len(values), N) == values


@given(case=packed_values(), spare=st.integers(1, 5))
def test_unused_slots_read_as_zero(case, spare):
    layout, values = case
    count = min(layout.capacity, len(values) + spare)
    assert layout.unpack(layout.pack(values) % N, count, N) == values + [0] * (count - len(values))


@given(case=packed_values())
def test_reading_fewer_slots_than_are_filled_is_an_error(case):
    layout, values = case
    filled = [*values, 1] if len(values) < layout.capacity else [*values[:-1], 1]
    if len(filled) > 1:
        with pytest.raises(SlotOverflow):
            layout.unpack(layout.pack_wide(filled) % N, len(filled) - 1, N)


@given(case=packed_values(), data=st.data())
def test_a_value_that_left_its_slot_never_carries_silently(case, data):
    """From the guard up to three times its size, in either direction and in any slot, leaving the slot is noticed."""
    layout, values = case
    guard = limit_of(layout)
    at = data.draw(st.integers(0, len(values) - 1))
    outside = data.draw(
        st.one_of(st.sampled_from([guard, guard + 1, 2 * guard, 3 * guard]), st.integers(guard, 3 * guard))
    )
    values[at] = outside * data.draw(st.sampled_from([1, -1]))
    with pytest.raises(SlotOverflow):
        layout.unpack(layout.pack_wide(values) % N, len(values), N)


@given(case=packed_values(), data=st.data())
def test_one_guard_bit_takes_values_up_to_the_slot_and_refuses_its_edge(case, data):
    layout, values = case
    edge = 1 << (layout.width - 1)
    at = data.draw(st.integers(0, len(values) - 1))
    for value in (edge - 1, 1 - edge):
        values[at] = value
        assert layout.unpack(layout.pack_wide(values) % N, len(values), N, guard_bits=1) == values
    for value in (edge, -edge):
        values[at] = value
        with pytest.raises(SlotOverflow):
            layout.unpack(layout.pack_wide(values) % N, len(values), N, guard_bits=1)


@given(case=packed_values(), sign=st.sampled_from([1, -1]))
def test_packing_refuses_what_does_not_fit_a_slot(case, sign):
    layout, values = case
    for outside in (limit_of(layout), limit_of(layout) + 1, 1 << layout.width, 1 << 600):
        with pytest.raises(DoesNotFit):
            layout.pack([*values[1:], sign * outside])


def test_packing_refuses_more_values_than_slots():
    layout = SlotLayout.for_key(KEY_BITS, 63)
    with pytest.raises(DoesNotFit, match="slots"):
        layout.pack([0] * (layout.capacity + 1))


@pytest.mark.parametrize("width", [-1, 0, 1, 2, 512, 513, 10**6])
def test_impossible_widths_do_not_fit(width):
    with pytest.raises(DoesNotFit):
        SlotLayout.for_key(KEY_BITS, width)


@pytest.mark.parametrize(("count", "guard_bits"), [(0, 2), (-1, 2), (9, 2), (1, 0), (1, 3)])
def test_impossible_readings_are_refused(count, guard_bits):
    with pytest.raises(CryptoError):
        SlotLayout.for_key(KEY_BITS, 63).unpack(0, count, N, guard_bits)


@pytest.mark.parametrize("width", [60, 70])
def test_rows_are_unpacked_together_as_one_by_one(width):
    layout = SlotLayout.for_key(KEY_BITS, width)
    matrix = np.arange(-15, 15).reshape(6, 5)
    packed = [v % N for v in layout.pack_rows(matrix)]
    unpacked = layout.unpack_rows(packed, 5, N)
    assert unpacked.tolist() == matrix.tolist() == [layout.unpack(v, 5, N) for v in packed]
    assert unpacked.dtype == (np.int64 if width <= 63 else object)
    assert layout.unpack_rows([], 5, N).shape == (0, 5)


def test_one_bad_row_spoils_the_batch():
    layout = SlotLayout.for_key(KEY_BITS, 60)
    with pytest.raises(SlotOverflow):
        layout.unpack_rows([layout.pack([1, 2]), mpz(1) << 58, layout.pack([3, 4])], 2, N)


@given(st.integers(1, 500), st.integers(3, 200))
def test_blocks_cover_everything_once_and_none_is_overfull(count, width):
    layout = SlotLayout.for_key(KEY_BITS, width)
    blocks = layout.blocks(count)
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(count))
    assert len(blocks) == -(-count // layout.capacity)
    assert all(0 < block.stop - block.start <= layout.capacity for block in blocks)


@given(st.integers(-(2**600), 2**600))
def test_the_centred_representative_is_the_smallest(value):
    c = centred(value, N)
    assert (c - value) % N == 0
    assert -N < 2 * c <= N


@given(
    rows=st.lists(st.lists(st.integers(-999, 999), min_size=4, max_size=4), min_size=1, max_size=5),
    scalars=st.lists(st.integers(-999, 999), min_size=5, max_size=5),
)
def test_sums_and_multiples_of_packed_plaintexts_are_slot_by_slot(rows, scalars):
    layout = SlotLayout.for_key(KEY_BITS, 40)
    packed = sum(layout.pack(row) * s for row, s in zip(rows, scalars, strict=False))
    wanted = [sum(row[i] * s for row, s in zip(rows, scalars, strict=False)) for i in range(4)]
    assert layout.unpack(packed % N, 4, N) == wanted


def test_packed_values_survive_encryption(party):
    layout = SlotLayout.for_key(KEY_BITS, 60)
    top = limit_of(layout) - 1
    values = [top, -top, 0, -1, 1, -top, top, -1]
    received = party.receive(party.send([layout.pack(values)], (1,)))
    assert layout.unpack(received[0], 8, party.n) == values

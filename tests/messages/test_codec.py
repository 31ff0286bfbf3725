"""The codec carries every message unchanged, and refuses everything else with one error and without allocating."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import struct
import tracemalloc
import types
import typing

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import fedsdg.messages
from fedsdg.errors import MalformedMessage
from fedsdg.messages import codec
from fedsdg.messages.base import PROTOCOL_VERSION, Message, Request
from fedsdg.messages.secure_forward import EmbedBatch
from fedsdg.messages.selection import GateCounts, SelectColumns
from fedsdg.messages.session import Done, Joined

for module in pkgutil.iter_modules(fedsdg.messages.__path__):
    importlib.import_module(f"fedsdg.messages.{module.name}")

KINDS = sorted(codec.registered().values(), key=lambda kind: kind.__name__)
PREFIX = codec.MAGIC + bytes([PROTOCOL_VERSION])

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
integers = st.integers(-(1 << 2100), 1 << 2100) | st.integers(-300, 300)
int64_arrays = arrays.arrays(np.int64, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
LEAVES = {
    int: integers,
    float: st.floats(),
    str: texts,
    bytes: st.binary(max_size=200),
    bool: st.booleans(),
    type(None): st.none(),
}


def values_of(hint) -> st.SearchStrategy:
    """Anything that a field of this type may hold."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values_of(part) for part in parts])
    if origin is tuple:
        return st.lists(values_of(parts[0]), max_size=5).map(tuple)
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if origin is np.ndarray:
        return int64_arrays
    return LEAVES[hint]


def messages_of(kind: type[Message]) -> st.SearchStrategy[Message]:
    hints = typing.get_type_hints(kind)
    return st.tuples(*(values_of(hints[f.name]) for f in dataclasses.fields(kind))).map(lambda fields: kind(*fields))


any_message = st.one_of([messages_of(kind) for kind in KINDS])


def same(a, b) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def fields_of(message: Message) -> tuple:
    return tuple(getattr(message, f.name) for f in dataclasses.fields(message))


def decodes_or_is_malformed(blob: bytes) -> Message | None:
    """Decode; the only error that may come out is `MalformedMessage`."""
    try:
        return codec.decode(blob)
    except MalformedMessage:
        return None


def written(*values) -> bytes:
    out = bytearray(PREFIX)
    for value in values:
        codec._write(out, value)
    return bytes(out)


def text(value: str) -> bytes:
    return b"s" + struct.pack("<I", len(value)) + value.encode()


def test_every_message_class_is_registered_and_every_request_names_its_reply():
    assert len(KINDS) >= 20
    for kind in KINDS:
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen
        if issubclass(kind, Request):
            assert kind.reply in KINDS
            assert not issubclass(kind.reply, Request)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_message_survives_the_journey(kind):
    @given(messages_of(kind))
    def journey(message):
        blob = codec.encode(message)
        arrived = codec.decode(blob, expected=kind)
        assert type(arrived) is kind
        assert same(fields_of(arrived), fields_of(message))
        assert codec.encode(arrived) == blob

    journey()


@given(any_message, st.data())
def test_a_truncated_message_is_malformed(message, data):
    blob = codec.encode(message)
    with pytest.raises(MalformedMessage):
        codec.decode(blob[: data.draw(st.integers(0, len(blob) - 1))])


@given(any_message, st.binary(min_size=1, max_size=30))
def test_bytes_after_the_end_are_malformed(message, rest):
    with pytest.raises(MalformedMessage):
        codec.decode(codec.encode(message) + rest)


@settings(max_examples=300)
@given(any_message, st.data())
def test_corrupted_bytes_decode_to_a_message_or_are_malformed(message, data):
    blob = bytearray(codec.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    arrived = decodes_or_is_malformed(bytes(blob))
    assert arrived is None or type(arrived) in KINDS


@settings(max_examples=300)
@given(st.binary(max_size=300))
@example(b"")
@example(codec.MAGIC)
@example(PREFIX)
def test_random_bytes_are_malformed(blob):
    with pytest.raises(MalformedMessage):
        codec.decode(blob)


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.binary(max_size=200))
def test_random_fields_are_malformed_or_of_the_right_type(kind, blob):
    arrived = decodes_or_is_malformed(PREFIX + text(kind.__name__) + blob)
    assert arrived is None or type(arrived) is kind


simple_values = st.one_of(
    st.none(), st.booleans(), integers, st.floats(), texts, st.binary(max_size=20), int64_arrays, st.just(())
)


@settings(max_examples=400)
@given(any_message, simple_values | st.lists(simple_values, max_size=3).map(tuple), st.data())
@example(EmbedBatch(np.arange(2), 0, "training"), np.arange(3), None)  # an array where one of some words is due
def test_a_field_of_the_wrong_type_is_malformed(message, wrong, data):
    fields = list(fields_of(message))
    if not fields:
        return
    at = data.draw(st.integers(0, len(fields) - 1)) if data is not None else len(fields) - 1
    hint = typing.get_type_hints(type(message))[dataclasses.fields(message)[at].name]
    fields[at] = wrong
    blob = written(type(message).__name__, tuple(fields))
    if holds(wrong, hint):
        assert type(codec.decode(blob)) is type(message)
    else:
        with pytest.raises(MalformedMessage):
            codec.decode(blob)


def holds(value, hint) -> bool:
    """Whether a field of this type may hold that value, by another route than the codec's."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(holds(value, part) for part in parts)
    if origin is tuple:
        return type(value) is tuple and all(holds(v, parts[0]) for v in value)
    if origin is typing.Literal:
        return type(value) is str and value in parts
    if origin is np.ndarray:
        return type(value) is np.ndarray
    return type(value) is hint


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_a_wrong_number_of_fields_is_malformed(count):
    with pytest.raises(MalformedMessage, match="fields instead of"):
        codec.decode(written("JoinRun", tuple(range(count))))


def test_an_unknown_kind_is_malformed():
    for kind in ("Nothing", "", "Message", "Request", "object", "__class__", "embedbatch"):
        with pytest.raises(MalformedMessage, match="unknown kind"):
            codec.decode(written(kind, ()))


@pytest.mark.parametrize("kind", [7, None, b"Done", ("Done",), np.arange(2), 1.5, True])
def test_a_kind_that_is_no_text_is_malformed(kind):
    with pytest.raises(MalformedMessage):
        codec.decode(written(kind, ()))


@pytest.mark.parametrize("fields", [None, 7, "x", b"", np.arange(3)])
def test_fields_that_are_no_tuple_are_malformed(fields):
    with pytest.raises(MalformedMessage):
        codec.decode(written("Done", fields))


@pytest.mark.parametrize("version", [0, PROTOCOL_VERSION + 1, 255])
def test_another_version_is_refused_with_both_numbers(version):
    blob = bytearray(codec.encode(Done()))
    blob[4] = version
    with pytest.raises(MalformedMessage, match=f"{version}.*{PROTOCOL_VERSION}"):
        codec.decode(bytes(blob))


def test_a_wrong_magic_is_malformed():
    with pytest.raises(MalformedMessage):
        codec.decode(b"GMSF" + codec.encode(Done())[4:])


def test_another_kind_than_the_expected_one_is_malformed():
    with pytest.raises(MalformedMessage, match="Joined was expected"):
        codec.decode(codec.encode(Done()), expected=Joined)


def test_a_message_over_the_limit_is_refused_before_it_is_read():
    blob = codec.encode(Joined(1, 1, bytes(1000)))
    with pytest.raises(MalformedMessage, match="over the limit"):
        codec.decode(blob, max_bytes=len(blob) - 1)
    assert codec.decode(blob, max_bytes=len(blob)) == Joined(1, 1, bytes(1000))


@pytest.mark.parametrize("depth", [codec.MAX_DEPTH + 1, 100, 20_000])
def test_deep_nesting_is_malformed_and_does_not_exhaust_the_stack(depth):
    blob = PREFIX + text("Done") + (b"t" + struct.pack("<I", 1)) * depth + b"t" + struct.pack("<I", 0)
    with pytest.raises(MalformedMessage):
        codec.decode(blob)


HUGE = 0xFFFFFFFF
HUGE_BLOBS = {
    "text": b"s" + struct.pack("<I", HUGE),
    "bytes": b"b" + struct.pack("<I", HUGE),
    "integer": b"i" + struct.pack("<I", HUGE),
    "tuple": b"t" + struct.pack("<I", HUGE),
    "array": b"a\x02" + struct.pack("<2I", HUGE, HUGE),
    "array of many dimensions": b"a\xff" + bytes(4 * 255),
    "array of four huge sizes": b"a\x04" + struct.pack("<4I", HUGE, HUGE, HUGE, 1),
}


@pytest.mark.parametrize("body", HUGE_BLOBS.values(), ids=HUGE_BLOBS)
def test_huge_lengths_are_refused_without_allocating(body):
    for blob in (
        PREFIX + body,
        PREFIX + text("Done") + body,
        PREFIX + text("Done") + b"t" + struct.pack("<I", 1) + body,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(MalformedMessage):
                codec.decode(blob)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("shape", [(HUGE, HUGE, HUGE, 0), (0, HUGE), (0,), (HUGE, 0, HUGE)])
def test_an_empty_array_with_huge_sizes_is_harmless(shape):
    blob = PREFIX + text("PrepareColumns") + b"t" + struct.pack("<I", 1)
    blob += b"a" + bytes([len(shape)]) + struct.pack(f"<{len(shape)}I", *shape)
    arrived = decodes_or_is_malformed(blob)
    assert arrived is None or arrived.train_rows.nbytes == 0
    assert math.prod(shape) == 0


def test_a_tuple_of_many_empty_tuples_costs_no_more_than_it_weighs():
    count = 100_000
    blob = PREFIX + text("SelectColumns") + b"t" + struct.pack("<I", count) + b"N" * count
    with pytest.raises(MalformedMessage):
        codec.decode(blob)


def test_invalid_text_is_malformed():
    with pytest.raises(MalformedMessage, match="UTF-8"):
        codec.decode(PREFIX + b"s" + struct.pack("<I", 2) + b"\xff\xfe")


def test_what_the_protocol_does_not_know_cannot_be_encoded():
    @dataclasses.dataclass(frozen=True)
    class Foreign(Message):
        value: int

    with pytest.raises(MalformedMessage, match="not a message"):
        codec.encode(Foreign(3))
    for value in ([1], {"a": 1}, {1}, object(), 1j):
        with pytest.raises(MalformedMessage, match="cannot be sent"):
            codec.encode(SelectColumns(value))


def test_a_class_of_the_same_name_is_not_the_registered_one():
    @dataclasses.dataclass(frozen=True)
    class Done(Message):
        pass

    with pytest.raises(MalformedMessage):
        codec.encode(Done())


def test_a_boolean_is_no_integer_and_an_integer_no_float():
    with pytest.raises(MalformedMessage):
        codec.decode(written("SelectColumns", (True,)))
    with pytest.raises(MalformedMessage):
        codec.decode(written("GateCounts", (1, (1,), 1)))
    assert codec.decode(written("GateCounts", (1, (1.0,), 1))) == GateCounts(1, (1.0,), 1)

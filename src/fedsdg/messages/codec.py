"""Messages as bytes, and back: data only, self-describing, strictly checked.

A message is a kind (a name from the registry below) and its fields. Values are None, booleans, integers of any size,
floats, text, bytes, tuples, and arrays of 64-bit integers. Nothing else can be expressed, so nothing else can arrive:
no code, no classes, no references. Every length is checked against what is left before anything is allocated.

::

    message   "FSMG" version kind:text fields:tuple
    value     tag (1 byte), then  i length(4) two's complement | f 8 bytes | s,b length(4) bytes | t count(4) values
                                  a dimensions(1) sizes(4 each) int64s | N | T | F
"""

from __future__ import annotations

import dataclasses
import math
import struct
import types
import typing
from typing import Any

import numpy as np

from fedsdg.errors import MalformedMessage
from fedsdg.messages.base import PROTOCOL_VERSION, Message, Request

MAGIC = b"FSMG"
#: Larger messages are refused before they are read.
MAX_MESSAGE_BYTES = 1 << 30
MAX_DEPTH = 4
MAX_DIMENSIONS = 4

_registry: dict[str, type[Message]] = {}
_LENGTH = struct.Struct("<I")


def register(cls: type[Message]) -> type[Message]:
    """Class decorator: let the codec carry this message."""
    _registry[cls.__name__] = cls
    return cls


def registered() -> dict[str, type[Message]]:
    """Return every message kind by name."""
    return dict(_registry)


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    kind = type(message).__name__
    if _registry.get(kind) is not type(message):
        raise MalformedMessage(f"{kind} is not a message of this protocol.")
    fields = tuple(getattr(message, f.name) for f in dataclasses.fields(message))  # type: ignore[arg-type]
    out = bytearray(MAGIC + bytes([PROTOCOL_VERSION]))
    _write(out, kind)
    _write(out, fields)
    return bytes(out)


def decode(blob: bytes, expected: type[Message] | None = None, max_bytes: int = MAX_MESSAGE_BYTES) -> Message:
    """Read a message; with `expected`, only that kind is accepted."""
    if len(blob) > max_bytes:
        raise MalformedMessage(f"A message of {len(blob)} bytes is over the limit of {max_bytes}.")
    if blob[:4] != MAGIC or len(blob) < 5:
        raise MalformedMessage("Not a fedsdg message.")
    if blob[4] != PROTOCOL_VERSION:
        raise MalformedMessage(
            f"Protocol version {blob[4]}; this party speaks {PROTOCOL_VERSION}. Upgrade one of the two."
        )
    reader = _Reader(blob, 5)
    kind = reader.value(0)
    if not isinstance(kind, str) or kind not in _registry:
        raise MalformedMessage("A message of unknown kind.")
    cls = _registry[kind]
    if expected is not None and cls is not expected:
        raise MalformedMessage(f"{expected.__name__} was expected; {kind} arrived.")
    fields = reader.value(0)
    if not reader.finished or not isinstance(fields, tuple):
        raise MalformedMessage(f"{kind}: bytes after the end of the message.")
    return _build(cls, fields)


def reply_type(request: Request[Any]) -> type[Message]:
    """Return the kind of message that answers this request."""
    return request.reply


def _build(cls: type[Message], values: tuple[Any, ...]) -> Message:
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    if len(values) != len(fields):
        raise MalformedMessage(f"{cls.__name__}: {len(values)} fields instead of {len(fields)}.")
    hints = typing.get_type_hints(cls)
    for field, value in zip(fields, values, strict=True):
        if not _fits(value, hints[field.name]):
            raise MalformedMessage(f"{cls.__name__}.{field.name}: a value of the wrong type.")
    return cls(*values)


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(v, parts[0]) for v in value)
    if origin is np.ndarray or hint is np.ndarray:
        return isinstance(value, np.ndarray)
    if origin is typing.Literal:
        return isinstance(value, str) and value in parts
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint if isinstance(hint, type) else object)


def _write(out: bytearray, value: Any) -> None:
    if value is None:
        out += b"N"
    elif isinstance(value, bool):
        out += b"T" if value else b"F"
    elif isinstance(value, int):
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        out += b"i" + _LENGTH.pack(len(raw)) + raw
    elif isinstance(value, float):
        out += b"f" + struct.pack("<d", value)
    elif isinstance(value, str):
        raw = value.encode()
        out += b"s" + _LENGTH.pack(len(raw)) + raw
    elif isinstance(value, bytes):
        out += b"b" + _LENGTH.pack(len(value)) + value
    elif isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value, dtype="<i8")
        out += b"a" + bytes([array.ndim]) + struct.pack(f"<{array.ndim}I", *array.shape) + array.tobytes()
    elif isinstance(value, tuple):
        out += b"t" + _LENGTH.pack(len(value))
        for item in value:
            _write(out, item)
    else:
        raise MalformedMessage(f"A value of type {type(value).__name__} cannot be sent.")


class _Reader:
    def __init__(self, blob: bytes, at: int) -> None:
        self.blob, self.at = blob, at

    @property
    def finished(self) -> bool:
        return self.at == len(self.blob)

    def take(self, count: int) -> bytes:
        if count > len(self.blob) - self.at:
            raise MalformedMessage("A message ends too early.")
        part = self.blob[self.at : self.at + count]
        self.at += count
        return part

    def length(self) -> int:
        return int(_LENGTH.unpack(self.take(4))[0])

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise MalformedMessage("A message is nested too deeply.")
        tag = self.take(1)
        if tag in (b"N", b"T", b"F"):
            return {b"N": None, b"T": True, b"F": False}[tag]
        if tag == b"i":
            return int.from_bytes(self.take(self.length()), "little", signed=True)
        if tag == b"f":
            return struct.unpack("<d", self.take(8))[0]
        if tag == b"b":
            return self.take(self.length())
        if tag == b"s":
            try:
                return self.take(self.length()).decode()
            except UnicodeDecodeError:
                raise MalformedMessage("A text is not valid UTF-8.") from None
        if tag == b"a":
            dimensions = self.take(1)[0]
            if dimensions > MAX_DIMENSIONS:
                raise MalformedMessage("An array with too many dimensions.")
            shape = struct.unpack(f"<{dimensions}I", self.take(4 * dimensions))
            if math.prod(max(size, 1) for size in shape) > MAX_MESSAGE_BYTES // 8:
                raise MalformedMessage("An array with impossible sizes.")
            return np.frombuffer(self.take(8 * math.prod(shape)), "<i8").astype(np.int64).reshape(shape)
        if tag == b"t":
            count = self.length()
            if count > len(self.blob) - self.at:
                raise MalformedMessage("A message ends too early.")
            return tuple(self.value(depth + 1) for _ in range(count))
        raise MalformedMessage("A value of unknown type.")

"""Read an ARFF file of numeric columns and one nominal class: dense rows, sparse rows, and nothing else.

A small strict reader: scipy's knows no sparse rows, and what the data sets here do not need (texts, dates, missing
values, weights of rows) is refused rather than guessed. The shape is known before, so that a few bytes of header
cannot ask for more memory than the data set has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsdg.errors import DataError

NUMERIC = ("numeric", "real", "integer")
ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s'"{},%]+)(?:\s+|(?=\{))(\{[^{}]*\}|\w+)""", re.IGNORECASE)


class ArffError(DataError):
    """A line of the file is not what a file of numbers and one class holds."""


def read(
    path: Path, shape: tuple[int, int], class_name: str, class_values: frozenset[str]
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the numeric columns in their order, and the class of each row as it is spelt in the file."""
    features = np.zeros(shape)
    classes: list[str] = []
    with path.open(encoding="ascii", errors="replace") as file:  # a comment may hold a name with an accent
        lines = _lines(file)
        position, values = _header(lines, shape[1], class_name, class_values)
        for number, line in lines:
            if len(classes) == shape[0]:
                raise ArffError(f"line {number}: more than the {shape[0]} rows of the data set")
            row = _sparse_row if line.startswith("{") else _dense_row
            try:
                features[len(classes)], spelt = row(line, shape[1], position, values)
            except ValueError as problem:
                raise ArffError(f"line {number}: {problem}") from None
            if spelt not in class_values:
                raise ArffError(f"line {number}: a class that the header does not list")
            classes.append(spelt)
    if len(classes) != shape[0]:
        raise ArffError(f"{len(classes)} rows, and the data set has {shape[0]}")
    if not np.isfinite(features).all():
        raise ArffError("some of its numbers are not finite")
    return features, classes


def _lines(file: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, counted from 1: no comments and no empty ones."""
    for number, line in enumerate(file, start=1):
        text = line.strip()
        if text and not text.startswith("%"):
            yield number, text


def _header(
    lines: Iterator[tuple[int, str]], columns: int, class_name: str, class_values: frozenset[str]
) -> tuple[int, list[str]]:
    """Read up to @data; return where the class stands in a row, and its values in their order."""
    position, values, attributes = -1, [""], 0
    for number, line in lines:
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            break
        if keyword == "@relation":
            continue
        found = ATTRIBUTE.fullmatch(line)
        if found is None:
            raise ArffError(f"line {number}: neither @relation nor @attribute nor @data")
        name, kind = _unquoted(found[1]), found[2]
        if name == class_name and position < 0:
            position, values = attributes, _nominal(kind, number)
        elif kind.lower() not in NUMERIC:
            raise ArffError(f"line {number}: a column that is neither numeric nor the class {class_name!r}")
        attributes += 1
    else:
        raise ArffError("there is no @data")
    if position < 0:
        raise ArffError(f"no attribute is called {class_name!r}, and the class is expected there")
    if set(values) != class_values:
        raise ArffError(f"the class {class_name!r} does not have the values {', '.join(sorted(class_values))}")
    if attributes != columns + 1:
        raise ArffError(f"{attributes - 1} columns beside the class, and the data set has {columns}")
    return position, values


def _nominal(kind: str, number: int) -> list[str]:
    if not kind.startswith("{"):
        raise ArffError(f"line {number}: the class is not nominal")
    return [_unquoted(value) for value in kind[1:-1].split(",")]


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _dense_row(line: str, columns: int, position: int, _: list[str]) -> tuple[NDArray[np.float64], str]:
    fields = line.split(",")
    if len(fields) != columns + 1:
        raise ValueError(f"{len(fields)} values, and there are {columns + 1} attributes")
    _require_present(fields)
    spelt = _unquoted(fields.pop(position))
    return _numbers(fields), spelt


def _sparse_row(line: str, columns: int, position: int, values: list[str]) -> tuple[NDArray[np.float64], str]:
    """Read ``{index value, ...}``: a number that is left out is 0, a class that is left out is its first value."""
    if not line.endswith("}"):
        raise ValueError("a sparse row that does not end with a brace")
    pairs = [pair.split() for pair in line[1:-1].split(",") if pair.strip()]
    if any(len(pair) != 2 or not re.fullmatch("[0-9]{1,9}", pair[0]) for pair in pairs):
        raise ValueError("a sparse row that is not made of pairs of a place and a value")
    places = [int(pair[0]) for pair in pairs]
    if any(left >= right for left, right in pairwise(places)) or (places and places[-1] > columns):
        raise ValueError("the places of a sparse row do not rise, or leave the table")
    given = {place: value for place, (_, value) in zip(places, pairs, strict=True)}
    _require_present(list(given.values()))
    spelt = _unquoted(given.pop(position, values[0]))
    row = np.zeros(columns)
    if given:
        row[[place - (place > position) for place in given]] = _numbers(list(given.values()))
    return row, spelt


def _require_present(fields: Sequence[str]) -> None:
    if any(field.strip() == "?" for field in fields):
        raise ValueError("a missing value, and the data set has none")


def _numbers(fields: Sequence[str]) -> NDArray[np.float64]:
    try:
        return np.loadtxt([",".join(fields)], delimiter=",", comments=None, ndmin=1)
    except ValueError:
        raise ValueError("a value that is no number") from None  # without the value: an error carries none

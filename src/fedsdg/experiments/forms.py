"""What the files of an experiment's folder must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from fedsdg.experiments.checked_files import LONGEST_NAME, Count, Form, Name, Number, one_line
from fedsdg.experiments.chosen_columns import unpack


def _without(characters: str) -> Callable[[str], str]:
    """Return a check that none of these is in a name: in a Markdown table they end a cell or are markup."""

    def check(name: str) -> str:
        if any(character in name for character in characters):
            raise ValueError(f"should hold none of {' '.join(characters)}, which are markup in a table")
        return name

    return check


def _packed(text: str) -> str:
    unpack(text)
    return text


_OneLine = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(one_line)]
DataSetName = Annotated[_OneLine, AfterValidator(_without("|<>[]`"))]
MethodName = Annotated[_OneLine, AfterValidator(_without("|<>`"))]
"""Brackets are in methods' own names (``original_gate[mean 3]``); a table holds no methods but its experiment's."""
Told = Annotated[Name, AfterValidator(_without("|<>[]`"))]
"""Other words that a table's page holds."""
PackedColumns = Annotated[str, Field(max_length=1_000_000), AfterValidator(_packed)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[Number, Field(ge=0)]


class Description(Form):
    """``experiment.json``: what was asked."""

    name: Name
    question: Told
    config_hash: Name
    folds: Annotated[Count, Field(ge=2)]
    seeds: Annotated[Count, Field(ge=1)]
    first_seed: Count | None = None
    datasets: list[DataSetName] | None = None
    preset: Name | None = None
    started: Name | None = None
    versions: dict[str, str] | None = None
    sources: dict[str, dict[str, Any]] | None = None


class Question(Form):
    """What a row, or the note of a failure, is about."""

    dataset: DataSetName
    method: MethodName
    fold: Count
    seed: Count


class PathPoint(Form):
    """One validation pass of the gated phase."""

    step: Positive
    open: Positive
    embedding: Positive | None = None
    score: Number | None = None
    test: Number | None = None
    overlap: Number | None = None


class Answer(Question):
    """A line of ``results.jsonl``; a number that could not be computed is null."""

    folds: Annotated[Count, Field(ge=2)] | None = None
    accuracy: Share | None = None
    r2: Number | None = None
    validation: Number | None = None
    selected: Positive | None = None
    ratio: Share | None = None
    columns: list[Count] | None = None
    packed_columns: PackedColumns | None = None
    precision: Share | None = None
    recall: Share | None = None
    embedding_open: Positive | None = None
    bytes: Positive | None = None
    training_bytes: Positive | None = None
    parameters: Positive | None = None
    chance: Number | None = None
    test_rows: Count | None = None
    messages: Positive | None = None
    job_seconds: Positive | None = None
    job_bytes: Positive | None = None
    seconds: Positive | None = None
    cpu_seconds: Positive | None = None
    steps_to_half: Positive | None = None
    steps_to_tenth: Positive | None = None
    curve: list[PathPoint] | None = None
    surrogate: bool | None = None
    config_hash: Name | None = None
    trained_with: Name | None = None
    settings_changed: dict[str, Any] | None = None
    commit: Told | None = None

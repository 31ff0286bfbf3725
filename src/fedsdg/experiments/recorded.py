"""A recorded experiment: what was asked, and rows that belong together. Tables and reports read through here.

A row of another experiment, or one made with other settings, would be averaged with the rest and nobody would notice;
a data set of the user's own is as welcome as the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedsdg.errors import ConfigError, DataError
from fedsdg.experiments import catalogue
from fedsdg.experiments.cell import Row
from fedsdg.experiments.checked_files import shown
from fedsdg.experiments.experiment import Experiment
from fedsdg.experiments.results import DESCRIPTION, RESULTS, ResultsFolder
from fedsdg.experiments.statistics import SCORES

NAMED = 3
"""Strange methods that are told by name."""
APART = "take them out, or give each experiment a folder of its own"


@dataclass(frozen=True)
class Recorded:
    """What a folder holds."""

    experiment: Experiment
    about: Row
    rows: list[Row]


def read_recorded(folder: Path) -> Recorded:
    """Read an experiment's folder, or say which rows do not belong there."""
    results = ResultsFolder(folder)
    about = results.description()
    try:
        experiment = catalogue.find(about["name"])
    except ConfigError as problem:
        raise DataError(f"{folder / DESCRIPTION}: {problem}") from None
    rows = results.rows()
    refuse_strangers(rows, experiment, about, folder / RESULTS)
    return Recorded(experiment, about, rows)


@contextmanager
def told_if_unusable(folder: Path) -> Iterator[None]:
    """Say in a line that rows lack what their own experiment always writes, or hold what it never does."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as problem:
        raise DataError(
            f"{folder / RESULTS}: a field that this experiment needs is missing or wrong ({type(problem).__name__}); "
            "repair or remove the rows that were changed"
        ) from None


def refuse_strangers(rows: Sequence[Row], experiment: Experiment, about: Row, path: Path) -> None:
    """Refuse rows that do not belong to what was asked: before a table is made of them, or others are added."""
    methods, settings, folds = {each.name for each in experiment.variants}, about["config_hash"], about["folds"]

    def refuse(strange: Callable[[Row], bool], why: str, what_to_do: str) -> None:
        count = sum(map(strange, rows))
        if count:
            raise DataError(f"{path}: {count} of {len(rows)} rows {why}; {what_to_do}")

    refuse(
        lambda row: row["method"] not in methods,
        f"have a method that the experiment {experiment.name!r} does not have: the file mixes experiments "
        f"({_first([row['method'] for row in rows if row['method'] not in methods])})",
        APART,
    )
    refuse(
        lambda row: (row.get("config_hash") or settings) != settings,
        f"were made with different training settings than {DESCRIPTION} says: the file mixes experiments",
        APART,
    )
    refuse(
        lambda row: row["fold"] >= folds,
        f"are of a fold that does not exist ({DESCRIPTION} says {folds} folds, counted from 0)",
        "repair or remove them",
    )
    refuse(
        lambda row: (row.get("folds") or folds) != folds,
        f"were cut into another number of folds than {folds}, which {DESCRIPTION} says: tests depend on it",
        APART,
    )
    scores: dict[str, set[str]] = {}
    for row in rows:
        scores.setdefault(row["dataset"], set()).update(name for name in SCORES if row.get(name) is not None)
    refuse(
        lambda row: len(scores[row["dataset"]]) > 1,
        "are of a data set that has both accuracy and r2, which cannot be compared",
        "repair or remove those with the wrong one",
    )


def _first(names: Sequence[str]) -> str:
    """Return the first few names, each once, and how many more there are."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - NAMED} more" if len(different) > NAMED else ""
    return ", ".join(repr(shown(name)) for name in different[:NAMED]) + more

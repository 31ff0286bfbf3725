"""What an experiment is: a question, its data sets, and the variants whose rows answer it."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedsdg.errors import ConfigError
from fedsdg.experiments.cell import Cell, Row

SHORT = 8
"""Letters of a commit that tell it from others."""


@dataclass(frozen=True)
class Variant:
    """One line of the comparison: a method, or a setting of it. Its name is the rows' ``method``."""

    name: str
    measure: Callable[[Cell], Row]
    after: tuple[str, ...] = ()
    """Variants whose rows of the same cell must be there first (for instance to match a number of columns)."""
    datasets: tuple[str, ...] | None = None
    """Data sets it applies to; None: all."""


@dataclass(frozen=True)
class Experiment:
    """A question that a grid of data sets, folds and seeds answers."""

    name: str
    question: str
    datasets: tuple[str, ...]
    variants: tuple[Variant, ...]
    table: Callable[[Sequence[Row]], str]
    """Results as a Markdown page."""
    preset: str = "wide"
    """Training settings, unless the command says otherwise."""

    def variant(self, name: str) -> Variant:
        """Return the variant of this name."""
        for each in self.variants:
            if each.name == name:
                return each
        names = [each.name for each in self.variants]
        close = difflib.get_close_matches(name, names, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ConfigError(f"{self.name} has no method {name!r}{meant}; there are {', '.join(names)}")

    def page(self, rows: Sequence[Row], table: Callable[[Sequence[Row]], str] | None = None) -> str:
        """Return the results as Markdown, in the order of data sets and variants, whatever order they came in."""
        order = {each.name: index for index, each in enumerate(self.variants)}
        first = {
            name: index for index, name in enumerate(dict.fromkeys((*self.datasets, *(r["dataset"] for r in rows))))
        }
        known = [row for row in rows if row["method"] in order]
        ordered = sorted(known, key=lambda row: (first[row["dataset"]], order[row["method"]]))
        return table(ordered) if table else "\n\n".join(filter(None, (self.table(ordered), _code_of(ordered))))

    def methods_for(self, dataset: str) -> tuple[Variant, ...]:
        """Return the variants that apply to a data set."""
        return tuple(each for each in self.variants if each.datasets is None or dataset in each.datasets)


def _code_of(rows: Sequence[Row]) -> str:
    """Say which code computed the rows, and how long: results of one version are not quite those of another."""
    counts = Counter(
        row["commit"][:SHORT] + "+" * row["commit"].endswith("+changes") for row in rows if row.get("commit")
    )
    minutes = sum(float(row.get("cpu_seconds") or 0) for row in rows) / 60
    told = [f"Rows by commit: {', '.join(f'{commit} ({n:,})' for commit, n in counts.most_common())}"] if counts else []
    told += [f"CPU time: {max(1, round(minutes)):,} min"] if minutes else []
    return ". ".join(told) + "." if told else ""

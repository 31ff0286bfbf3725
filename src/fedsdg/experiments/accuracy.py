"""The headline table: test score and share of selected features, every method on every data set.

One configuration for all data sets. Every rival appears with as many columns as FedSDG-FS kept in the same cell. Some
appear again: SFFS, MS-GINI and VFLFS with the paper's one half, two filters on the smaller sets with a number that
their own validation rows chose, original-Gate and LESS-VFL with their own number. FedSDG-FS appears with the number
that it chooses, asked for 15 % (COIL20: 5 %) of them, and with the small preset that encrypted runs use.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsdg.experiments import paper_numbers
from fedsdg.experiments.ceiling import measure_ceiling
from fedsdg.experiments.cell import Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.methods import (
    ALL,
    CEILING,
    FEDSDG,
    FILTERS,
    LESS_VFL,
    ORIGINAL_GATE,
    label,
    matched,
    validated,
    wished,
    with_share,
)
from fedsdg.experiments.rivals import genuine, one_by_one, rivals_table, runner_up_table, standing
from fedsdg.experiments.statistics import group
from fedsdg.experiments.tables import cells_text, field_text, label_of, markdown, score_text
from fedsdg.job import PRESETS

DATASETS = (
    "MADELON",
    "ARCENE",
    "BASEHOCK",
    "RELATHE",
    "PCMAC",
    "COIL20",
    "ISOLET",
    "GISETTE_SURROGATE",
    "FRIEDMAN",
)
MANY_COLUMNS = ("ARCENE", "BASEHOCK", "RELATHE", "PCMAC", "GISETTE", "GISETTE_SURROGATE")
WISHES = (wished(0.15, (*MANY_COLUMNS, "ISOLET")), wished(0.05, ("COIL20",)))
"""At shares that somebody might ask for: the gates' order of columns, without validation's choice of their number."""
FEW_COLUMNS = ("MADELON", "COIL20", "ISOLET")
"""Where filters also choose their number: elsewhere a model per candidate would cost a third of the whole table."""
SMALL = Variant("fedsdg@small", lambda cell: FEDSDG.measure(cell.changed(config=PRESETS["default"]())))
"""The preset that encrypted runs use unless they are told otherwise."""
RANKINGS = tuple(base for base in FILTERS if base != "random")


def table(rows: Sequence[Row]) -> str:
    """Return the headline table, the comparison with the runner-up, and the paper's numbers."""
    parts = [
        "Test accuracy in % (R² for a regression), mean ± standard deviation over cells / share of selected features.",
        scores_table(rows),
        *_under_a_head(
            "FedSDG-FS (in brackets: the smallest and the largest share of a cell) against the best method with at "
            "most as many features, against the best other method at any number, and against the best of a few "
            "centralised models. Difference in points (R²: hundredths) on the cells that both have, with its 95 % "
            "interval, and p, by the corrected resampled t test.",
            runner_up_table(rows),
        ),
        standing(rows),
        *_under_a_head(
            "FedSDG-FS against each method with as few columns, over the genuine classification sets; in points.",
            rivals_table(rows),
        ),
        one_by_one(rows),
        *_missing(rows),
    ]
    if any(row["dataset"] in paper_numbers.TWO_CLIENTS for row in rows):
        parts += ["Where the paper has a number: ours; the paper's.", paper_table(rows)]
    return "\n\n".join(part for part in parts if part)


def scores_table(rows: Sequence[Row]) -> str:
    """Return one line per method, one column per data set."""
    groups = group(rows)
    methods = list(dict.fromkeys(method for of in groups.values() for method in of))
    header = ["method", *(label_of(name, _all(of)) for name, of in groups.items())]
    lines = [[label(method), *(_entry(of, method) for of in groups.values())] for method in methods]
    return markdown(header, lines)


def _entry(of: dict[str, list[Row]], method: str, form: str = ".3f") -> str:
    """Return score and share of a method on one set, with the number of cells where it is one, or others have more."""
    if method not in of:
        return "-"
    usual, found = max(map(len, of.values())), of[method]
    fewer = f" ({cells_text(found)})" if len(found) < usual or len(found) == 1 else ""
    return f"{score_text(found)} / {field_text(found, 'ratio', form)}{fewer}"


def paper_table(rows: Sequence[Row]) -> str:
    """Return ours beside the paper's, for its methods."""
    lines = []
    for name, of in group(rows).items():
        if name in paper_numbers.TWO_CLIENTS:
            beside = [
                f"{_entry(of, method, '.2f')}; {paper_numbers.two_clients(name, method)}"
                for method in paper_numbers.METHODS
            ]
            lines.append([name, *beside])
    return markdown(["data set", *paper_numbers.METHODS.values()], lines)


def _under_a_head(head: str, table: str) -> list[str]:
    return [head, table] if table else []


def _missing(rows: Sequence[Row]) -> list[str]:
    """Return a sentence about the methods of the experiment that have no rows, or fewer than others."""
    lines = {name: of for name, of in group(rows).items() if genuine(name)}
    most = {name: max(map(len, of.values())) for name, of in lines.items()}
    named = []
    for each in EXPERIMENT.variants:
        sets = [name for name in lines if each.datasets is None or name in each.datasets]
        have = [len(lines[name].get(each.name, ())) for name in sets]
        if sets and sum(have) == 0:
            named.append(f"{label(each.name)} (none)")
        elif any(count < most[name] for count, name in zip(have, sets, strict=True)):
            named.append(f"{label(each.name)} ({min(have)} to {max(have)} cells)")
    return [f"Methods without all rows yet: {', '.join(named)}."] if named else []


def _all(methods: dict[str, list[Row]]) -> list[Row]:
    return [row for rows in methods.values() for row in rows]


EXPERIMENT = Experiment(
    name="accuracy",
    question="How accurate is a model on the selected features, and how many are they?",
    datasets=DATASETS,
    variants=(
        FEDSDG,
        *WISHES,
        SMALL,
        ALL,
        ORIGINAL_GATE,
        LESS_VFL,
        with_share("sffs", 0.5),
        with_share("ms_gini", 0.5),
        with_share("vflfs", 0.5),
        *(matched(base) for base in (*RANKINGS, "group_lasso", "less_vfl", "vflfs", "original_gate", "random")),
        *(validated(base, FEW_COLUMNS) for base in ("gini", "sffs")),
        Variant(CEILING, measure_ceiling),
    ),
    table=table,
)

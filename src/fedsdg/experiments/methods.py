"""Methods by name, as variants of an experiment."""

from __future__ import annotations

from dataclasses import replace

from fedsdg.baselines.all_features import AllFeatures
from fedsdg.baselines.chi2 import chi2_scores
from fedsdg.baselines.fedsdg_fs import FedSDG
from fedsdg.baselines.gini import gini_deviations
from fedsdg.baselines.group_lasso import GroupLasso
from fedsdg.baselines.information_value import information_value_scores
from fedsdg.baselines.less_vfl import LessVFL
from fedsdg.baselines.ms_gini import ms_gini_scores
from fedsdg.baselines.mutual_information import mutual_information_scores
from fedsdg.baselines.original_gate import OriginalGate
from fedsdg.baselines.random_choice import random_scores
from fedsdg.baselines.ranking import VALIDATED, HowMany, RankingSelector, Score
from fedsdg.baselines.selector import Selector
from fedsdg.baselines.sffs import f_scores
from fedsdg.baselines.vflfs import VFLFS
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Variant
from fedsdg.experiments.measure import measure

FILTERS: dict[str, Score] = {
    "gini": gini_deviations,
    "sffs": f_scores,
    "ms_gini": ms_gini_scores,
    "chi2": chi2_scores,
    "mutual_information": mutual_information_scores,
    "iv": information_value_scores,
    "random": random_scores,
}
LABELS = {
    "fedsdg": "FedSDG-FS",
    "all": "all features",
    "original_gate": "original-Gate",
    "less_vfl": "LESS-VFL",
    "vflfs": "VFLFS (reconstructed)",
    "group_lasso": "group lasso",
    "gini": "FedSDG-FS-gini",
    "sffs": "SFFS",
    "ms_gini": "MS-GINI",
    "chi2": "chi2",
    "mutual_information": "mutual information",
    "iv": "IV",
    "random": "random",
    "centralised": "centralised",
}
MATCHED = "matched"
CEILING = "centralised"
"""The best of a few models with all columns in one place."""


def label(method: str) -> str:
    """Return a method's name for a reader: ``sffs@0.5`` is ``SFFS, .5``."""
    base, _, number = method.partition("@")
    name = LABELS.get(base, base)
    return f"{name}, {number.replace('_', ' ')}" if number else name


def variant(selector: Selector, name: str | None = None) -> Variant:
    """Return the variant of one selector."""
    return Variant(name or selector.name, lambda cell: measure(cell, selector))


FEDSDG, ALL, ORIGINAL_GATE = (variant(each) for each in (FedSDG(), AllFeatures(), OriginalGate()))
# Judged by its columns, as all others: with embeddings as narrow as it finds them its last model is less accurate.
LESS_VFL = variant(LessVFL(own_widths=False))


def with_share(base: str, share: float) -> Variant:
    """Return a ranking method that keeps a share of all columns."""
    how_many = HowMany(share=share)
    return variant(_ranking(base, how_many))


def wished(share: float, datasets: tuple[str, ...]) -> Variant:
    """Return FedSDG-FS when it is asked for a share of all columns instead of choosing their number itself."""

    def run(cell: Cell) -> Row:
        return measure(cell, FedSDG(max(1, round(share * cell.data.n_columns))))

    return Variant(f"fedsdg@{share}", run, datasets=datasets)


def with_count(base: str, count: int) -> Variant:
    """Return a method that keeps a number of columns."""
    if base == "fedsdg":
        return variant(FedSDG(count))
    if base == "original_gate":
        return variant(OriginalGate(count))
    return variant(_ranking(base, HowMany(count=count)))


def validated(base: str, datasets: tuple[str, ...] | None = None) -> Variant:
    """Return a ranking method whose number of columns validation chooses; it trains a model per candidate."""
    return replace(variant(_ranking(base, VALIDATED)), datasets=datasets)


def matched(base: str) -> Variant:
    """Return a method that keeps as many columns as FedSDG-FS kept in the same cell."""

    def run(cell: Cell) -> Row:
        count = int(cell.earlier["fedsdg"]["selected"])
        return measure(cell, OriginalGate(count) if base == "original_gate" else _ranking(base, HowMany(count=count)))

    return Variant(f"{base}@{MATCHED}", run, after=("fedsdg",))


def _ranking(base: str, how_many: HowMany) -> Selector:
    if base == "group_lasso":
        return GroupLasso(how_many)
    if base == "less_vfl":
        return LessVFL(how_many, own_widths=False)
    return VFLFS(how_many) if base == "vflfs" else RankingSelector(base, FILTERS[base], how_many)

"""Gini initialisation with and without, embedding gates with and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.experiments.two_by_two import NAMES
from fedsdg.report.charts.axes import Axis
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, field_bars, score_bars, shown

BOTH = NAMES[True, True]


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield score, share of features and embedding values per data set."""
    for dataset, methods in group(rows).items():
        name = shown(dataset, methods)
        share, sent = Axis("share of features (%)", zero=True), Axis("embedding values per prediction", zero=True)
        for figure in (
            score_bars(f"{name}: test score", SPREAD, methods, name=str, ours=BOTH),
            field_bars(
                f"{name}: features kept", SPREAD, share, methods, "ratio", factor=100, form=".1f", name=str, ours=BOTH
            ),
            field_bars(f"{name}: values sent", SPREAD, sent, methods, "embedding_open", name=str, ours=BOTH),
        ):
            if figure is not None:
                yield figure

"""Bytes for 100 predictions and for training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, field_bars, largest, shown
from fedsdg.report.quantities import byte_unit

SHOWN = (("bytes", "100 predictions"), ("training_bytes", "training"))


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield two plots per data set."""
    for dataset, methods in group(rows).items():
        for field, what in SHOWN:
            factor, unit = byte_unit(largest(methods, field))
            figure = field_bars(
                f"{shown(dataset, methods)}: sent for {what}",
                f"Embedding values in the clear, four bytes each. {SPREAD}",
                Axis(f"sent for {what} ({unit})", zero=True),
                methods,
                field,
                factor=1 / factor,
            )
            if figure is not None:
                yield figure

"""Seconds and bytes of the same job, in the clear and encrypted; filters (`gini/masked`) apart from whole jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedsdg.experiments.cell import Row
from fedsdg.experiments.statistics import group
from fedsdg.report.charts.axes import Axis
from fedsdg.report.document import Figure
from fedsdg.report.figures.pieces import SPREAD, field_bars, largest, score_bars, shown
from fedsdg.report.quantities import byte_unit, time_unit


def draw(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield time, bytes and score per data set."""
    jobs, filters = ([row for row in rows if ("/" in row["method"]) == of_filter] for of_filter in (False, True))
    yield from _bars(jobs, "job")
    yield from _bars(filters, "filter")


def _bars(rows: Sequence[Row], what: str) -> Iterator[Figure]:
    for dataset, methods in group(rows).items():
        name = shown(dataset, methods)
        seconds, time = time_unit(largest(methods, "job_seconds"))
        sizes, unit = byte_unit(largest(methods, "job_bytes"))
        for figure in (
            field_bars(
                f"{name}: time of a {what}",
                f"The whole {what}, by profile. {SPREAD}",
                Axis(f"time ({time})", zero=True),
                methods,
                "job_seconds",
                factor=1 / seconds,
                name=str,
                ours="masked",
            ),
            field_bars(
                f"{name}: bytes of a {what}",
                f"All messages, both directions; nothing is sent in the clear profile. {SPREAD}",
                Axis(f"sent ({unit})", zero=True),
                methods,
                "job_bytes",
                factor=1 / sizes,
                name=str,
                ours="masked",
            ),
            score_bars(f"{name}: test score", f"Both must be the same. {SPREAD}", methods, name=str, ours="masked"),
        ):
            if figure is not None:
                yield figure

"""The cost of security: the same job in the clear and under 2048-bit encryption, with the same private seeds.

Both must select the same columns and score the same; what differs is seconds and bytes, counted on real messages. The
filters of `filter_cost` stand beside the job, in the clear and under encryption, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fedsdg.experiments import filter_cost
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.chosen_columns import columns_of
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.measure import compare_with_truth
from fedsdg.experiments.statistics import by_cell, group, metric
from fedsdg.experiments.tables import CELLS, SCORE, column, label_of, markdown, method_table
from fedsdg.job import Profile, RunSettings
from fedsdg.simulation import PartyTables, simulate

KEY_BITS = 2048


def measure_job(cell: Cell, profile: Profile, key_bits: int = KEY_BITS, allow_test_keys: bool = False) -> Row:
    """Run one whole job with a profile. The job holds out its own test rows, the same ones for both profiles."""
    data = cell.vertical
    job = simulate(
        PartyTables(data.labels, data.tables),
        RunSettings(profile=profile, training=data.config),
        private_seeds=data.seeds,
        key_bits=key_bits,
        allow_test_keys=allow_test_keys,
    )
    assert job.test_score is not None
    selected = {name: client.selected_positions for name, client in job.clients.items()}
    row: Row = {
        "r2" if cell.data.task == "regression" else "accuracy": job.test_score.value,
        "loss": job.test_score.loss,
        "embedding_open": job.federation.open_embeddings(),
        "job_bytes": job.traffic.total,
        "messages": sum(job.traffic.messages.values()),
        "steps": sum(len(losses) for losses in job.result.losses.values()),
        "job_seconds": round(job.seconds["total"], 3),
        "phases": {phase: round(seconds, 3) for phase, seconds in job.seconds.items()},
    }
    return row | compare_with_truth(cell, selected)


def table(rows: Sequence[Row]) -> str:
    """Return the costs of jobs and of filters, and whether both profiles found the same."""
    of_filters = {variant.name for variant in filter_cost.VARIANTS}
    filters = [row for row in rows if row["method"] in of_filters]
    jobs = [row for row in rows if row["method"] not in of_filters]
    return "\n\n".join([job_table(jobs)] * bool(jobs) + [filter_cost.table(filters)] * bool(filters))


def job_table(rows: Sequence[Row]) -> str:
    """Return cost by profile, and whether both learned the same."""
    costs = method_table(
        [
            SCORE,
            column("features", "selected", ".1f"),
            column("seconds", "job_seconds", ".1f"),
            column("messages", "messages", ",.0f"),
            column("bytes", "job_bytes", ",.0f"),
            CELLS,
        ]
    )(rows)
    lines = []
    for name, methods in group(rows).items():
        plain, masked = by_cell(methods.get("plain", [])), by_cell(methods.get("masked", []))
        shared = sorted(set(plain) & set(masked))
        same = sum(
            columns_of(plain[cell]) is not None
            and columns_of(plain[cell]) == columns_of(masked[cell])
            and metric(plain[cell]) == metric(masked[cell])
            for cell in shared
        )
        lines.append([label_of(name, list(plain.values())), f"{same} of {len(shared)}"])
    return f"{costs}\n\n{markdown(['data set', 'cells where both profiles gave the same columns and score'], lines)}"


EXPERIMENT = Experiment(
    name="security_cost",
    question="What does encryption cost, and does it change the result?",
    datasets=("MADELON",),
    variants=(
        Variant("plain", partial(measure_job, profile="plain")),
        Variant("masked", partial(measure_job, profile="masked")),
        *filter_cost.VARIANTS,
    ),
    table=table,
    preset="default",
)

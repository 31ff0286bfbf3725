"""Communication: embedding values per prediction and over the whole training, in the clear at four bytes each.

Encryption multiplies them by a factor that depends on key and packing, not on the method; `security_cost` counts real
messages. Embeddings start with 100 values per client, as in the paper: there is something to close. FedSDG-FS appears
without its embedding gates, too, so that what they save stands beside what they cost.

The gates of the embedding start half open at every client, and are pushed twice as hard as in the headline table:
there, 32 values start and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fedsdg.baselines.fedsdg_fs import FedSDG
from fedsdg.baselines.original_gate import OriginalGate
from fedsdg.experiments.cell import Cell, Row
from fedsdg.experiments.experiment import Experiment, Variant
from fedsdg.experiments.gate_paths import record_path
from fedsdg.experiments.measure import VALUE_BYTES
from fedsdg.experiments.methods import ALL, label
from fedsdg.experiments.statistics import group, lead
from fedsdg.experiments.tables import field_summary, field_text, label_of, markdown, score_text
from fedsdg.learning.gate_initialization import HALF_OPEN

PAPER_EMBEDDING = 100
NARROW = 32
"""A last model that simply starts as narrow as the gates ever make it: what is gained by choosing the dimensions."""
STARTS_NARROW = f"fedsdg@width {NARROW}"


def with_paper_embeddings(cell: Cell) -> Cell:
    """Return the cell with the paper's 100 embedding values per client, and a penalty on each that closes them."""
    config = cell.config
    return cell.changed(
        config=config.with_changes(
            gated_phase=config.gated_phase.model_copy(update={"embedding": PAPER_EMBEDDING}),
            compact_phase=config.compact_phase.model_copy(update={"embedding": PAPER_EMBEDDING}),
            penalty=config.penalty.model_copy(update={"embedding_strength": 0.002}),
            gates=config.gates.model_copy(update={"embedding_start": HALF_OPEN}),
        )
    )


def _gates(
    cell: Cell, method: FedSDG | OriginalGate, embedding_gates: bool = True, last_width: int = PAPER_EMBEDDING
) -> Row:
    cell = with_paper_embeddings(cell)
    config = method.config(cell.vertical.config)
    if not embedding_gates:
        config = config.with_changes(
            gates=config.gates.model_copy(update={"embedding_gates": False}),
            compact_phase=config.compact_phase.model_copy(update={"embedding": last_width}),
        )
    row = record_path(cell, config)
    row["training_bytes"] = VALUE_BYTES * row.pop("training_values")
    del row["curve"]
    return row


def _all(cell: Cell) -> Row:
    cell = with_paper_embeddings(cell)
    row = ALL.measure(cell)
    phase = cell.vertical.config.compact_phase
    batch = min(phase.batch_size, len(cell.vertical.train_rows))
    return row | {"training_bytes": VALUE_BYTES * 2 * phase.steps * batch * row["embedding_open"]}


def table(rows: Sequence[Row]) -> str:
    """Return bytes per 100 predictions and for training, what is saved against all features, and what that costs."""
    lines = []
    for name, methods in group(rows).items():
        whole = field_summary(methods["all"], "bytes").mean if "all" in methods else float("nan")
        for method, of in methods.items():
            saved = 1 - field_summary(of, "bytes").mean / whole
            lines.append(
                [
                    label_of(name, of),
                    label(method),
                    score_text(of),
                    field_text(of, "embedding_open", ".1f"),
                    field_text(of, "bytes", ",.0f"),
                    f"{saved:.0%}" if saved == saved else "-",
                    field_text(of, "training_bytes", ",.0f"),
                ]
            )
    header = [
        "data set",
        "method",
        "test",
        "embedding values",
        "bytes for 100 predictions",
        "saved",
        "bytes for training",
    ]
    return "\n\n".join([markdown(header, lines), *_verdict(rows)])


def _verdict(rows: Sequence[Row]) -> list[str]:
    """Say on which sets more than half is saved for at most one point against the same method without these gates.

    Beside it, what the gates' own choice of dimensions is worth: against a last model that simply starts narrow.
    """
    met: list[str] = []
    missed: list[str] = []
    beside_narrow: list[str] = []
    for name, methods in group(rows).items():
        with_gates, without = methods.get("fedsdg"), methods.get("fedsdg@no embedding gates")
        if with_gates is None or without is None or "all" not in methods:
            continue
        saved = 1 - field_summary(with_gates, "bytes").mean / field_summary(methods["all"], "bytes").mean
        points = 100 * lead(with_gates, without)
        where = met if saved > 0.5 and points >= -1 else missed
        where.append(f"{name} ({saved:.0%}, {points:+.1f})")
        if (narrow := methods.get(STARTS_NARROW)) is not None:
            beside_narrow.append(f"{name} {100 * lead(with_gates, narrow):+.1f}")
    if not met + missed:
        return []
    return [
        "Saved by FedSDG-FS, and its difference in points (R²: hundredths) to itself without embedding gates. More "
        f"than half for at most one point: {', '.join(met) or 'none'}. Not: {', '.join(missed) or 'none'}.",
        *(
            [f"Against a last model that starts with {NARROW} values instead: {', '.join(beside_narrow)}."]
            if beside_narrow
            else []
        ),
    ]


EXPERIMENT = Experiment(
    name="communication",
    question="How much is sent for 100 predictions, and during training?",
    datasets=("MADELON", "ARCENE", "BASEHOCK", "RELATHE", "PCMAC", "COIL20", "ISOLET", "GISETTE_SURROGATE", "FRIEDMAN"),
    variants=(
        Variant("all", _all),
        Variant("original_gate", partial(_gates, method=OriginalGate())),
        Variant("fedsdg@no embedding gates", partial(_gates, method=FedSDG(), embedding_gates=False)),
        Variant(STARTS_NARROW, partial(_gates, method=FedSDG(), embedding_gates=False, last_width=NARROW)),
        Variant("fedsdg", partial(_gates, method=FedSDG())),
    ),
    table=table,
)

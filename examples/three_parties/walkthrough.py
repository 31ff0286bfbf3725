"""From three parties' raw tables to predictions, in Python: `python walkthrough.py [FOLDER]`.

The same story as `walkthrough.sh`, with frames in memory instead of files (pandas frames if pandas is installed, polars
frames otherwise). It works in a new FOLDER (default: runs/three_parties_in_python) and takes about half a minute.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from judge import judge_scores, judge_selection, judge_steps
from make_tables import TRUTH, Tables, next_month, this_month

import fedsdg
from fedsdg.errors import DataError, RunStopped
from fedsdg.scoring import scores_frame

JOB = fedsdg.Job(
    profile="masked",  # everything between the parties is encrypted, with real keys
    checkpoint_every=10,
    server=fedsdg.LabelSource(
        name="bank",
        id="customer_id",
        target="defaulted",
        columns="all",  # the bank brings its own columns, too
        schema={  # what cannot be inferred, or would be inferred wrongly
            "account_opened": {"kind": "date", "format": "%d.%m.%Y"},
            "salary_band": {"kind": "ordinal", "levels": ("low", "middle", "high", "top")},
            "branch_code": "category",
        },
    ),
    clients={
        "phone_company": fedsdg.ClientSource(id="subscriber", schema={"phone_number": "ignore"}),
        "web_shop": fedsdg.ClientSource(id="member"),
    },
    training=fedsdg.TrainingConfig(  # smaller and shorter than the defaults: the story is easy, and a reader waits
        gated_phase={"steps": 60, "batch_size": 64, "embedding": 4},
        compact_phase={"steps": 40, "batch_size": 64, "embedding": 4, "outputs": 4},
        validation={"rule": "one_standard_error"},  # the fewest columns that lose nothing
    ),
)


def frames_of(tables: Tables) -> dict[str, Any]:
    """Return the frames that a party would have at hand."""
    if importlib.util.find_spec("pandas") is None:
        return dict(tables)
    return {party: table.to_pandas() for party, table in tables.items()}


def learn(frames: dict[str, Any], folder: Path) -> fedsdg.SelectionResult:
    """Learn together, be interrupted after 30 steps, and go on."""
    losses = []

    def watch(update: Any) -> None:
        if update.loss is not None:
            losses.append(update.loss)

    try:
        fedsdg.run(JOB, out=folder, frames=frames, watch=watch, stop=lambda: len(losses) >= 30)
    except RunStopped as stopped:
        print(f"interrupted: {stopped}")
    else:
        raise SystemExit("walkthrough: the run was not interrupted")
    return fedsdg.resume(folder, job=JOB, frames=frames)


def main(work: Path) -> None:
    """Tell the whole story, and check it."""
    run = work / "run"
    result = learn(frames_of(this_month()), run)
    print(f"test accuracy {result.metrics['test']:.3f}, {result.bytes['total'] / 1e6:.1f} MB, {result.notes[1]}")
    print(judge_steps((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()))

    # The selection, as scikit-learn would show it. The selector was never fitted in this process: it is loaded.
    selector = fedsdg.FedSDGSelector.load(run)
    print(f"selected {selector.get_feature_names_out().tolist()} of {selector.n_features_in_} columns")
    print(judge_selection({name: client.selected for name, client in selector.result_.clients.items()}, TRUTH))

    # What a prediction reads. All other columns may be missing from the new rows.
    print(f"needed: {fedsdg.Model.load(run).needed_columns}")

    tables, outcomes = next_month()
    new = frames_of(tables)
    everybody = fedsdg.predict(run, new)
    table = scores_frame(everybody, "customer_id")
    print(table.head(3))
    print(table["status"].value_counts(sort=True))
    print(judge_scores(table, outcomes))

    # One person alone gets the same score, to the last bit, as among all others.
    person = everybody.ids[np.flatnonzero(everybody.scored)[0]]
    alone = fedsdg.predict(run, new, ids=[person])
    assert everybody.probabilities is not None
    assert alone.probabilities is not None
    if not np.array_equal(alone.probabilities[0], everybody.probabilities[0]):
        raise SystemExit("walkthrough: one row alone scores differently")
    print(f"one row alone: {alone.probabilities[0].tolist()}, the same as among all others")

    # Nothing is made up for a party that is absent, or for a person whom it does not know.
    try:
        fedsdg.predict(run, {party: frame for party, frame in new.items() if party != "web_shop"})
    except DataError as refusal:
        print(f"refused: {refusal}")
    else:
        raise SystemExit("walkthrough: a prediction without the web shop was not refused")
    lacking = table.filter(pl.col("status") != "scored")
    if lacking.is_empty() or lacking["prediction"].null_count() < lacking.height:
        raise SystemExit("walkthrough: people whom a party does not know must have no score")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/three_parties_in_python"))

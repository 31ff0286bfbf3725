"""Compare a run and its scores with the truth, which only a made-up story has: `python judge.py FOLDER`.

FOLDER is where `walkthrough.sh` worked. The exit code is 1 if something is not as it should be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

PRECISION = 0.9
#: How much better than always naming the more frequent outcome scores must be.
MARGIN = 0.15


def judge_selection(selected: Mapping[str, Iterable[str]], truth: Mapping[str, Iterable[str]]) -> str:
    """Say how many of the selected columns matter; complain if too many do not."""
    chosen = {(party, column) for party, columns in selected.items() for column in columns}
    matter = {(party, column) for party, columns in truth.items() for column in columns}
    found = len(chosen & matter)
    if not chosen or found / len(chosen) < PRECISION:
        raise SystemExit(f"judge: only {found} of {len(chosen)} selected columns matter")
    return f"selected: {len(chosen)} columns, {found} of them matter; {len(matter)} columns matter in all"


def judge_scores(scores: pl.DataFrame, outcomes: pl.DataFrame) -> str:
    """Say how many predictions came true; complain if guessing would have done as well."""
    known = scores.filter(pl.col("status") == "scored").join(outcomes, on="customer_id")
    predicted, outcome = known["prediction"].to_numpy(), known["defaulted"].to_numpy()
    right = float(np.mean(predicted == outcome))
    most = float(np.unique(outcome, return_counts=True)[1].max() / len(outcome))
    if not right > most + MARGIN:
        raise SystemExit(f"judge: {right:.1%} right is hardly better than guessing ({most:.1%})")
    return f"next month: {right:.1%} of {known.height} predictions came true; guessing gets {most:.1%}"


def judge_steps(lines: Iterable[str]) -> str:
    """Say how many steps were recorded; complain if an interruption lost one or left one twice."""
    steps = [(line["phase"], line["step"]) for line in map(json.loads, lines) if line["phase"] != "gini"]
    for phase in ("gated", "compact"):
        numbers = [number for of_phase, number in steps if of_phase == phase]
        if numbers != list(range(1, len(numbers) + 1)):
            raise SystemExit(f"judge: the steps of the {phase} phase are not recorded once each")
    return f"steps: {len(steps)}, each recorded once, in spite of the interruption"


def main(folder: Path) -> None:
    """Judge what lies in a folder."""
    result = json.loads((folder / "run" / "selection.json").read_text(encoding="utf-8"))
    truth = json.loads((folder / "truth" / "columns.json").read_text(encoding="utf-8"))
    print(judge_steps((folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()))
    print(judge_selection({name: client["selected"] for name, client in result["clients"].items()}, truth))
    print(judge_scores(pl.read_csv(folder / "scores.csv"), pl.read_csv(folder / "truth" / "outcomes.csv")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

"""The demonstration: a bank, a phone company and a web shop select features together, securely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from fedsdg.api import run_tables
from fedsdg.config import COMPACT_PHASE, PhaseSettings, TrainingConfig
from fedsdg.datasets.named_tables import NamedTables, bank_loans
from fedsdg.job import RunSettings
from fedsdg.results import SelectionResult
from fedsdg.simulation import PartyTables, Update, score_with_all_features

ROWS = 3000
NOISE_COLUMNS = 40
#: Shorter and smaller than the defaults: the story is easy, and a newcomer waits.
TRAINING = TrainingConfig(
    gated_phase=PhaseSettings(steps=120),
    compact_phase=PhaseSettings(**{**COMPACT_PHASE.model_dump(), "steps": 200, "embedding": 4, "outputs": 4}),
)


@dataclass(frozen=True, eq=False)
class Demonstration:
    """The secure run, and the same model on all features for comparison."""

    story: NamedTables
    result: SelectionResult
    all_features_test: float


def demonstrate(out: Path, watch: Callable[[Update], None], settings: RunSettings | None = None) -> Demonstration:
    """Run the secure job on generated tables and write its folder."""
    settings = settings or RunSettings(profile="masked", key_bits=2048, checkpoint_every=0, training=TRAINING)
    story = bank_loans(ROWS, n_noise=NOISE_COLUMNS)
    data = PartyTables(story.labels, story.tables, story.label_owner)
    # Seeds are drawn from a fixed phrase, so that everybody sees the same selection; keys and shares are fresh.
    seeds = {name: f"fedsdg demonstration {name}".encode().ljust(32, b".") for name in ("server", *story.tables)}
    result = run_tables(data, settings, out=out, watch=watch, truth=story.relevant, private_seeds=seeds)
    return Demonstration(story, result, score_with_all_features(data, settings, seeds))


def write_tables(folder: Path, story: NamedTables) -> dict[str, Path]:
    """Write a story as CSV files with an id column, as parties would bring them."""
    ids = [f"C{number:06d}" for number in np.random.default_rng(7).permutation(900_000)[: len(story.labels)] + 100_000]
    paths = {story.label_owner: folder / f"{story.label_owner}.csv"}
    pl.DataFrame({"customer_id": ids, "defaulted": story.labels}).write_csv(paths[story.label_owner])
    for name, table in story.tables.items():
        paths[name] = folder / f"{name}.csv"
        columns = {column: np.round(table.values[:, j], 6) for j, column in enumerate(table.columns)}
        pl.DataFrame({"customer_id": ids, **columns}).write_csv(paths[name])
    return paths

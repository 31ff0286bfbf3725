"""Folders to report on: a small secure run with awkward names, and made-up rows of every experiment."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from real_rows import real_row

from fedsdg.api import describe
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.data.feature_table import FeatureTable
from fedsdg.experiments import catalogue
from fedsdg.job import RunSettings
from fedsdg.run_folder import RunFolder
from fedsdg.simulation import PartyTables, simulate

torch.set_num_threads(1)

EVIL = "<script>alert('x')</script>"
LEFT = (EVIL, "income & \"wealth\" | 'debt'", "left_noise")
RIGHT = ("right_signal", "right_noise_a", "right_noise_b", "right_copy")
TRUTH = {"left": frozenset(LEFT[:2]), "right": frozenset({"right_signal"})}
IDS = tuple(f"person-{number:04d}" for number in range(160))
MARKED_CELL = 7.654321
TRAINING = TrainingConfig(
    gated_phase=PhaseSettings(steps=30, batch_size=32, hidden=(8,), embedding=4),
    compact_phase=PhaseSettings(steps=10, batch_size=32, hidden=(8,), embedding=4, outputs=4),
    validation=ValidationSettings(every=5),
)
SEEDS = {name: f"the private seed of {name}".encode().ljust(32, b".") for name in ("server", "left", "right")}


def tables() -> PartyTables:
    """Two clients; three columns carry the label, and one is a copy that cannot be used."""
    stream = np.random.default_rng(5)
    left, right = stream.normal(size=(160, 3)), stream.normal(size=(160, 4))
    labels = np.where(1.5 * left[:, 0] + left[:, 1] + right[:, 0] > 0, "yes", "no")
    left[3, 1] = MARKED_CELL
    right[:, 3] = right[:, 0]
    ids = {"left": IDS, "right": IDS}
    columns = {"left": FeatureTable.of(left, LEFT), "right": FeatureTable.of(right, RIGHT)}
    return PartyTables(labels, columns, "bank", ids=IDS, client_ids=ids)


def make_run(out: Path, profile: str) -> Any:
    """Run the job with small keys, write its folder and return the simulation."""
    settings = RunSettings(profile=profile, training=TRAINING, ids="private")
    folder = RunFolder.create(out, SEEDS, settings)
    simulation = simulate(
        tables(),
        settings,
        private_seeds=SEEDS,
        watch=folder.watch(lambda update: None),
        allow_test_keys=True,
        key_bits=512,
        storage=folder.storage,
    )
    result = describe(simulation, TRUTH)
    folder.finish(simulation, result)
    return simulation


# --- Experiments ---------------------------------------------------------------------------------------------------


def make_rows(name: str, of: str | None = None, folds: int = 3, **changes: Any) -> list[dict[str, Any]]:
    """Return rows with the fields that this experiment really writes, and made-up numbers in them."""
    experiment = catalogue.find(name)
    stream = np.random.default_rng(0)
    rows = []
    for each in [of] if of else experiment.datasets[:2]:
        for number, variant in enumerate(experiment.methods_for(each)):
            real = real_row(name, variant.name)
            asked = {"dataset": each, "method": variant.name, "seed": 0, "folds": folds}
            for fold in range(folds):
                invented = _invented(stream, number, fold)
                row = {field: _filled(field, value, invented) for field, value in real.items()}
                row |= {**asked, "fold": fold, "config_hash": "settings", "commit": "abc"}
                if each == "FRIEDMAN":
                    row["r2"] = row.pop("accuracy")
                if each == "GISETTE_SURROGATE":
                    row["surrogate"] = True
                rows.append(row | changes)
    return rows


def _filled(field: str, value: Any, invented: dict[str, Any]) -> Any:
    """Return a made-up value where a real row has one: what it leaves empty stays empty."""
    if field == "curve":
        return [{key: entry[key] for key in value[0]} for entry in invented["curve"]]
    return value if value is None else invented.get(field, value)


def _invented(stream: np.random.Generator, number: int, fold: int) -> dict[str, Any]:
    selected = 5 + 3 * number
    return {
        "accuracy": 0.6 + 0.3 * float(stream.random()),
        "validation": 0.8,
        "selected": selected,
        "ratio": selected / 500,
        "columns": list(range(fold, fold + selected)),
        "precision": 0.9 - 0.01 * number,
        "recall": min(1.0, 0.1 * number),
        "embedding_open": 16 - number % 8,
        "bytes": 400 * (16 - number % 8),
        "training_bytes": 4_000_000 + 1000 * number,
        "parameters": 1000 * (number + 1),
        "chance": 0.5,
        "messages": 100,
        "job_seconds": 12.5 + number + fold,
        "job_bytes": 2_000_000 * (number % 2),
        "seconds": 2.0,
        "steps_to_half": 20.0,
        "steps_to_tenth": 40.0,
        "curve": [
            {
                "step": s,
                "open": 60 - s,
                "embedding": 16.0,
                "score": 0.5 + s / 200,
                "test": 0.4 + s / 200,
                "overlap": 0.5,
            }
            for s in map(float, range(10, 60, 10))
        ],
    }


def make_experiment(folder: Path, name: str, rows: list[dict[str, Any]] | None = None, **about: Any) -> Path:
    """Write an experiment's folder."""
    rows = make_rows(name) if rows is None else rows
    folder.mkdir(parents=True, exist_ok=True)
    description = {
        "name": name,
        "question": catalogue.find(name).question,
        "datasets": sorted({row["dataset"] for row in rows}),
        "folds": 3,
        "seeds": 1,
        "preset": "default",
        "config_hash": "settings",
        "versions": {"python": "3.11"},
        "sources": {},
        **about,
    }
    (folder / "experiment.json").write_text(json.dumps(description))
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


# --- Pages ---------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def drawings(page: str) -> list[ElementTree.Element]:
    """Return every SVG of a page; one that is not well formed is an error."""
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def words(drawing: ElementTree.Element) -> list[str]:
    """Return the texts of a drawing."""
    return [element.text or "" for element in drawing.iter("{http://www.w3.org/2000/svg}text")]

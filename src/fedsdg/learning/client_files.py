"""A client's part of a finished model as files, in its own folder, readable by its owner only.

::

    model.safetensors   bottom model, gates, preprocessing: cut down to the selected columns
    model.json          what it is: columns, sizes, settings, what the profile leaks (the model card, for programs)
    model_card.md       the same for people
    selection.json      gates and Gini scores of all own columns
    gate_path.safetensors   how the gates moved, in the order of selection.json: for the client's own report
    share.state         the share E of the interactive weights (not in `plain`), and the key of the dithers: secret
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedsdg.errors import StateFileError
from fedsdg.learning.bottom_model import BottomModelFactory
from fedsdg.learning.client_part import ClientPart
from fedsdg.learning.gate_path import GatePath
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.model_state import StateArrays
from fedsdg.learning.stochastic_gate import open_probabilities
from fedsdg.results import LEAKAGE, ClientSelection, to_json
from fedsdg.state_files import (
    damaged_if_unreadable,
    load_state,
    save_state,
    wide_from_array,
    wide_to_array,
    write_atomically,
)

FORMAT = 1
GATE_PATH = "gate_path.safetensors"


@dataclass(frozen=True, eq=False)
class SavedPart:
    """What a client loads to take part in a prediction."""

    run_id: bytes
    part: ClientPart | None
    """None: the client holds no selected column and is never asked."""
    share: NDArray[np.object_] | None = field(repr=False)
    sigma: int
    card: Mapping[str, Any]


def client_selection(client: LocalClient) -> ClientSelection:
    """Return the selection in the client's own column names."""
    names = client.table.columns
    gates = client.final_gates if client.final_gates is not None else np.zeros(len(names))
    gini = client.gini_scores.scores if client.gini_scores is not None else None
    return ClientSelection(
        selected=client.selected_columns,
        n_features=len(names),
        gates=dict(zip(names, (float(g) for g in gates), strict=True)),
        gate_probabilities=dict(
            zip(names, (float(p) for p in open_probabilities(gates, client.gate_sigma)), strict=True)
        ),
        gini=dict(zip(names, (float(g) for g in gini), strict=True)) if gini is not None else {},
        notes=client.notes,
    )


def write_client_files(
    folder: Path, client: LocalClient, run_id: bytes, *, share: NDArray[np.object_] | None, sigma: int, kept: bool
) -> None:
    """Write a client's files; `kept`: whether it took part in the phase that was kept; sigma 0: in the clear."""
    selection = client_selection(client)
    write_text(folder / "selection.json", to_json(asdict(selection), indent=1) + "\n")
    if client.gate_path is not None:
        write_arrays(folder / GATE_PATH, client.gate_path.to_arrays())
    profile = "masked" if sigma else "plain"
    card: dict[str, Any] = {
        "format": FORMAT,
        "party": client.client_id,
        "run_id": run_id.hex(),
        "profile": profile,
        "columns": selection.n_features,
        "selected": list(selection.selected),
        "leakage": LEAKAGE[profile],
        "sigma": sigma,
        "part": None,
    }
    if kept:
        part = client.part()
        arrays, card["part"] = part.to_parts()
        card |= {
            "inputs": len(part.input_scale),
            "needed_columns": list(part.encoder.needed_columns),
            "embedding_dimensions": len(part.open_dimensions),
        }
        write_arrays(folder / "model.safetensors", arrays)
        secret = {} if share is None else {"share": wide_to_array(share)}
        save_state(folder / "share.state", secret, {"dither_key": part.dither_key.hex()})
    write_text(folder / "model_card.md", _card_text(card))
    write_text(folder / "model.json", to_json(card, indent=1) + "\n")


def read_client_files(folder: Path, bottom_model: BottomModelFactory | None = None) -> SavedPart:
    """Load what `write_client_files` wrote."""
    card = read_card(folder)
    with damaged_if_unreadable(folder / "model.json"):
        run_id, facts = bytes.fromhex(card["run_id"]), card["part"]
        if facts is None:
            return SavedPart(run_id, None, None, card["sigma"], card)
        secret, secret_facts = load_state(folder / "share.state")
        part = ClientPart.from_parts(
            read_arrays(folder / "model.safetensors"), facts, bytes.fromhex(secret_facts["dither_key"]), bottom_model
        )
        share = wide_from_array(secret["share"]) if "share" in secret else None
        return SavedPart(run_id, part, share, card["sigma"], card)


def read_gate_path(folder: Path) -> GatePath | None:
    """Read how a client's gates moved; runs of earlier versions did not record it."""
    path = folder / GATE_PATH
    if not path.is_file():
        return None
    with damaged_if_unreadable(path):
        return GatePath.from_arrays(read_arrays(path))


def read_card(folder: Path) -> dict[str, Any]:
    """Read a party's model.json."""
    path = folder / "model.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        fits = card["format"] == FORMAT
    except OSError as problem:
        raise StateFileError(f"Cannot read {path}: {problem.strerror or problem}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StateFileError(f"{path} is damaged: it is no model card.") from None
    if not fits:
        raise StateFileError(f"{path} was written by another version of fedsdg; train again, or use that version.")
    return dict(card)


def write_text(path: Path, text: str) -> None:
    """Write a text file that only its owner can read."""
    write_atomically(path, text.encode())


def write_arrays(path: Path, arrays: StateArrays) -> None:
    """Write a safetensors file that only its owner can read."""
    write_atomically(path, save({name: np.array(value, order="C") for name, value in arrays.items()}))


def read_arrays(path: Path) -> StateArrays:
    """Read a safetensors file."""
    try:
        return dict(load(path.read_bytes()))
    except OSError as problem:
        raise StateFileError(f"Cannot read {path}: {problem.strerror or problem}.") from None
    except (SafetensorError, ValueError):
        raise StateFileError(f"{path} is damaged: it is no safetensors file.") from None


def _card_text(card: Mapping[str, Any]) -> str:
    lines = [
        f"# Model part of {card['party']}",
        "",
        f"Run {card['run_id']}, profile `{card['profile']}`.",
        "",
        f"Selected {len(card['selected'])} of {card['columns']} columns: {', '.join(card['selected']) or 'none'}.",
    ]
    if card["part"] is None:
        lines += ["", "This party holds no selected column: predictions do not need it."]
    else:
        lines += [
            f"Inputs of the bottom model: {card['inputs']}. It sends {card['embedding_dimensions']} embedding values "
            "per row.",
            "",
            "A prediction reads these columns: " + ", ".join(card["needed_columns"]) + ".",
        ]
    return "\n".join([*lines, "", f"What leaks: {card['leakage']}", ""])

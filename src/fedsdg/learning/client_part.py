"""A client's part of a finished model: its selected columns to quantised embeddings, and nothing else.

::

    G   = embed(table)        prepared selected columns -> bottom model -> open embedding dimensions, as integers
    tau = dither(G)           a keyed function of each row of G

Gates stand still now, so they are numbers to multiply with, and a shut gate's column is cut out of the bottom model.
It computes in double precision: a row scored alone and the same row scored among others give the same integers.
For the same reason, and because an answer that is repeated must not differ, tau depends on the row and on nothing else:
asking again teaches nothing, and rows that differ have independent dithers.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedsdg.config import TrainingConfig
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.encoding import TableEncoder
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError
from fedsdg.learning.bottom_model import BottomModelFactory, build_bottom_model
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.fixed_point_layer import quantize
from fedsdg.learning.model_state import StateArrays, model_from_arrays, model_to_arrays
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.state_files import under_prefix, with_prefix

#: Rows that are embedded at once.
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class ClientPart:
    """What a client needs to take part in a prediction, besides its share of the interactive weights."""

    plan: PhasePlan
    encoder: TableEncoder
    module: nn.Module
    input_scale: FloatArray
    """The gate of every input."""
    embedding_scale: FloatArray
    """The gate of every embedding dimension."""
    open_dimensions: IntArray
    custom_module: bool
    dither_key: bytes = field(repr=False)

    @classmethod
    def of(
        cls, learner: ClientLearner, encoder: TableEncoder, selected: IntArray, streams: RandomStreams
    ) -> ClientPart:
        """Cut a trained learner down to its selected columns."""
        plan, owner = learner.plan, encoder.feature_of_input
        used = np.isin(owner, selected)
        gates = np.ones(len(owner)) if learner.input_gates is None else learner.input_gates.expected().numpy()[owner]
        arrays = model_to_arrays(learner.module, None)
        if learner.custom_module and plan.gated:
            used = np.ones(len(owner), dtype=bool)  # a party's own module cannot be cut: shut gates multiply by 0
            selected = np.unique(owner)
        elif plan.gated:
            first = _first_weight(learner.module)
            arrays[first] = arrays[first][:, used]
        if learner.custom_module:
            module = copy.deepcopy(learner.module)
        else:
            module = build_bottom_model(
                plan.config.model, int(used.sum()), plan.settings, learner.width, RandomStreams(bytes(32))
            )
        model_from_arrays(module, None, arrays)
        of_embedding = learner.embedding_gates
        return cls(
            plan,
            encoder.restricted(selected),
            module.double().eval(),
            np.asarray(gates[used], np.float64),
            np.ones(learner.width) if of_embedding is None else np.asarray(of_embedding.expected().numpy(), np.float64),
            np.array(learner.open_dimensions(), dtype=np.int64),
            learner.custom_module,
            streams.key("dither"),
        )

    @property
    def outputs(self) -> int:
        """Values per row that the server gets of this client's part."""
        return self.plan.outputs if self.plan.config.interactive == "dense" else len(self.open_dimensions)

    def check(self, table: FeatureTable, owner: str) -> None:
        """Refuse a table without the columns that the model needs."""
        missing = [name for name in self.encoder.needed_columns if name not in table.columns]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(f"{owner}: the rows to predict have no column {missing[0]!r}{more}; the model needs it.")

    def embed(self, table: FeatureTable) -> IntArray:
        """Return quantised embeddings: rows x open dimensions."""
        settings = self.plan.config.fixed_point
        prepared = self.encoder.transform(table)
        parts = []
        with torch.no_grad():
            for start in range(0, len(prepared), CHUNK):
                rows = prepared[start : start + CHUNK].astype(np.float64) * self.input_scale
                embedding = self.module(torch.from_numpy(rows)).numpy() * self.embedding_scale
                kept = embedding[:, self.open_dimensions]
                parts.append(quantize(kept, settings.embedding_fraction_bits, settings.embedding_bits)[0])
        return np.concatenate(parts)

    def dither(self, embeddings: IntArray) -> IntArray:
        """Return tau for these rows."""
        bits = self.plan.config.fixed_point.forward_dither_bits
        rows = np.ascontiguousarray(embeddings, "<i8")
        raw = b"".join(hashlib.shake_256(self.dither_key + row.tobytes()).digest(8 * self.outputs) for row in rows)
        words = np.frombuffer(raw, "<u8").reshape(len(rows), self.outputs) >> np.uint64(63 - bits)
        return np.asarray(np.maximum(words.astype(np.int64) - (1 << bits), 1 - (1 << bits)))

    def to_parts(self) -> tuple[StateArrays, dict[str, Any]]:
        """Return arrays and facts without secrets; the dither key is kept apart."""
        arrays = model_to_arrays(self.module, None)
        arrays |= {
            "input_scale": self.input_scale,
            "embedding_scale": self.embedding_scale,
            "open_dimensions": self.open_dimensions,
        }
        arrays |= with_prefix("encoder/", self.encoder.to_arrays())
        return arrays, {
            "phase": self.plan.name,
            "sizes": self.plan.sizes(),
            "training": self.plan.config.model_dump(mode="json"),
            "encoder": self.encoder.to_json(),
            "custom_module": self.custom_module,
        }

    @classmethod
    def from_parts(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        facts: Mapping[str, Any],
        dither_key: bytes,
        bottom_model: BottomModelFactory | None = None,
    ) -> ClientPart:
        """Build the part again; a bottom model of the party's own needs its factory."""
        if facts["custom_module"] and bottom_model is None:
            raise ConfigError("This part has a bottom model of its own: pass the function that builds it.")
        plan = PhasePlan(facts["phase"], TrainingConfig(**facts["training"]), **facts["sizes"])
        encoder = TableEncoder.from_parts(under_prefix("encoder/", dict(arrays)), facts["encoder"])
        scale = np.asarray(arrays["input_scale"], np.float64)
        width = len(arrays["embedding_scale"])
        module = build_bottom_model(
            plan.config.model,
            len(scale),
            plan.settings,
            width,
            RandomStreams(bytes(32)),
            bottom_model if facts["custom_module"] else None,
        ).double()
        model_from_arrays(module, None, arrays)
        return cls(
            plan,
            encoder,
            module.eval(),
            scale,
            np.asarray(arrays["embedding_scale"], np.float64),
            np.asarray(arrays["open_dimensions"], np.int64),
            bool(facts["custom_module"]),
            dither_key,
        )


def _first_weight(module: nn.Module) -> str:
    """Return the name of the array that meets the inputs, in the built-in models."""
    return "model/weight" if isinstance(module, nn.Linear) else "model/0.weight"

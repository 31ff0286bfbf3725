"""The public widths of a mini-batch: both parties derive them from the settings, nobody sends them."""

from __future__ import annotations

import math

from fedsdg.config import TrainingConfig
from fedsdg.crypto.layouts import ValueBits


def value_bits(config: TrainingConfig, phase: str, sigma: int, rows: int) -> ValueBits:
    """Return the bits of the integers that meet in a training batch of that many rows."""
    fixed = config.fixed_point
    settings = config.gated_phase if phase == "gated" else config.compact_phase
    largest_step = (
        settings.interactive_learning_rate / rows * 2.0 ** (fixed.gradient_range_bits + fixed.step_fraction_bits)
    )
    return ValueBits(
        embedding=fixed.embedding_bits,
        gradient=fixed.gradient_bits,
        step=max(1, math.ceil(math.log2(largest_step + 1))),
        weight=fixed.weight_bits,
        sigma=sigma,
    )

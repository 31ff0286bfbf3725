"""One core, and a configuration for quick runs."""

from __future__ import annotations

import pytest
import torch

from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings

torch.set_num_threads(1)


@pytest.fixture
def short_config():
    """A run of seconds, for what does not depend on quality."""
    return TrainingConfig(
        gated_phase=PhaseSettings(hidden=(16,), steps=40, batch_size=64, top_hidden=(16,)),
        compact_phase=PhaseSettings(hidden=(16,), outputs=8, steps=60, batch_size=64, top_hidden=(16,)),
        validation=ValidationSettings(every=10),
    )

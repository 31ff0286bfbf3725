"""fedsdg: secure feature selection and training in vertical federated learning."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsdg.api import resume, run, run_tables
    from fedsdg.config import TrainingConfig
    from fedsdg.estimator import FedSDGSelector
    from fedsdg.job import Job, RunSettings, load_job
    from fedsdg.party_source import ClientSource, LabelSource
    from fedsdg.prediction import Model
    from fedsdg.results import SelectionResult
    from fedsdg.scoring import predict
    from fedsdg.simulation import PartyTables

try:
    __version__ = version("fedsdg")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "ClientSource",
    "FedSDGSelector",
    "Job",
    "LabelSource",
    "Model",
    "PartyTables",
    "RunSettings",
    "SelectionResult",
    "TrainingConfig",
    "__version__",
    "load_job",
    "predict",
    "resume",
    "run",
    "run_tables",
]

#: Public names and where they live. Loaded on first use: `import fedsdg.crypto` must not pull in torch.
_HOMES = {
    "ClientSource": "fedsdg.party_source",
    "FedSDGSelector": "fedsdg.estimator",
    "Job": "fedsdg.job",
    "LabelSource": "fedsdg.party_source",
    "Model": "fedsdg.prediction",
    "PartyTables": "fedsdg.simulation",
    "RunSettings": "fedsdg.job",
    "SelectionResult": "fedsdg.results",
    "TrainingConfig": "fedsdg.config",
    "load_job": "fedsdg.job",
    "predict": "fedsdg.scoring",
    "resume": "fedsdg.api",
    "run": "fedsdg.api",
    "run_tables": "fedsdg.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fedsdg' has no attribute {name!r}")

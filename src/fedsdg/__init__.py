"""fedsdg: secure feature selection and training in vertical federated learning."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsdg.api import run, run_tables
    from fedsdg.config import TrainingConfig
    from fedsdg.estimator import FedSDGSelector
    from fedsdg.job import Job, RunSettings, load_job
    from fedsdg.results import SelectionResult
    from fedsdg.simulation import PartyTables

try:
    __version__ = version("fedsdg")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "FedSDGSelector",
    "Job",
    "PartyTables",
    "RunSettings",
    "SelectionResult",
    "TrainingConfig",
    "__version__",
    "load_job",
    "run",
    "run_tables",
]

#: Public names and where they live. Loaded on first use: `import fedsdg.crypto` must not pull in torch.
_HOMES = {
    "FedSDGSelector": "fedsdg.estimator",
    "Job": "fedsdg.job",
    "PartyTables": "fedsdg.simulation",
    "RunSettings": "fedsdg.job",
    "SelectionResult": "fedsdg.results",
    "TrainingConfig": "fedsdg.config",
    "load_job": "fedsdg.job",
    "run": "fedsdg.api",
    "run_tables": "fedsdg.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fedsdg' has no attribute {name!r}")

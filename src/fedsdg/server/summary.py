"""What a run found, in numbers that the server may know."""

from __future__ import annotations

import platform
from importlib import metadata

from fedsdg.learning.training_result import TrainingResult
from fedsdg.server.run import Outcome


def metrics_of(outcome: Outcome, n_columns: int) -> dict[str, float | str | int]:
    """Return the metrics of a finished run."""
    result, objective = outcome.result, outcome.result.server.objective
    metrics: dict[str, float | str | int] = {
        "task": objective.task,
        "metric": "r2" if objective.task == "regression" else "accuracy",
        "validation": result.validation_score.value,
        "kept": result.kept,
        "steps": sum(len(losses) for losses in result.losses.values()),
        "n_selected": sum(result.n_selected.values()),
        "n_columns": n_columns,
        "clipped_gradients": result.clipped_gradients,
    }
    if outcome.test_score is not None:
        metrics["test"] = outcome.test_score.value
        metrics["test_standard_error"] = outcome.test_score.standard_error
        metrics["test_rows"] = len(outcome.test_rows)
    return metrics


def path_of(result: TrainingResult) -> tuple[dict[str, float], ...]:
    """Return the validation passes of the gated phase."""
    return tuple(
        {
            "step": point.step,
            "open_features": point.n_open,
            "score": point.score.value,
            "standard_error": point.score.standard_error,
        }
        for point in result.path
    )


def deciding_versions() -> dict[str, str]:
    """Return the versions that decide a result."""
    found = {"python": platform.python_version()}
    for package in ("fedsdg", "torch", "numpy", "gmpy2"):
        found[package] = metadata.version(package)
    return found

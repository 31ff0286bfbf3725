"""The task: how labels become targets, what the loss is, how a model is scored.

Losses are per sample. Their gradient by the interactive outputs is what a client's gradient is made of; the
1/batch of a mean loss belongs to the step size, so that the quantised gradients keep their scale whatever the
batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedsdg.config import Task
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.data.binning import bin_target
from fedsdg.errors import DataError
from fedsdg.learning.calibration import calibrated_row_losses, row_losses

MOST_CLASSES_GUESSED = 100
#: Probabilities are rounded here: below single precision, where a row's place in a batch could show.
PROBABILITY_DIGITS = 12


@dataclass(frozen=True)
class Score:
    """How good a model is on some rows: accuracy or R squared, higher is better."""

    value: float
    standard_error: float
    loss: float
    row_losses: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    """The calibrated loss of every row, in the order of the rows: two models are compared row by row."""

    def facts(self) -> dict[str, float]:
        """Return the numbers that describe all rows together."""
        return {"value": self.value, "standard_error": self.standard_error, "loss": self.loss}


@dataclass(frozen=True, eq=False)
class Objective:
    """One task over one set of labels (all rows; statistics from training rows only)."""

    task: Literal["binary", "multiclass", "regression"]
    targets: Tensor
    classes: NDArray[np.generic] | None
    """The labels in the order of their codes (classification)."""
    centre: float = 0.0
    spread: float = 1.0

    @classmethod
    def fit(cls, task: Task, labels: ArrayLike, train_rows: IntArray) -> Objective:
        """Encode labels; refuse labels that cannot be learned."""
        values = np.asarray(labels)
        if values.ndim != 1:
            raise DataError(f"labels must be one value per row, got {values.ndim} dimension(s)")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError("labels hold NaN or infinite values; drop those rows before the run")
        kind = guess_task(values) if task == "auto" else task
        if kind == "regression":
            return cls._regression(values, train_rows)
        classes, codes = np.unique(values, return_inverse=True)
        if len(np.unique(codes[train_rows])) < 2:
            raise DataError("the training rows hold a single class: there is nothing to tell apart")
        if kind == "binary":
            if len(classes) != 2:
                raise DataError(
                    f"a binary task needs two classes, the labels hold {len(classes)}; set task='multiclass'"
                )
            return cls("binary", torch.from_numpy(codes.astype(np.float32)), classes)
        return cls("multiclass", torch.from_numpy(codes.astype(np.int64)), classes)

    @classmethod
    def _regression(cls, values: NDArray[np.generic], train_rows: IntArray) -> Objective:
        try:
            numbers = values.astype(np.float64)
        except ValueError:
            raise DataError("a regression target must be numeric") from None
        centre, spread = float(numbers[train_rows].mean()), float(numbers[train_rows].std())
        if not spread > 0:
            raise DataError("the regression target is constant on the training rows: there is nothing to learn")
        scaled = torch.from_numpy(((numbers - centre) / spread).astype(np.float32))
        return cls("regression", scaled, None, centre, spread)

    @property
    def n_outputs(self) -> int:
        """Width of the top model's output: one logit, one per class, or one value."""
        return len(self.classes) if self.task == "multiclass" and self.classes is not None else 1

    @property
    def n_rows(self) -> int:
        """Number of labelled rows."""
        return len(self.targets)

    def per_sample_loss(self, outputs: Tensor, rows: IntArray) -> Tensor:
        """Return one loss per row."""
        return row_losses(self.task, outputs, self.targets[torch.from_numpy(rows)])

    def score(self, outputs: Tensor, rows: IntArray) -> Score:
        """Return accuracy or R squared with its standard error over these rows."""
        loss = float(self.per_sample_loss(outputs, rows).mean())
        targets = self.targets[torch.from_numpy(rows)]
        of_rows = calibrated_row_losses(self.task, outputs, targets).numpy()
        target = targets.numpy().astype(np.float64)
        count = len(rows)
        if self.task == "regression":
            errors = (outputs[:, 0].detach().numpy().astype(np.float64) - target) ** 2
            variance = max(float(target.var()), 1e-12)
            error = float(errors.std()) / variance / np.sqrt(count)
            return Score(1 - float(errors.mean()) / variance, error, loss, of_rows)
        accuracy = float((self.codes(outputs) == target).mean())
        # Two right and two wrong are added (Agresti and Coull): near 0 and 1 the plain formula claims certainty.
        likely = (accuracy * count + 2) / (count + 4)
        return Score(accuracy, float(np.sqrt(likely * (1 - likely) / (count + 4))), loss, of_rows)

    def codes(self, outputs: Tensor) -> IntArray:
        """Return predicted class codes (classification)."""
        predicted = (outputs[:, 0] > 0).long() if self.task == "binary" else outputs.argmax(dim=1)
        return np.asarray(predicted.numpy())

    def predictions(self, outputs: Tensor) -> NDArray[np.generic]:
        """Return predictions in the labels' own terms."""
        if self.classes is None:
            return np.asarray(outputs[:, 0].detach().numpy().astype(np.float64) * self.spread + self.centre)
        return self.classes[self.codes(outputs)]

    def probabilities(self, outputs: Tensor) -> FloatArray:
        """Return rows x classes probabilities (classification)."""
        if self.task == "regression":
            raise DataError("a regression has no class probabilities")
        # In double, and rounded: the last bits of a vectorised function depend on a row's place in the batch.
        outputs = outputs.detach().double()
        if self.task == "binary":
            positive = torch.sigmoid(outputs[:, :1])
            return np.asarray(np.round(torch.cat([1 - positive, positive], dim=1).numpy(), PROBABILITY_DIGITS))
        return np.asarray(np.round(torch.softmax(outputs, dim=1).numpy(), PROBABILITY_DIGITS))

    def gini_classes(self, rows: IntArray, target_bins: int) -> tuple[IntArray, int]:
        """Return class codes of these rows for the Gini score, and the number of classes."""
        values = self.targets.numpy()[rows]
        if self.task == "regression":
            codes = bin_target(values, target_bins)
            return codes, int(codes.max()) + 1
        assert self.classes is not None
        return values.astype(np.int64), len(self.classes)

    def split_rows(self, fraction: float, stream: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Split all rows into training and validation, class by class."""
        return split_rows(self.targets.numpy(), self.task != "regression", fraction, stream)


def guess_task(labels: NDArray[np.generic]) -> Literal["binary", "multiclass", "regression"]:
    """Guess the task: two values are binary, fractions or many numbers a regression, the rest classes."""
    distinct = np.unique(labels)
    if len(distinct) <= 2:
        return "binary"
    if labels.dtype.kind == "f" and np.any(distinct != np.floor(distinct)):
        return "regression"
    if labels.dtype.kind in "iuf" and len(distinct) > MOST_CLASSES_GUESSED:
        return "regression"
    return "multiclass"


def split_rows(
    labels: ArrayLike, stratify: bool, fraction: float, stream: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Split row numbers into training and validation; stratified, every class keeps a training row."""
    values = np.asarray(labels)
    groups = np.unique(values, return_inverse=True)[1] if stratify else np.zeros(len(values), dtype=np.int64)
    chosen: list[IntArray] = []
    for group in range(int(groups.max(initial=0)) + 1):
        members = stream.permutation(np.flatnonzero(groups == group))
        chosen.append(members[: min(len(members) - 1, round(fraction * len(members)))])
    validation = np.sort(np.concatenate(chosen)).astype(np.int64)
    training = np.setdiff1d(np.arange(len(values), dtype=np.int64), validation)
    if len(validation) == 0 or len(training) < 2:
        raise DataError(
            f"{len(values)} rows are too few to keep {fraction:.0%} of them for validation; add rows or "
            "raise validation.fraction"
        )
    return training, validation

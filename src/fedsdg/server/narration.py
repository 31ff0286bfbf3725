"""What the server's log tells of a run, for whoever operates it: phases, validation passes, the selection, the end.

All of it are numbers that the server has anyway, and none belongs to a single row, column or weight.
"""

from __future__ import annotations

import logging

from fedsdg.data.alignment import Alignment
from fedsdg.job import RunSettings
from fedsdg.learning.federation import Federation
from fedsdg.learning.objective import Score
from fedsdg.learning.training_result import Progress, TrainingResult

logger = logging.getLogger("fedsdg.server")


class Narration:
    """Says a phase's beginning and end once each, and the rest when it happens."""

    def __init__(self) -> None:
        self._phase = ""
        self._steps = 0
        self._since = 0.0

    def joined(self, federation: Federation, settings: RunSettings) -> None:
        """All clients are there."""
        columns = federation.columns()
        bits, backend = getattr(federation, "key_bits", None), getattr(federation, "backend", None)
        keys = "nothing is encrypted" if bits is None else f"{bits}-bit keys, back end {backend}"
        logger.info("profile %s, %s, %d client(s)", settings.profile, keys, len(columns))
        for name, count in columns.items():
            logger.info("client %r takes part with %d columns", name, count)

    def aligned(self, alignment: Alignment) -> None:
        """The common rows are known."""
        sizes = ", ".join(f"{name} {count}" for name, count in alignment.sizes.items())
        logger.info("aligned: %d ids in common (held: %s)", alignment.common, sizes)

    def rows(self, fit: int, test: int) -> None:
        """Rows are split."""
        logger.info("%d rows to train and validate with, %d to test with", fit, test)

    def starts(self, phase: str, seconds: float) -> None:
        """Another phase begins; the one before has ended."""
        if phase != self._phase:
            self.ends(seconds)
            self._phase, self._steps, self._since = phase, 0, seconds
            logger.info("%s phase: begins", phase)

    def ends(self, seconds: float) -> None:
        """The present phase has ended."""
        if self._phase:
            steps = f" after {self._steps} steps" if self._steps else ""
            logger.info("%s phase: ends%s, %.1f s", self._phase, steps, seconds - self._since)
            self._phase = ""

    def step(self, progress: Progress, open_embeddings: int | None, seconds: float) -> None:
        """One step was taken, perhaps with a validation pass."""
        self.starts(progress.phase, seconds)
        self._steps = progress.step
        logger.debug("%s step %d of %d: loss %.4f", progress.phase, progress.step, progress.steps, progress.loss)
        if progress.point is not None:
            logger.info(
                "%s step %d of %d: validation score %.4f, %d open features, %s open embedding dimensions",
                progress.phase,
                progress.step,
                progress.steps,
                progress.point.score.value,
                progress.point.n_open,
                open_embeddings,
            )

    def selected(self, result: TrainingResult) -> None:
        """Columns are chosen and the model that is kept is known."""
        counts = ", ".join(f"{name} {count}" for name, count in result.n_selected.items())
        scores = ", ".join(f"{phase} {score.value:.4f}" for phase, score in result.scores.items())
        logger.info("selected %d columns at step %d (%s)", sum(result.n_selected.values()), result.chosen.step, counts)
        logger.info("validation score: %s; the %s model is kept", scores, result.kept)

    def finished(self, test: Score | None, messages: int, size: int, seconds: float) -> None:
        """All clients keep their parts."""
        if test is not None:
            logger.info("test score %.4f (standard error %.4f)", test.value, test.standard_error)
        logger.info("finished: %d messages, %d bytes, %.1f s", messages, size, seconds)

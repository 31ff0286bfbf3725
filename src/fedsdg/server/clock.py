"""Where a run's seconds went."""

from __future__ import annotations

import time


class Clock:
    """Wall seconds by phase, from a clock that cannot be set back; earlier parts of a resumed run are added."""

    def __init__(self, before: dict[str, float] | None = None) -> None:
        self.seconds: dict[str, float] = dict(before or {})
        self._earlier = self.seconds.pop("total", 0.0)
        self._started = time.perf_counter()
        self._phase: str | None = None
        self._since = 0.0

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return self._earlier + time.perf_counter() - self._started

    def so_far(self) -> dict[str, float]:
        """Return all seconds up to now."""
        seconds = dict(self.seconds)
        if self._phase is not None:
            seconds[self._phase] = seconds.get(self._phase, 0.0) + time.perf_counter() - self._since
        return {**seconds, "total": self.total}

    def see(self, phase: str) -> None:
        """Note that a phase is going on."""
        if phase != self._phase:
            self.stop()
            self._phase, self._since = phase, time.perf_counter()

    def stop(self) -> None:
        """Close the present phase."""
        if self._phase is not None:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + time.perf_counter() - self._since
            self._phase = None

    def __call__(self, phase: str) -> _Span:
        """Measure a block of work."""
        return _Span(self, phase)


class _Span:
    def __init__(self, clock: Clock, phase: str) -> None:
        self._clock, self._phase = clock, phase

    def __enter__(self) -> None:
        self._clock.see(self._phase)

    def __exit__(self, *exc: object) -> None:
        self._clock.stop()

"""What a client lets a job ask of it: its own rules, in its own file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from fedsdg.config import Settings
from fedsdg.job import RunSettings

JobKind = Literal["train", "resume", "predict"]


class Policy(Settings):
    """A client's rules. What is not allowed here is refused with a reason, whoever asks."""

    kinds: tuple[JobKind, ...] = ("train", "resume", "predict")
    """What a job may do."""
    minimum_key_bits: int = Field(default=2048, ge=2048)
    minimum_sigma: int = Field(default=64, ge=40)
    maximum_queries_per_row: int = Field(default=100_000, ge=1)
    """How often one row may be embedded for the server, in one job."""
    columns: Literal["any"] | tuple[str, ...] = "any"
    """Columns that may take part. Rows that bring any other one are not used: a table or a view may have grown."""
    jobs: Literal["any"] | tuple[str, ...] = "any"
    """Hashes of the jobs that were looked at and approved; "any" trusts the rules above."""

    def forbidden_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that may not take part."""
        return () if self.columns == "any" else tuple(column for column in columns if column not in self.columns)

    def objection(self, job: Mapping[str, Any], hashed: str) -> str | None:
        """Return which rule a job breaks, or None."""
        kind = job["kind"]
        settings = RunSettings(**job["settings"])
        if kind not in self.kinds:
            return f"policy.kinds does not allow {kind!r}"
        if settings.profile != "masked":
            return f"the profile is {settings.profile!r}; between organisations only 'masked' is possible"
        if settings.key_bits < self.minimum_key_bits:
            return f"key_bits is {settings.key_bits}; policy.minimum_key_bits is {self.minimum_key_bits}"
        if settings.sigma < self.minimum_sigma:
            return f"sigma is {settings.sigma}; policy.minimum_sigma is {self.minimum_sigma}"
        if self.jobs != "any" and hashed not in self.jobs:
            return f"policy.jobs does not list this job ({hashed[:16]}...)"
        return None

"""Gates, snapshots and the selection itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register
from fedsdg.messages.session import Done


@register
@dataclass(frozen=True)
class GateCounts(Message):
    """A client's answer to `ReportGates`.

    Server learns: how many of the client's features and embedding dimensions are open; the sorted gate values without
    names only when a number of features is wished for. Names, positions and Gini scores stay with the client.
    """

    n_open: int
    open_means: tuple[float, ...]
    open_embeddings: int


@register
@dataclass(frozen=True)
class ReportGates(Request[GateCounts]):
    """Ask how many gates are open.

    Client learns: nothing.
    """

    with_values: bool

    reply: ClassVar = GateCounts


@register
@dataclass(frozen=True)
class SaveSnapshot(Request[Done]):
    """Remember the present state under a step.

    Client learns: when validation happens.
    """

    step: int

    reply: ClassVar = Done


@register
@dataclass(frozen=True)
class RestoreSnapshot(Request[Done]):
    """Go back to the state of a step.

    Client learns: which step scored best.
    """

    step: int

    reply: ClassVar = Done


@register
@dataclass(frozen=True)
class Selected(Message):
    """A client's answer to `SelectColumns`.

    Server learns: how many columns the client keeps.
    """

    count: int


@register
@dataclass(frozen=True)
class SelectColumns(Request[Selected]):
    """Fix the selected columns: all open ones, or a quota.

    Client learns: its quota.
    """

    quota: int | None

    reply: ClassVar = Selected


@register
@dataclass(frozen=True)
class UsePhase(Request[Done]):
    """Return to the model of a phase: the one that was kept.

    Client learns: which model is used from now on.
    """

    name: Literal["gated", "compact"]

    reply: ClassVar = Done

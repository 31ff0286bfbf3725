"""Which request may follow which: the protocol as a table.

::

    new -JoinRun-> joined -PrepareColumns-> prepared -CountLabels-> counting -FinishScores-> initialised
                                                     -StartGatesAlike---------------------> initialised
    initialised -StartPhase-> ready
    ready -EmbedBatch(training)-> embedded -RemoveShare-> waiting -ApplyGradient-> ready
    ready -EmbedBatch(other)----> looking  -RemoveShare-> ready
    ready: ReportGates, SaveSnapshot, RestoreSnapshot, SelectColumns, UsePhase, StartPhase stay ready

A client that is asked anything else refuses and keeps its state.
"""

from __future__ import annotations

from typing import Any

from fedsdg.errors import ProtocolError
from fedsdg.messages.base import Request
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, StartGatesAlike
from fedsdg.messages.secure_backward import ApplyGradient
from fedsdg.messages.secure_forward import EmbedBatch, RemoveShare, StartPhase
from fedsdg.messages.selection import ReportGates, RestoreSnapshot, SaveSnapshot, SelectColumns, UsePhase
from fedsdg.messages.session import JoinRun, PrepareColumns

FIRST_STATE = "new"

#: (state, request) -> next state. `EmbedBatch` for training is told apart below.
ORDER: dict[tuple[str, type[Request[Any]]], str] = {
    ("new", JoinRun): "joined",
    ("joined", PrepareColumns): "prepared",
    ("prepared", CountLabels): "counting",
    ("prepared", StartGatesAlike): "initialised",
    ("counting", FinishScores): "initialised",
    ("initialised", StartPhase): "ready",
    ("ready", StartPhase): "ready",
    ("ready", EmbedBatch): "looking",
    ("looking", RemoveShare): "ready",
    ("embedded", RemoveShare): "waiting",
    ("waiting", ApplyGradient): "ready",
    ("ready", ReportGates): "ready",
    ("ready", SaveSnapshot): "ready",
    ("ready", RestoreSnapshot): "ready",
    ("ready", SelectColumns): "ready",
    ("ready", UsePhase): "ready",
}


def next_state(state: str, request: Request[Any]) -> str:
    """Return the state after this request, or raise `ProtocolError` if it may not come now."""
    following = ORDER.get((state, type(request)))
    if following is None:
        allowed = sorted(kind.__name__ for (at, kind) in ORDER if at == state)
        raise ProtocolError(f"{type(request).__name__} may not come now; expected: {', '.join(allowed) or 'nothing'}.")
    if isinstance(request, EmbedBatch) and request.purpose == "training":
        return "embedded"
    return following

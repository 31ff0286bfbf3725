"""Which request may follow which: the protocol as a table.

::

    new -JoinRun-> joined -PrepareColumns-> prepared -CountLabels-> counting -FinishScores-> initialised
                                                     -StartGatesAlike---------------------> initialised
    prepared -ScoreColumns-> filtering -FinishFilter-> prepared
    joined -BlindIds-> aligning -TakeRows-> aligned -PrepareColumns-> prepared   (a client with ids insists on it)
    new: ProposeJob, ListCheckpoints stay new      new -ResumeRun-> ready
    new -JoinPrediction-> scoring -BlindIds-> scoring-aligning -TakeRows-> scoring
    scoring -EmbedBatch(prediction)-> scored -RemoveShare-> scoring
    initialised -StartPhase-> ready
    ready -EmbedBatch(training)-> embedded -RemoveShare-> waiting -ApplyGradient-> ready
    ready -EmbedBatch(other)----> looking  -RemoveShare-> ready
    ready: ReportGates, SaveSnapshot, RestoreSnapshot, SelectColumns, UsePhase, StartPhase, SaveCheckpoint and FinishRun
           stay ready

`EndRun` may come at any time and ends the run. A client that is asked anything else refuses and keeps its state.
"""

from __future__ import annotations

from typing import Any

from fedsdg.errors import ProtocolError
from fedsdg.messages.agreement import EndRun, ProposeJob
from fedsdg.messages.alignment import BlindIds, TakeRows
from fedsdg.messages.base import Request
from fedsdg.messages.filter_scores import FinishFilter, ScoreColumns
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, StartGatesAlike
from fedsdg.messages.prediction import JoinPrediction
from fedsdg.messages.secure_backward import ApplyGradient
from fedsdg.messages.secure_forward import EmbedBatch, RemoveShare, StartPhase
from fedsdg.messages.selection import ReportGates, RestoreSnapshot, SaveSnapshot, SelectColumns, UsePhase
from fedsdg.messages.session import JoinRun, PrepareColumns
from fedsdg.messages.survival import FinishRun, ListCheckpoints, ResumeRun, SaveCheckpoint

FIRST_STATE = "new"

#: (state, request) -> next state. `EmbedBatch` for training is told apart below.
ORDER: dict[tuple[str, type[Request[Any]]], str] = {
    ("new", JoinRun): "joined",
    ("joined", PrepareColumns): "prepared",  # where rows have no ids, and are aligned already
    ("joined", BlindIds): "aligning",
    ("aligning", TakeRows): "aligned",
    ("aligned", PrepareColumns): "prepared",
    ("prepared", CountLabels): "counting",
    ("prepared", StartGatesAlike): "initialised",
    ("counting", FinishScores): "initialised",
    ("prepared", ScoreColumns): "filtering",
    ("filtering", FinishFilter): "prepared",
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
    ("ready", SaveCheckpoint): "ready",
    ("ready", FinishRun): "ready",
    ("new", ProposeJob): "new",
    ("new", ListCheckpoints): "new",
    ("new", ResumeRun): "ready",
    ("new", JoinPrediction): "scoring",
    ("scoring", BlindIds): "scoring-aligning",
    ("scoring-aligning", TakeRows): "scoring",
    ("scoring", EmbedBatch): "scored",
    ("scored", RemoveShare): "scoring",
}


def next_state(state: str, request: Request[Any]) -> str:
    """Return the state after this request, or raise `ProtocolError` if it may not come now."""
    if isinstance(request, EndRun):
        return "ended"
    following = ORDER.get((state, type(request)))
    if following is None:
        allowed = sorted(kind.__name__ for (at, kind) in ORDER if at == state)
        raise ProtocolError(f"{type(request).__name__} may not come now; expected: {', '.join(allowed) or 'nothing'}.")
    if isinstance(request, EmbedBatch):
        if (request.purpose == "prediction") != (state == "scoring"):
            raise ProtocolError(f"EmbedBatch for {request.purpose} may not come now.")
        if request.purpose == "training":
            return "embedded"
    return following

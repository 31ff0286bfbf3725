"""Before any key is made: the parties agree on the job, or say why not.

::

    S -> C   ProposeJob    C -> S   JobAnswer      the job as text, to be checked against the client's own policy
    S -> C   EndRun        C -> S   Done           when somebody refused, or the run is given up: why; or it is finished
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from fedsdg.messages.base import Message, Request
from fedsdg.messages.codec import register
from fedsdg.messages.session import Done

#: The reason of an `EndRun` after which nobody will go back to a checkpoint.
FINISHED = "finished"


def job_hash(job: str) -> str:
    """Return the name of a job that parties can compare and approve: it changes with every setting."""
    return hashlib.sha256(b"fedsdg job v1\n" + job.encode()).hexdigest()


@register
@dataclass(frozen=True)
class JobAnswer(Message):
    """A client's answer to `ProposeJob`.

    Server learns: whether the client takes part, which version it runs, and, if it refuses, which rule of its policy
    says so. Rules are about settings; no data is behind them.
    """

    accepted: bool
    reason: str
    package: str
    job_hash: str


@register
@dataclass(frozen=True)
class ProposeJob(Request[JobAnswer]):
    """Show a client the job before it makes a key.

    Client learns: the settings of the job, who takes part, and the server's version.
    """

    job: str  # canonical JSON
    package: str

    reply: ClassVar = JobAnswer


@register
@dataclass(frozen=True)
class EndRun(Request[Done]):
    """The run is given up, or finished: the server has its part of the model, and checkpoints can go.

    Client learns: why, in the server's words.
    """

    reason: str

    reply: ClassVar = Done

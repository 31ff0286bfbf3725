"""The server's checkpoints: written after the clients', so that what the server has, all have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from fedsdg.errors import RunStopped, StateFileError
from fedsdg.learning.federation import Federation
from fedsdg.messages.base import Channel
from fedsdg.messages.survival import CheckpointNumbers, ListCheckpoints
from fedsdg.state_files import Arrays, Checkpoints, Facts, under_prefix, with_prefix

logger = logging.getLogger("fedsdg.server")

State = tuple[Arrays, dict[str, Any]]


class RunKeeper:
    """Writes a checkpoint every so many steps, and stops a run cleanly when it is asked to."""

    def __init__(
        self,
        federation: Federation,
        checkpoints: Checkpoints | None,
        every: int,
        *,
        stop: Callable[[], bool] = lambda: False,
        extra: Callable[[], State] = lambda: ({}, {}),
        resumed: tuple[Arrays, Facts] | None = None,
    ) -> None:
        """`extra`: what the run around the procedure wants to keep; `resumed`: the checkpoint to go on from."""
        self._federation, self._checkpoints, self._every = federation, checkpoints, every
        self._stop, self._extra = stop, extra
        self._resumed = resumed
        steps = -1
        if resumed is not None:
            steps = sum(len(losses) for losses in resumed[1]["procedure"]["losses"].values())
            logger.info("resumed from the checkpoint after step %d", steps)
        if checkpoints is not None:
            checkpoints.forget_after(steps)  # as every client did when it joined

    @property
    def resumed(self) -> tuple[Arrays, Mapping[str, Any]] | None:
        """The procedure's part of the checkpoint."""
        if self._resumed is None:
            return None
        arrays, facts = self._resumed
        return under_prefix("procedure/", arrays), facts["procedure"]

    def after_step(self, steps: int, state: Callable[[], State]) -> None:
        """See `learning.federation.Keeper`."""
        stopping = self._stop()
        if self._checkpoints is not None and (stopping or (self._every and steps % self._every == 0)):
            self._federation.save_checkpoint(steps)
            parts = {"procedure": state(), "federation": self._federation.to_state(), "run": self._extra()}
            arrays: Arrays = {}
            for name, (of_part, _) in parts.items():
                arrays |= with_prefix(f"{name}/", of_part)
            self._checkpoints.save(steps, arrays, {name: facts for name, (_, facts) in parts.items()})
            logger.info("wrote checkpoint %d", steps)
        if stopping:
            raise RunStopped(f"The run was stopped after step {steps}.")


def newest_common(own: Checkpoints, of_clients: list[tuple[int, ...]]) -> int | None:
    """Return the newest checkpoint that every party can read, or None when a run has to start again."""
    for number in own.damaged():
        logger.warning("the server's checkpoint %d is damaged and cannot be used", number)
    common = set(own.numbers()).intersection(*of_clients)
    if not common:
        logger.warning("there is no checkpoint that all parties can read: the run starts again")
    return max(common) if common else None


def numbers_of_clients(channel: Channel, clients: list[str], run_id: bytes) -> list[tuple[int, ...]]:
    """Ask every client for the checkpoints of this run."""
    replies: Mapping[str, CheckpointNumbers] = channel.exchange(dict.fromkeys(clients, ListCheckpoints(run_id)))
    return [reply.numbers for reply in replies.values()]


def run_id_of(checkpoints: Checkpoints) -> bytes | None:
    """Return the run that the server's checkpoints belong to."""
    for number in reversed(checkpoints.numbers()):
        _, facts = checkpoints.load(number)
        try:
            return bytes.fromhex(facts["federation"]["run_id"])
        except (KeyError, ValueError):
            raise StateFileError(f"Checkpoint {number} was written by another version of fedsdg.") from None
    return None

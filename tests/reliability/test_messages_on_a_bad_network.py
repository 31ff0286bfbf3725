"""Messages that arrive twice, late, broken or too large: a client refuses, keeps its state, and the run goes on.

A carrier authenticates what it carries (TLS), so a changed number inside a well-formed message is not looked for here:
what a client can see is that bytes are no message, that a message is out of turn, and that it was answered before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from reliability_helpers import assert_same, run, settings, uninterrupted

from fedsdg.client.interactive_share import InteractiveShare
from fedsdg.errors import MalformedMessage, PeerError, ProtocolError
from fedsdg.messages import codec
from fedsdg.messages.base import Request
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.session import Done
from fedsdg.runtime.in_process import InProcessChannel

LAYERS = ["dense", "elementwise"]


def state_of(role) -> tuple:
    """What must not change when a request is refused."""
    state = role.state
    arrays, facts = state.local.to_state() if state.local._learners else ({}, {})
    return (
        state.order,
        state.phase,
        {name: share.share.tolist() for name, share in state.shares.items()},
        sorted(state.answered),
        sorted(state.share_snapshots),
        {name: value.tobytes() for name, value in arrays.items()},
        str(facts),
        state.pending_batch,
        None if state.session is None else state.session.run_id,
    )


class BadNetwork(InProcessChannel):
    """Before and after every request that should arrive, others do that should not."""

    def __init__(self, roles) -> None:
        super().__init__(roles)
        self.before: dict[str, list[bytes]] = {name: [] for name in roles}
        self.refused = self.repeated = 0

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return {client: self.deliver(client, blob) for client, blob in requests.items()}

    def deliver(self, client: str, blob: bytes) -> bytes:
        role, history = self.roles[client], self.before[client]
        for wrong in (*self.broken(blob), *self.out_of_turn(history, blob)):
            self.refuse(role, wrong)
        reply = role.answer(blob)
        state = state_of(role)
        for again in range(2):
            assert role.answer(blob) == reply, again  # the same bytes, and nothing was done twice
            assert state_of(role) == state
            self.repeated += 1
        history.append(blob)
        return reply

    @staticmethod
    def broken(blob: bytes) -> list[bytes]:
        kind = type(codec.decode(blob)).__name__.encode()
        other_kind = blob.replace(kind, bytes(reversed(kind)), 1)
        return [b"", blob[:-1], blob[: len(blob) // 2], blob + b"\0", b"\0" + blob, other_kind, blob[4:], bytes(100)]

    @staticmethod
    def out_of_turn(history: list[bytes], blob: bytes) -> list[bytes]:
        """Return old requests of this phase that may not come now; some may come again at any time, and are left out.

        Those of another phase are the carrier's business, which numbers requests: a look at the validation rows after
        the same number of steps is the same message in both phases.
        """
        anytime = (b"SaveSnapshot", b"RestoreSnapshot", b"ReportGates", b"SelectColumns", b"FinishRun")
        starts = [i for i, old in enumerate(history) if b"StartPhase" in old[:40] or b"UsePhase" in old[:40]]
        # The last one is answered from memory: it is tried where it arrives twice.
        recent = history[starts[-1] + 1 if starts else 0 : -1]
        return [old for old in recent[-6:] if not any(name in old[:40] for name in anytime)]

    def refuse(self, role, blob: bytes) -> None:
        state = state_of(role)
        assert isinstance(codec.decode(role.answer(blob)), Refusal)
        assert isinstance(role.last_error, MalformedMessage | ProtocolError), role.last_error
        assert state_of(role) == state
        self.refused += 1


@pytest.mark.parametrize("interactive", LAYERS)
def test_a_run_over_a_bad_network_finds_the_same_model(interactive):
    of_run = settings(interactive=interactive)
    simulation = run(of_run, channel_type=BadNetwork)
    assert simulation.channel.refused > 500
    assert simulation.channel.repeated > 100
    assert_same(simulation, uninterrupted(of_run))


def test_a_request_that_arrives_twice_draws_no_second_share(monkeypatch):
    drawn = []
    original = InteractiveShare._draw

    def draw(self, shape):
        drawn.append(shape)
        return original(self, shape)

    monkeypatch.setattr(InteractiveShare, "_draw", draw)
    run(settings())
    once = len(drawn)
    drawn.clear()
    run(settings(), channel_type=BadNetwork)
    assert len(drawn) == once > 10


class Swapped(InProcessChannel):
    """Brings every client the request of the other one."""

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        names = list(requests)
        return super().carry_all(dict(zip(names, reversed([requests[name] for name in names]), strict=True)))


def test_requests_that_reach_the_wrong_client_are_refused():
    with pytest.raises(PeerError, match="client 'left' refused JoinRun: ProtocolError"):
        run(settings(), channel_type=Swapped)


class Late(InProcessChannel):
    """Brings the server an old reply of the same client instead of the right one."""

    def __init__(self, roles, kind: str) -> None:
        super().__init__(roles)
        self.kind, self.last = kind, {}

    def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        replies = dict(super().carry_all(requests))
        kind = type(codec.decode(next(iter(requests.values())))).__name__
        old, self.last = self.last, replies
        return old if kind == self.kind and old.keys() == replies.keys() else replies


@pytest.mark.parametrize("kind", ["CountLabels", "StartPhase", "EmbedBatch", "RemoveShare", "FinishScores"])
def test_a_reply_to_another_request_is_refused_by_the_server(kind):
    with pytest.raises(PeerError, match=f"answered {kind} with"):
        run(settings(), channel_type=lambda roles: Late(roles, kind))


class TooLong(bytes):
    """Bytes that claim to be more than a message may be, without the memory."""

    def __len__(self) -> int:
        return codec.MAX_MESSAGE_BYTES + 1


def test_messages_that_are_too_large_are_refused_before_they_are_read():
    simulation = run(settings())
    role = simulation.channel.roles["left"]
    state = state_of(role)
    assert codec.decode(role.answer(TooLong(codec.encode(Done())))) == Refusal("MalformedMessage")
    assert "over the limit" in str(role.last_error)
    assert state_of(role) == state


def test_a_length_that_is_not_there_is_refused_without_memory_for_it():
    role = run(settings(retrain=False)).channel.roles["left"]
    state, start = state_of(role), codec.encode(Done())[:-5] + b"t" + (1).to_bytes(4, "little")
    for kind in (b"b", b"s", b"i", b"t"):
        claimed = start + kind + (2**32 - 1).to_bytes(4, "little")
        assert codec.decode(role.answer(claimed)) == Refusal("MalformedMessage")
        assert state_of(role) == state


@pytest.mark.parametrize("interactive", LAYERS)
def test_random_changes_of_structure_never_crash_a_client(interactive):
    """Any answer is allowed but a fault of ours: a flipped bit may make another well-formed request."""
    stream = np.random.default_rng(5)
    seen: list[bytes] = []

    class Fuzzed(InProcessChannel):
        def carry_all(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
            seen.extend(requests.values())
            return super().carry_all(requests)

    simulation = run(settings(interactive=interactive), channel_type=Fuzzed)
    role = simulation.channel.roles["left"]
    for blob in seen:
        for _ in range(4):
            changed = bytearray(blob)
            changed[int(stream.integers(0, min(len(blob), 80)))] ^= 1 << int(stream.integers(0, 8))
            answer = codec.decode(role.answer(bytes(changed)))
            if isinstance(answer, Refusal):
                assert answer.error != "InternalError", role.last_error
            else:
                assert not isinstance(answer, Request)

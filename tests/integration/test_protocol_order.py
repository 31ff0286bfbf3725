"""Both roles refuse what the protocol does not allow, keep their state, and then go on as if nothing had happened.

A client is brought into each state of `messages/order.py` by a real server that is stopped just before its next
request. The server is shown replies that a real client sent and somebody changed. A request that arrives again right
away, because its reply was lost, is answered with the same bytes and not carried out again.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedsdg.client.role import HANDLERS, ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.crypto import Encryptor, PrivateKey, PublicKey
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import (
    DataError,
    FedSDGError,
    InvalidCiphertext,
    InvalidPublicKey,
    KeyMismatch,
    MalformedMessage,
    PeerError,
    ProtocolError,
    SlotOverflow,
)
from fedsdg.job import RunSettings
from fedsdg.learning.client_files import SavedPart
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.two_phase_training import train
from fedsdg.messages import codec
from fedsdg.messages.agreement import EndRun, ProposeJob
from fedsdg.messages.alignment import TakeRows
from fedsdg.messages.base import Message, Request
from fedsdg.messages.filter_scores import FinishFilter
from fedsdg.messages.filter_statistics import label_columns
from fedsdg.messages.gini_initialization import CountLabels, FinishScores, MaskedCounts, StartGatesAlike
from fedsdg.messages.order import ORDER
from fedsdg.messages.prediction import JoinPrediction
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.secure_backward import ApplyGradient, ShareUpdate
from fedsdg.messages.secure_forward import (
    EmbedBatch,
    EncryptedEmbedding,
    MaskedSum,
    PhaseStarted,
    RemoveShare,
    StartPhase,
)
from fedsdg.messages.selection import (
    GateCounts,
    ReportGates,
    RestoreSnapshot,
    SaveSnapshot,
    SelectColumns,
    Selected,
    UsePhase,
)
from fedsdg.messages.session import Done, Joined, JoinRun, PrepareColumns, row_digest
from fedsdg.messages.survival import ListCheckpoints, ResumeRun, SaveCheckpoint
from fedsdg.runtime.in_process import InProcessChannel
from fedsdg.server.federation import MaskedFederation
from fedsdg.server.model_files import ServerPart
from fedsdg.server.prediction import PredictionSession

torch.set_num_threads(1)

BITS, N_ROWS, COLUMNS = 512, 60, 4
ME = "here"
SEED = b"a seed for tests, not a secret.."


def job(**changes) -> TrainingConfig:
    sizes = {"hidden": (4,), "embedding": 3, "outputs": 2, "batch_size": 12, "top_hidden": (4,)}
    return TrainingConfig(
        **{
            "gated_phase": PhaseSettings(steps=3, **sizes),
            "compact_phase": PhaseSettings(steps=2, **sizes),
            "validation": ValidationSettings(every=1),
            **changes,
        }
    )


def table_and_labels() -> tuple[FeatureTable, np.ndarray]:
    stream = np.random.default_rng(3)
    features = stream.standard_normal((N_ROWS, COLUMNS))
    return FeatureTable.of(features), (features[:, 0] > 0).astype(int)


IDS = tuple(f"person {i}" for i in range(N_ROWS))


def new_role(**more: Any) -> ClientRole:
    """A client whose rows are in order already; with ids, they are aligned first."""
    local = LocalClient(ME, table_and_labels()[0], SEED)
    return ClientRole(ClientState(local, minimum_key_bits=BITS, allow_test_keys=True, **more))


class StopHereError(Exception):
    """The server was stopped before it sent a request."""

    def __init__(self, request: Request[Any]) -> None:
        self.request = request


class StoppedChannel(InProcessChannel):
    """Carries messages until the first request that the test waits for."""

    def __init__(self, role: ClientRole, stop: Callable[[Request[Any]], bool]) -> None:
        super().__init__({ME: role})
        self.stop = stop

    def exchange(self, requests):
        if self.stop(requests[ME]):
            raise StopHereError(requests[ME])
        return super().exchange(requests)


def run_server(channel: InProcessChannel, config: TrainingConfig, seed: bytes = SEED) -> MaskedFederation:
    federation = MaskedFederation(channel, [ME], config, key_bits=BITS, sigma=64, n_rows=N_ROWS, allow_test_keys=True)
    if channel.roles[ME].state.ids is not None:
        federation.align(IDS, np.random.default_rng(1))
    train(federation, table_and_labels()[1], config, seed)
    federation.finish()
    return federation


@functools.cache
def finished_model() -> tuple[ServerPart, SavedPart]:
    """Both parts of a model that this client helped to train."""
    role, config = new_role(), job()
    federation = MaskedFederation(
        InProcessChannel({ME: role}), [ME], config, key_bits=BITS, sigma=64, n_rows=N_ROWS, allow_test_keys=True
    )
    result = train(federation, table_and_labels()[1], config, SEED)
    weights = {ME: federation.weights[ME].noisy}
    server = ServerPart(federation.run_id, RunSettings(training=config), result.server, weights, {})
    return server, SavedPart(federation.run_id, role.state.local.part(), role.state.share.share, 64, {})


def score_rows(channel: InProcessChannel) -> None:
    session = PredictionSession(
        channel, finished_model()[0], ids=None, n_rows=None, key_bits=BITS, allow_test_keys=True
    )
    session.align(IDS, np.random.default_rng(1))
    session.forward(N_ROWS)


def run_filter(channel: InProcessChannel) -> None:
    config = job()
    federation = MaskedFederation(channel, [ME], config, key_bits=BITS, sigma=64, n_rows=N_ROWS, allow_test_keys=True)
    federation.begin(config, np.arange(N_ROWS))
    federation.score_by_filter("chi2", label_columns("chi2", table_and_labels()[1], 2), 2)


def stopped_before(stop: Callable[[Request[Any]], bool], config: TrainingConfig | None = None, to: str = "train"):
    """Return a client, and the request that it would have got next."""
    ids = None if to in ("train", "filter") else IDS
    role = new_role(ids=ids, saved=finished_model()[1] if to == "score" else None)
    channel = StoppedChannel(role, stop)
    serve = {"filter": run_filter, "score": score_rows}.get(to, lambda over: run_server(over, config or job()))
    with pytest.raises(StopHereError) as stopped:
        serve(channel)
    return role, stopped.value.request


def _embed(purpose: str) -> Callable[[Request[Any]], bool]:
    return lambda r: isinstance(r, EmbedBatch) and r.purpose == purpose


def _remove(after: str) -> Callable[[Request[Any]], bool]:
    last: list[str] = [""]

    def stop(request: Request[Any]) -> bool:
        if isinstance(request, EmbedBatch):
            last[0] = request.purpose
        return isinstance(request, RemoveShare) and last[0] == after

    return stop


def _is(kind: type[Request[Any]]) -> Callable[[], Callable[[Request[Any]], bool]]:
    return lambda: lambda request: isinstance(request, kind)


#: How to stop the server when the client is in a state, and what the client was started for.
STOPS: dict[str, tuple[Callable[[], Callable[[Request[Any]], bool]], str]] = {
    "new": (_is(JoinRun), "train"),
    "joined": (_is(PrepareColumns), "train"),
    "aligning": (_is(TakeRows), "align and train"),
    "aligned": (_is(PrepareColumns), "align and train"),
    "prepared": (_is(CountLabels), "train"),
    "counting": (_is(FinishScores), "train"),
    "filtering": (_is(FinishFilter), "filter"),
    "initialised": (_is(StartPhase), "train"),
    "ready": (_is(EmbedBatch), "train"),
    "embedded": (lambda: _remove("training"), "train"),
    "looking": (lambda: _remove("validation"), "train"),
    "waiting": (_is(ApplyGradient), "train"),
    "scoring": (_is(EmbedBatch), "score"),
    "scoring-aligning": (_is(TakeRows), "score"),
    "scored": (_is(RemoveShare), "score"),
}


def fresh_client_in(state: str) -> tuple[ClientRole, Request[Any]]:
    stop, to = STOPS[state]
    role, following = stopped_before(stop(), to=to)
    assert role.state.order == state
    return role, following


@functools.cache
def client_in(state: str) -> tuple[ClientRole, Request[Any]]:
    """One client per state, shared: a refused request must leave no trace."""
    return fresh_client_in(state)


@functools.cache
def samples() -> dict[type[Request[Any]], Request[Any]]:
    """A request of every kind, from another run with other rows: none of them was ever sent in this one."""
    seen: dict[type[Request[Any]], Request[Any]] = {}

    def note(request: Request[Any]) -> bool:
        seen.setdefault(type(request), request)
        return False

    run_server(StoppedChannel(new_role(ids=IDS), note), job(seed=9), bytes(32))
    score_rows(StoppedChannel(new_role(ids=IDS, saved=finished_model()[1]), note))
    run_filter(StoppedChannel(new_role(), note))
    joined = seen[JoinRun]
    assert isinstance(joined, JoinRun)
    resume = ResumeRun(ME, joined.run_id, 2, joined.settings, BITS, 64, joined.server_key)
    others = (
        StartGatesAlike(),
        SelectColumns(1),
        SaveCheckpoint(2),
        ListCheckpoints(joined.run_id),
        resume,
        ProposeJob("{}", "1.0"),
        EndRun("it is over"),
    )
    return {type(request): request for request in others} | seen


def trace(role: ClientRole) -> str:
    """Everything a client holds, as text: any change shows."""

    def show(value: Any, depth: int = 0) -> Any:
        if isinstance(value, np.ndarray):
            return (value.shape, value.tolist() if value.dtype == object else value.tobytes().hex())
        if isinstance(value, torch.Tensor):
            return show(value.detach().numpy())
        if isinstance(value, dict):
            return {str(k): show(v, depth) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [show(v, depth) for v in value]
        if isinstance(value, set):
            return sorted(map(str, value))
        if dataclasses.is_dataclass(value) and depth < 4:
            return {f.name: show(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
        if hasattr(value, "snapshot"):
            return [show(value.snapshot()), str(getattr(value._pending, "step", None))]
        if hasattr(value, "first_noisy_weights"):
            return [show(v) for v in (value.share, value._batch, [int(p) for row in value._packed for p in row])]
        if type(value).__name__ == "LocalClient":
            return {k: show(v, depth + 1) for k, v in vars(value).items()}
        if value is None or isinstance(value, str | int | float | bytes):
            return repr(value)
        return f"{type(value).__name__} {id(value)}"

    return json.dumps(show(role.state))


def refusal_of(role: ClientRole, request: Request[Any] | bytes) -> str:
    """Ask; assert that the answer is a refusal with a type and nothing else; return the type."""
    answer = codec.decode(role.answer(request if isinstance(request, bytes) else codec.encode(request)))
    assert isinstance(answer, Refusal), type(answer).__name__
    assert [f.name for f in dataclasses.fields(answer)] == ["error"]
    assert re.fullmatch(r"[A-Z][A-Za-z]{3,30}", answer.error)
    assert role.last_error is not None
    return answer.error


STATES = tuple(STOPS)
KINDS = tuple(HANDLERS)
FORBIDDEN = [(state, kind) for state in STATES for kind in KINDS if (state, kind) not in ORDER and kind is not EndRun]


def test_the_order_table_speaks_of_all_states_and_requests():
    assert {state for state, _ in ORDER} == set(STATES)
    assert {kind for _, kind in ORDER} | {EndRun} == set(KINDS) == set(samples())
    assert set(ORDER.values()) | {"new", "embedded"} == set(STATES)


@pytest.mark.parametrize(("state", "kind"), FORBIDDEN, ids=[f"{s}-{k.__name__}" for s, k in FORBIDDEN])
def test_a_request_out_of_order_is_refused_and_changes_nothing(state, kind):
    role, _ = client_in(state)
    before = trace(role)
    assert refusal_of(role, samples()[kind]) == "ProtocolError"
    assert trace(role) == before


@pytest.mark.parametrize("state", STATES)
def test_bytes_that_are_no_request_are_refused_and_change_nothing(state):
    role, following = client_in(state)
    before = trace(role)
    blob = codec.encode(following)
    for garbage in (b"", b"FSMG", blob[:-1], blob + b"\0", bytes(64), blob[:4] + b"\x63" + blob[5:]):
        assert refusal_of(role, garbage) == "MalformedMessage"
    for reply in (Done(), Refusal("ProtocolError"), Selected(3)):
        assert refusal_of(role, codec.encode(reply)) == "ProtocolError"
    assert trace(role) == before


@pytest.mark.parametrize("state", STATES)
def test_after_all_refusals_the_right_request_is_answered(state):
    role, following = fresh_client_in(state)
    for kind in KINDS:
        if (state, kind) in FORBIDDEN:
            refusal_of(role, samples()[kind])
    answer = codec.decode(role.answer(codec.encode(following)))
    assert type(answer) is following.reply
    assert role.state.order != state or state == "ready"


@pytest.mark.parametrize("state", STATES)
def test_a_run_may_end_at_any_time_and_then_nothing_is_answered(state):
    role, following = fresh_client_in(state)
    assert codec.decode(role.answer(codec.encode(EndRun("it is over")))) == Done()
    before = trace(role)
    for request in (following, *(samples()[kind] for kind in KINDS if kind is not EndRun)):
        assert refusal_of(role, request) == "ProtocolError"
    assert trace(role) == before


# --- A request that arrives again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_the_same_request_right_away_gets_the_same_bytes_and_changes_nothing(state, monkeypatch):
    role, following = fresh_client_in(state)
    blob = codec.encode(following)
    first = role.answer(blob)
    before = trace(role)

    def drawn(*arguments):
        raise AssertionError("a share was drawn, or a request was carried out, for the second time")

    monkeypatch.setattr("fedsdg.client.interactive_share.signed", drawn)
    monkeypatch.setattr(ClientRole, "handle", drawn)
    for _ in range(3):
        assert role.answer(blob) == first
        assert trace(role) == before


def test_a_refusal_is_not_remembered():
    """The right request may come after a wrong one, and the wrong one is looked at again each time."""
    role, following = fresh_client_in("waiting")
    wrong = dataclasses.replace(following, step=following.step + 1)
    for _ in range(2):
        assert refusal_of(role, wrong) == "ProtocolError"
    assert isinstance(codec.decode(role.answer(codec.encode(following))), ShareUpdate)


@pytest.mark.parametrize(("passes", "state"), [(1, "looking"), (2, "embedded")])
def test_a_product_of_an_earlier_pass_that_arrives_late_is_refused(passes, state):
    """It names no step, so nothing but itself says that it is old."""
    late: list[Request[Any]] = []

    def note(request: Request[Any]) -> bool:
        if isinstance(request, RemoveShare):
            late.append(request)
        return len(late) > passes

    role, following = stopped_before(note)
    assert role.state.order == state
    before = trace(role)
    assert refusal_of(role, late[0]) == "ProtocolError"
    assert "removed from this product before" in str(role.last_error)
    assert trace(role) == before
    assert isinstance(codec.decode(role.answer(codec.encode(following))), MaskedSum)


# --- A request of the right kind with wrong contents ---------------------------------------------------------------


def width_of(key: PublicKey) -> int:
    return 2 * key.plain_bytes


def number(value: int, width: int) -> bytes:
    return int(value).to_bytes(width, "little")


def bad_arrays(blob: bytes, key: PublicKey, other: PublicKey) -> dict[str, tuple[bytes, set[str]]]:
    """Wrong encrypted arrays, and the errors that may answer them."""
    width, n = width_of(key), int(key.n)
    dimensions = blob[5]
    head, body = blob[: 22 + 4 * dimensions], blob[22 + 4 * dimensions :]
    one_more = (int.from_bytes(blob[22:26], "little") + 1).to_bytes(4, "little")
    ciphertext, malformed = {"InvalidCiphertext"}, {"MalformedMessage", "InvalidCiphertext"}
    return {
        "empty": (b"", malformed),
        "truncated": (blob[:-1], malformed),
        "one byte more": (blob + b"\0", malformed),
        "no header": (body, malformed | {"KeyMismatch"}),
        "another version": (blob[:4] + b"\x02" + blob[5:], malformed),
        "another key": (blob[:6] + other.fingerprint + blob[22:], {"KeyMismatch"}),
        "another shape": (blob[:22] + one_more + blob[26:], malformed),
        "too many dimensions": (blob[:5] + b"\xff" + blob[6:], malformed),
        "zero": (head + bytes(width) + body[width:], ciphertext),
        "n": (head + number(n, width) + body[width:], ciphertext),
        "a multiple of n": (head + body[:-width] + number(n * (n - 1), width), ciphertext),
        "n squared": (head + number(n * n, width) + body[width:], ciphertext),
        "all ones": (head + b"\xff" * width + body[width:], ciphertext),
    }


def keys_of(role: ClientRole, server_side: bool) -> tuple[PublicKey, PublicKey]:
    keys = role.state.joined.keys
    pair = (keys.under_server_key.key, keys.encryptor.key)
    return pair if server_side else pair[::-1]


def fingerprint_of(blob: bytes) -> bytes:
    return blob[6:22]


ARRAY_FIELDS = [
    ("prepared", "indicators"),
    ("embedded", "product"),
    ("looking", "product"),
    ("waiting", "weight_gradient"),
    ("waiting", "embedding_gradient"),
]


@pytest.mark.parametrize(("state", "field"), ARRAY_FIELDS)
def test_malformed_ciphertexts_are_refused_and_change_nothing(state, field):
    role, request = client_in(state)
    blob = getattr(request, field)
    server_key, own_key = keys_of(role, True)
    key, other = (server_key, own_key) if fingerprint_of(blob) == server_key.fingerprint else (own_key, server_key)
    before = trace(role)
    for name, (wrong, allowed) in bad_arrays(blob, key, other).items():
        assert refusal_of(role, dataclasses.replace(request, **{field: wrong})) in allowed, name
        assert trace(role) == before, name


def test_wrong_sums_of_scores_are_refused_and_change_nothing():
    role, request = client_in("counting")
    key = keys_of(role, True)[0]
    width, before = key.plain_bytes, trace(role)
    for wrong in (
        b"",
        request.sums[:-1],
        request.sums + b"\0",
        request.sums + bytes(width),
        number(key.n, width) + request.sums[width:],
        b"\xff" * len(request.sums),
        number(int(key.n) // 3, width) + request.sums[width:],  # in range, but not the sum of this client's counts
    ):
        assert refusal_of(role, dataclasses.replace(request, sums=wrong)) == "MalformedMessage"
        assert trace(role) == before


def fake_key(n: int) -> bytes:
    return PublicKey._HEADER.pack(PublicKey._MAGIC, 1, PublicKey._SCHEME, BITS) + number(n, BITS // 8)


PRIME = int(PrivateKey.generate(2 * BITS, allow_test_size=True).p)  # a prime of the size of a modulus
BAD_INVITATIONS: dict[str, Callable[[JoinRun], dict[str, Any]]] = {
    "for another client": lambda r: {"client": "elsewhere"},
    "a small key": lambda r: {"key_bits": 256},
    "a key size that is none": lambda r: {"key_bits": 2**40},
    "a negative key size": lambda r: {"key_bits": -1},
    "no key": lambda r: {"server_key": b""},
    "a truncated key": lambda r: {"server_key": r.server_key[:-1]},
    "a longer key": lambda r: {"server_key": r.server_key + bytes(8)},
    "a key of zeros": lambda r: {"server_key": fake_key(0)},
    "an even key": lambda r: {"server_key": fake_key((1 << (BITS - 1)) + 2)},
    "a prime key": lambda r: {"server_key": fake_key(PRIME)},
    "a key with a small factor": lambda r: {"server_key": fake_key(3 * ((1 << (BITS - 2)) // 3 * 2 + 1))},
    "another scheme": lambda r: {"server_key": r.server_key[:5] + b"\x02" + r.server_key[6:]},
    "settings that are no JSON": lambda r: {"settings": "{"},
    "settings that are a list": lambda r: {"settings": "[]"},
    "settings with an unknown name": lambda r: {"settings": '{"unknown": 1}'},
    "settings with a wrong value": lambda r: {"settings": '{"mc_samples": 0}'},
}


@pytest.mark.parametrize("change", BAD_INVITATIONS.values(), ids=BAD_INVITATIONS)
def test_a_wrong_invitation_is_refused_and_changes_nothing(change):
    role, request = client_in("new")
    before = trace(role)
    refusal_of(role, dataclasses.replace(request, **change(request)))
    assert trace(role) == before


def test_rows_that_are_said_to_be_in_order_and_are_not_are_refused():
    request = client_in("new")[1]
    role = new_role(ids=IDS)
    before = trace(role)
    wrong = dataclasses.replace(request, row_check=row_digest(request.run_id, IDS[::-1]))
    assert refusal_of(role, wrong) == "ProtocolError"
    assert trace(role) == before
    right = dataclasses.replace(request, row_check=row_digest(request.run_id, IDS))
    assert isinstance(codec.decode(role.answer(codec.encode(right))), Joined)
    assert role.state.ids is None  # nothing is left to align


def test_a_client_without_a_folder_has_no_checkpoint_to_go_back_to_and_writes_none():
    role, _ = client_in("new")
    before = trace(role)
    assert refusal_of(role, samples()[ResumeRun]) == "ProtocolError"
    assert trace(role) == before
    ready, _ = client_in("ready")
    before = trace(ready)
    assert refusal_of(ready, SaveCheckpoint(2)) == "ProtocolError"
    assert trace(ready) == before


@pytest.mark.parametrize("purpose", ["training", "validation", "test"])
def test_a_client_that_joined_to_score_rows_does_not_train(purpose):
    role, request = client_in("scoring")
    before = trace(role)
    assert refusal_of(role, dataclasses.replace(request, purpose=purpose)) == "ProtocolError"
    assert trace(role) == before
    trainer, embed = client_in("ready")
    before = trace(trainer)
    assert refusal_of(trainer, dataclasses.replace(embed, purpose="prediction")) == "ProtocolError"
    assert trace(trainer) == before


BAD_SCORINGS: dict[str, dict[str, Any]] = {
    "another model": {"run_id": bytes(16)},
    "another client": {"client": "elsewhere"},
    "a smaller sigma": {"sigma": 40},
    "a small key": {"key_bits": 256},
    "no key": {"server_key": b""},
    "rows in another order": {"row_check": bytes(32)},
}


@pytest.mark.parametrize("change", BAD_SCORINGS.values(), ids=BAD_SCORINGS)
def test_a_wrong_invitation_to_score_is_refused_and_changes_nothing(change):
    request = samples()[JoinPrediction]
    role = new_role(ids=IDS, saved=dataclasses.replace(finished_model()[1]))
    before = trace(role)
    refusal_of(role, dataclasses.replace(request, **change))
    assert trace(role) == before


def test_a_client_outside_tests_refuses_small_keys_and_small_sigma():
    request = client_in("new")[1]
    state = ClientState(LocalClient(ME, table_and_labels()[0], SEED))
    assert refusal_of(ClientRole(state), request) == "ProtocolError"
    big = dataclasses.replace(request, key_bits=2048, sigma=20)
    assert refusal_of(ClientRole(state), big) == "ConfigError"
    assert state.session is None


BAD_ROWS = {
    "outside": np.array([0, N_ROWS]),
    "negative": np.array([-1, 3]),
    "empty": np.empty(0, np.int64),
    "two-dimensional": np.arange(6).reshape(2, 3),
    "very large": np.array([2**62, 1]),
}


@pytest.mark.parametrize("rows", BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_that_a_client_does_not_have_are_refused_and_change_nothing(rows):
    for state, field in (("joined", "train_rows"), ("ready", "rows")):
        role, request = client_in(state)
        before = trace(role)
        refusal_of(role, dataclasses.replace(request, **{field: rows}))
        assert trace(role) == before


BAD_PHASES = {
    "no client": {"n_clients": 0},
    "no columns": {"total_columns": 0},
    "fewer columns than this client has": {"total_columns": COLUMNS - 1},
    "no training rows": {"n_train_rows": 0},
    "fewer training rows than were prepared": {"n_train_rows": 7},
    "more training rows than were prepared, before the last phase": {"n_train_rows": 11},
    "no outputs": {"task_outputs": 0},
    "negative outputs": {"task_outputs": -3},
}


@pytest.mark.parametrize("change", BAD_PHASES.values(), ids=BAD_PHASES)
def test_a_phase_with_impossible_sizes_is_refused_and_changes_nothing(change):
    role, request = client_in("initialised")
    before = trace(role)
    refusal_of(role, dataclasses.replace(request, **change))
    assert trace(role) == before


@pytest.mark.parametrize("n_classes", [-1, 0, 1, 3, 1 << 40])
def test_a_wrong_number_of_classes_is_refused_and_changes_nothing(n_classes):
    role, request = client_in("prepared")
    before = trace(role)
    refusal_of(role, dataclasses.replace(request, n_classes=n_classes))
    assert trace(role) == before


@pytest.mark.parametrize("purpose", ["training", "validation"])
def test_a_batch_is_embedded_once_for_each_step_and_purpose(purpose):
    role, request = stopped_before(_embed(purpose))
    assert isinstance(request, EmbedBatch)
    assert isinstance(codec.decode(role.answer(codec.encode(request))), EncryptedEmbedding)
    other_rows = dataclasses.replace(request, rows=request.rows[::-1].copy())
    assert refusal_of(role, other_rows) == "ProtocolError"  # the order forbids it now,
    role.state.order = "ready"
    before = trace(role)
    assert refusal_of(role, other_rows) == "ProtocolError"  # and it stays forbidden when the order would allow it
    assert "answered before" in str(role.last_error)
    with pytest.raises(ProtocolError, match="answered before"):  # the same rows, when their answer is forgotten
        role.handle(request)
    assert trace(role) == before


def test_a_gradient_is_applied_once():
    role, request = fresh_client_in("waiting")
    assert refusal_of(role, dataclasses.replace(request, step=request.step + 1)) == "ProtocolError"
    assert isinstance(codec.decode(role.answer(codec.encode(request))), ShareUpdate)
    before = trace(role)
    with pytest.raises(ProtocolError):
        role.handle(request)
    assert trace(role) == before


def test_scores_are_finished_once():
    role, request = fresh_client_in("counting")
    assert isinstance(codec.decode(role.answer(codec.encode(request))), Done)
    before = trace(role)
    other = dataclasses.replace(request, sums=request.sums[::-1])
    assert refusal_of(role, other) == "ProtocolError"
    with pytest.raises(ProtocolError):
        role.handle(request)
    assert trace(role) == before


def test_snapshots_phases_and_gate_values_that_are_not_there_are_refused():
    role, _ = client_in("ready")
    before = trace(role)
    assert refusal_of(role, RestoreSnapshot(12345)) == "ProtocolError"
    assert refusal_of(role, UsePhase("compact")) == "ProtocolError"
    assert refusal_of(role, SelectColumns(COLUMNS + 1)) == "ProtocolError"
    assert refusal_of(role, ReportGates(True)) == "ProtocolError"  # the job wishes no number of features
    assert trace(role) == before


@pytest.mark.parametrize("quota", [-1, -COLUMNS])
def test_a_negative_quota_is_refused_and_changes_nothing(quota):
    role, _ = client_in("ready")
    before = trace(role)
    refusal_of(role, SelectColumns(quota))
    assert trace(role) == before


def test_an_error_inside_a_client_becomes_a_refusal_without_details(monkeypatch, caplog):
    role, request = fresh_client_in("ready")
    secret = "the value 3.14159 of patient 4711"

    def broken(self, rows, step, training):
        raise ZeroDivisionError(secret)

    monkeypatch.setattr("fedsdg.learning.client_learner.ClientLearner.embed", broken)
    answer = role.answer(codec.encode(request))
    assert codec.decode(answer) == Refusal("InternalError")
    assert b"patient" not in answer
    assert "patient" not in caplog.text
    assert secret in str(role.last_error)


# --- Replies that a server must not believe ------------------------------------------------------------------------


class LyingChannel(InProcessChannel):
    """Lets a client answer, and changes the first reply of one kind."""

    def __init__(self, role: ClientRole, kind: type[Message], lie: Callable[[Any, LyingChannel], Message | bytes]):
        super().__init__({ME: role})
        self.kind, self.lie, self.told = kind, lie, False
        channel, honest = self, role.answer

        def answer(blob: bytes) -> bytes:
            reply = codec.decode(honest(blob))
            if type(reply) is channel.kind and not channel.told:
                channel.told = True
                changed = channel.lie(reply, channel)
                return changed if isinstance(changed, bytes) else codec.encode(changed)
            return codec.encode(reply)

        role.answer = answer  # type: ignore[method-assign]

    @property
    def keys(self):
        return self.roles[ME].state.joined.keys

    @property
    def n(self) -> int:
        return int(self.keys.encryptor.key.n)


def error_of(kind: type[Message], lie: Callable[..., Any], **changes) -> FedSDGError:
    channel = LyingChannel(new_role(), kind, lie)
    with pytest.raises(FedSDGError) as caught:
        run_server(channel, job(**changes))
    assert channel.told
    message = str(caught.value)
    assert len(message) > 15
    assert not re.search(r"[0-9a-f]{20}", message)  # no key, ciphertext or residue in an error
    return caught.value


def changed(**fields):
    return lambda reply, channel: dataclasses.replace(reply, **fields)


def test_the_lies_below_are_lies_and_the_rest_of_the_run_is_sound():
    channel = LyingChannel(new_role(), Joined, lambda reply, channel: reply)
    run_server(channel, job())
    assert channel.told


def test_a_client_with_other_rows_is_refused_by_name():
    error = error_of(Joined, changed(n_rows=N_ROWS + 1))
    assert isinstance(error, DataError)
    assert ME in str(error)


@pytest.mark.parametrize("n_columns", [0, -4])
def test_a_client_without_columns_is_refused(n_columns):
    error_of(Joined, changed(n_columns=n_columns))


@pytest.mark.parametrize(
    "key",
    [b"", b"FSPK", fake_key(PRIME), fake_key(0), fake_key((1 << BITS) - 2)],
    ids=["empty", "cut", "a prime", "zero", "even"],
)
def test_a_public_key_that_is_none_is_refused(key):
    assert isinstance(error_of(Joined, changed(public_key=key)), InvalidPublicKey | MalformedMessage)


PHASE_LIES = {
    "no width": lambda r, c: dataclasses.replace(r, width=0, noisy_weights=()),
    "negative width": lambda r, c: dataclasses.replace(r, width=-1),
    "another width": lambda r, c: dataclasses.replace(r, width=r.width + 1),
    "a weight less": lambda r, c: dataclasses.replace(r, noisy_weights=r.noisy_weights[:-1]),
    "a weight more": lambda r, c: dataclasses.replace(r, noisy_weights=(*r.noisy_weights, 0)),
    "a weight too wide": lambda r, c: dataclasses.replace(r, noisy_weights=(1 << 120, *r.noisy_weights[1:])),
    "a negative weight too wide": lambda r, c: dataclasses.replace(r, noisy_weights=(-1 << 120, *r.noisy_weights[1:])),
}


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
@pytest.mark.parametrize("lie", PHASE_LIES.values(), ids=PHASE_LIES)
def test_noisy_weights_of_the_wrong_number_or_size_are_refused_by_name(lie, interactive):
    error = error_of(PhaseStarted, lie, interactive=interactive)
    assert isinstance(error, ProtocolError)
    assert ME in str(error)


def test_negative_noisy_weights_of_an_elementwise_layer_are_refused():
    error_of(
        PhaseStarted,
        lambda r, c: dataclasses.replace(r, noisy_weights=(-5, *r.noisy_weights[1:])),
        interactive="elementwise",
    )


def test_a_training_batch_without_the_encrypted_share_is_refused():
    assert isinstance(error_of(EncryptedEmbedding, changed(share=None)), MalformedMessage)


def test_a_training_batch_without_its_second_layout_is_refused():
    error = error_of(EncryptedEmbedding, changed(by_sample=None), interactive="elementwise")
    assert isinstance(error, MalformedMessage)


@pytest.mark.parametrize("field", ["by_column", "by_sample", "share"])
def test_malformed_ciphertexts_of_a_batch_are_refused(field):
    key = PrivateKey.generate(BITS, allow_test_size=True)
    names = list(bad_arrays(bytes(40), key.public_key, key.public_key))
    for name in names:

        def lie(reply, channel, name=name):
            own, server = channel.keys.encryptor.key, channel.keys.under_server_key.key
            return dataclasses.replace(reply, **{field: bad_arrays(getattr(reply, field), own, server)[name][0]})

        error = error_of(EncryptedEmbedding, lie, interactive="elementwise")
        assert isinstance(error, MalformedMessage | InvalidCiphertext | KeyMismatch), name


RESIDUE_LIES = {
    "empty": lambda blob, n: b"",
    "a byte less": lambda blob, n: blob[:-1],
    "a residue more": lambda blob, n: blob + bytes(BITS // 8),
    "the modulus": lambda blob, n: number(n, BITS // 8) + blob[BITS // 8 :],
    "all ones": lambda blob, n: b"\xff" * len(blob),
}


@pytest.mark.parametrize("lie", RESIDUE_LIES.values(), ids=RESIDUE_LIES)
@pytest.mark.parametrize(("kind", "field"), [(MaskedSum, "values"), (ShareUpdate, "update")])
def test_residues_of_the_wrong_number_or_range_are_refused(kind, field, lie):
    error = error_of(
        kind,
        lambda r, c: dataclasses.replace(r, **{field: lie(getattr(r, field), c.n)}),
        interactive="elementwise",
    )
    assert isinstance(error, MalformedMessage)


@pytest.mark.parametrize("interactive", ["dense", "elementwise"])
def test_a_sum_that_leaves_its_slots_is_refused(interactive):
    def lie(reply, channel):
        width = BITS // 8
        shifted = (int.from_bytes(reply.values[:width], "little") + channel.n // 3) % channel.n
        return MaskedSum(number(shifted, width) + reply.values[width:])

    assert isinstance(error_of(MaskedSum, lie, interactive=interactive), SlotOverflow)


def test_an_update_that_leaves_its_slots_is_refused():
    def lie(reply, channel):
        width = BITS // 8
        shifted = (int.from_bytes(reply.update[:width], "little") + channel.n // 3) % channel.n
        return dataclasses.replace(reply, update=number(shifted, width) + reply.update[width:])

    assert isinstance(error_of(ShareUpdate, lie, interactive="elementwise"), SlotOverflow)


@pytest.mark.parametrize("kept", [(), (0, 0), (1, 0), (-1, 0), (0, 3), (2, 1, 0), (0, 1, 2, 3)])
def test_kept_dimensions_that_are_not_there_are_refused_by_name(kept):
    error = error_of(ShareUpdate, changed(kept=kept))
    assert isinstance(error, ProtocolError)
    assert ME in str(error)


def test_masked_counts_outside_their_slots_are_refused():
    def lie(reply, channel):
        key = channel.keys.under_server_key.key
        count = (len(reply.counts) - 26) // width_of(key)
        return dataclasses.replace(reply, counts=Encryptor(key).encrypt([int(key.n) - 1] * count).to_bytes())

    assert isinstance(error_of(MaskedCounts, lie), MalformedMessage)


@pytest.mark.parametrize("field", ["counts", "cross_terms"])
def test_malformed_masked_counts_are_refused(field):
    key = PrivateKey.generate(BITS, allow_test_size=True)
    for name in bad_arrays(bytes(40), key.public_key, key.public_key):

        def lie(reply, channel, name=name):
            own, server = channel.keys.encryptor.key, channel.keys.under_server_key.key
            return dataclasses.replace(reply, **{field: bad_arrays(getattr(reply, field), server, own)[name][0]})

        error = error_of(MaskedCounts, lie)
        assert isinstance(error, MalformedMessage | InvalidCiphertext | KeyMismatch), name


@pytest.mark.parametrize("lie", [changed(n_open=-1), changed(n_open=COLUMNS + 1), changed(open_embeddings=-1)])
def test_impossible_gate_counts_are_refused_by_name(lie):
    error = error_of(GateCounts, lie)
    assert isinstance(error, ProtocolError)
    assert ME in str(error)


GATE_VALUE_LIES = {
    "missing": changed(open_means=()),
    "not a number": lambda r, c: dataclasses.replace(r, open_means=(float("nan"),) * r.n_open),
    "negative": lambda r, c: dataclasses.replace(r, open_means=(-1.0,) * r.n_open),
}


@pytest.mark.parametrize("lie", GATE_VALUE_LIES.values(), ids=GATE_VALUE_LIES)
def test_impossible_gate_values_are_refused_by_name(lie):
    error = error_of(GateCounts, lie, n_features=1)
    assert isinstance(error, ProtocolError)
    assert ME in str(error)


@pytest.mark.parametrize("count", [-1, COLUMNS + 1])
def test_an_impossible_number_of_selected_columns_is_refused_by_name(count):
    error = error_of(Selected, changed(count=count))
    assert isinstance(error, ProtocolError)
    assert ME in str(error)


@pytest.mark.parametrize(
    "kind", [Joined, MaskedCounts, PhaseStarted, EncryptedEmbedding, MaskedSum, ShareUpdate, Selected]
)
def test_a_reply_of_another_kind_is_refused_by_name(kind):
    error = error_of(kind, lambda reply, channel: GateCounts(1, (), 1))
    assert isinstance(error, PeerError)
    assert ME in str(error)


@pytest.mark.parametrize("kind", [Joined, PhaseStarted, MaskedSum])
def test_a_refusal_stops_the_server_and_names_client_request_and_reason(kind):
    error = error_of(kind, lambda reply, channel: Refusal("KeyMismatch"))
    assert isinstance(error, PeerError)
    assert ME in str(error)
    assert "KeyMismatch" in str(error)


@pytest.mark.parametrize("blob", [b"", b"FSMG", bytes(100), codec.encode(SaveSnapshot(1))[:-1]])
def test_bytes_that_are_no_reply_are_refused(blob):
    assert isinstance(error_of(Joined, lambda reply, channel: blob), MalformedMessage | PeerError)

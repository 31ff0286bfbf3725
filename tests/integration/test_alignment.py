"""Alignment by blinded ids finds the same rows in the same order as in the clear, and both roles refuse all else.

Real roles talk over an in-process channel. A client's only column is the number of its row, so its table after the
alignment tells which rows it took.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import TrainingConfig
from fedsdg.crypto import PrivateKey
from fedsdg.crypto.blinded_ids import BlindingExponent, hash_ids
from fedsdg.data.alignment import Alignment, align_in_the_clear, common_row_order
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, DataError, FedSDGError, PeerError, ProtocolError
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages import codec
from fedsdg.messages.alignment import BlindedIds, BlindIds, TakeRows
from fedsdg.messages.base import Message, Request
from fedsdg.messages.refusal import Refusal
from fedsdg.messages.session import Done, JoinRun, PrepareColumns
from fedsdg.runtime.transcript import RecordingChannel
from fedsdg.server.alignment import align_rows

BITS = 256
RUN = b"a run for tests."
P = 2**255 - 19
NAMES = ("bank", "shop", "clinic", "school")
SERVER_KEY = PrivateKey.generate(BITS, allow_test_size=True).public_key.to_bytes()
SETTINGS = json.dumps(TrainingConfig().model_dump(mode="json"))


def role_with(ids: Sequence[str] | None, name: str = "bank", n_rows: int | None = None) -> ClientRole:
    count = n_rows or len(ids or ())
    local = LocalClient(name, FeatureTable.of(np.arange(count, dtype=float)[:, None]), b"a seed for tests")
    state = ClientState(local, minimum_key_bits=BITS, allow_test_keys=True)
    state.ids = None if ids is None else tuple(ids)
    return ClientRole(state)


def joined(client_ids: Mapping[str, Sequence[str]], run_id: bytes = RUN) -> RecordingChannel:
    """Return a channel to clients that have joined a run."""
    channel = RecordingChannel({name: role_with(ids, name) for name, ids in client_ids.items()})
    channel.exchange({name: JoinRun(name, run_id, SETTINGS, BITS, 64, SERVER_KEY, b"") for name in client_ids})
    return channel


def stream(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def rows_taken(role: ClientRole) -> list[int]:
    return [int(v) for v in role.state.local.table.values[:, 0]]


def people(*numbers: int) -> list[str]:
    return [f"person {n:05d}" for n in numbers]


# --- The same as in the clear ---------------------------------------------------------------------------------------

AWKWARD = (
    *("7", "007", "7.0", " 7", "7 ", "-7", "+7", "\u0667", "\uff17", "VII", "nan", "NULL", "0", "-0", "1e3", "1000"),
    *("é", "e\u0301", "ß", "ss", "İ", "i", "\U0001d518", "\u200b7", "\ufeff7", "a\nb", "a\tb", "a\0b", "a\0"),
    *("'; DROP TABLE people; --", "x" * 3000, "\U0010ffff", "👩‍👩‍👧", "👩", "\u202etxet", "C:\\id\\7", '"7"', "7,7"),
)
any_id = st.one_of(
    st.sampled_from(AWKWARD),
    st.integers(0, 40).map(str),
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12).filter(str.strip),
)


@st.composite
def parties(draw) -> tuple[list[str], dict[str, list[str]]]:
    """The ids of a server and of one to four clients, in any order, from one pool, so that many are common."""
    pool = draw(st.lists(any_id, unique=True, min_size=4, max_size=14))
    some = st.permutations(pool).flatmap(lambda ids: st.integers(2, len(ids)).map(lambda count: ids[:count]))
    return draw(some), {name: draw(some) for name in NAMES[: draw(st.integers(1, 4))]}


@given(parties(), st.integers(0, 2**60))
def test_private_alignment_equals_alignment_in_the_clear(ids, seed):
    ours, theirs = ids
    common = set(ours).intersection(*theirs.values())
    channel = joined(theirs)
    if len(common) < 2:
        for align in (
            lambda: align_in_the_clear(ours, theirs, stream(seed)),
            lambda: align_rows(channel, list(theirs), ours, RUN, stream(seed)),
        ):
            with pytest.raises(DataError, match=f"{len(common)} id"):
                align()
        return
    clear = align_in_the_clear(ours, theirs, stream(seed))
    private = align_rows(channel, list(theirs), ours, RUN, stream(seed))
    assert private.server_rows.dtype == clear.server_rows.dtype == np.int64
    assert private.server_rows.tobytes() == clear.server_rows.tobytes()
    assert (private.sizes, private.common, private.held) == (clear.sizes, clear.common, clear.held)
    assert private.client_rows is None
    ordered = [ours[row] for row in clear.server_rows]
    assert set(ordered) == common
    assert len(ordered) == clear.common == len(common)
    for name, role in channel.roles.items():
        assert {ours[row] for row in clear.held[name]} == set(ours) & set(theirs[name])
        assert clear.pairwise[name] == len(clear.held[name])
        assert rows_taken(role) == clear.client_rows[name].tolist() == role.state.rows.tolist()
        assert [theirs[name][row] for row in rows_taken(role)] == list(role.state.ids) == ordered
        assert role.state.order == "aligned"


def test_hundreds_of_ids_align_with_several_threads(monkeypatch):
    monkeypatch.setenv("FEDSDG_THREADS", "3")
    ours, theirs = people(*range(900)), {"bank": people(*range(1500, 100, -1)), "shop": people(*range(0, 1600, 2))}
    private = align_rows(channel := joined(theirs), list(theirs), ours, RUN, stream())
    clear = align_in_the_clear(ours, theirs, stream())
    assert private.server_rows.tolist() == clear.server_rows.tolist()
    assert {name: rows_taken(role) for name, role in channel.roles.items()} == {
        name: rows.tolist() for name, rows in clear.client_rows.items()
    }


# --- The common order -----------------------------------------------------------------------------------------------


@given(parties(), st.randoms(use_true_random=False))
def test_the_common_order_is_the_same_whatever_the_order_of_the_files(ids, shuffler):
    ours, theirs = ids
    if len(set(ours).intersection(*theirs.values())) < 2:
        return
    orders = []
    for _ in range(2):
        alignment = align_rows(joined(theirs), list(theirs), ours, RUN, stream())
        orders.append([ours[row] for row in alignment.server_rows])
        shuffler.shuffle(ours)
        for own in theirs.values():
            shuffler.shuffle(own)
    assert orders[0] == orders[1]


def test_the_common_order_says_nothing_about_a_file_that_is_sorted_by_label():
    ours = people(*range(400))
    order = align_in_the_clear(ours, {"bank": ours[::-1]}, stream()).server_rows.astype(float)
    place = np.arange(400.0)
    correlation = np.corrcoef(order, place)[0, 1]
    assert abs(correlation) < 5.3 / np.sqrt(400)
    assert abs(np.corrcoef(place, place)[0, 1]) > 5.3 / np.sqrt(400)  # the order of the file would be noticed


def test_another_stream_gives_another_order_and_the_same_stream_the_same():
    ids = people(*range(30))
    first = common_row_order(ids, stream(1))
    assert first == common_row_order(ids[::-1], stream(1)) != common_row_order(ids, stream(2))
    assert sorted(first) == ids


# --- Too few, too many, none ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0, 1])
def test_fewer_than_two_common_ids_are_an_error_that_tells_sizes_and_no_id(overlap):
    ours, theirs = people(*range(10)), {"bank": people(*range(10 - overlap, 30)), "shop": people(*range(5, 40))}
    channel = joined(theirs)
    for align in (
        lambda: align_in_the_clear(ours, theirs, stream()),
        lambda: align_rows(channel, list(theirs), ours, RUN, stream()),
    ):
        with pytest.raises(DataError) as caught:
            align()
        text = str(caught.value)
        for size in (overlap, 10, 20 + overlap, 35):
            assert str(size) in text
        assert "person" not in text
    for name, role in channel.roles.items():
        assert rows_taken(role) == list(range(len(theirs[name])))
    assert "TakeRows" not in {entry.kind for entry in channel.transcript}


@pytest.mark.parametrize("overlap", [0, 1])
def test_a_job_that_needs_fewer_rows_may_have_them(overlap):
    """To score rows, one common row is enough, and none is an answer, too: nobody takes rows then."""
    ours, theirs = people(*range(10)), {"bank": people(*range(10 - overlap, 30))}
    channel = joined(theirs)
    channel.roles["bank"].state.order = "scoring"
    private = align_rows(channel, ["bank"], ours, RUN, stream(), minimum=0)
    clear = align_in_the_clear(ours, theirs, stream(), minimum=0)
    assert private.server_rows.tolist() == clear.server_rows.tolist() == ([9] if overlap else [])
    assert private.held == clear.held == {"bank": frozenset(range(10 - overlap, 10))}
    assert rows_taken(channel.roles["bank"]) == ([0] if overlap else list(range(20)))
    if not overlap:
        with pytest.raises(DataError, match="at least 1"):
            align_in_the_clear(ours, theirs, stream(), minimum=1)


BAD_IDS = {
    "too few": (["canary 1"], "at least 2"),
    "none": ([], "at least 2"),
    "repeated": (["canary 1", "canary 2", "canary 1"], "repeat"),
    "empty": (["canary 1", "", "canary 2"], "empty"),
    "blank": (["canary 1", " \t"], "empty"),
    "half a character": (["canary 1", "canary \ud800"], "Unicode"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD_IDS.values(), ids=BAD_IDS)
def test_ids_that_cannot_name_rows_are_refused_and_not_quoted(bad, reason):
    good = ["canary 1", "canary 2", "canary 3"]
    attempts = [
        lambda: align_in_the_clear(bad, {"bank": good}, stream()),
        lambda: align_in_the_clear(good, {"bank": bad}, stream()),
        lambda: align_rows(joined({"bank": good}), ["bank"], bad, RUN, stream()),
    ]
    for attempt in attempts:
        with pytest.raises(DataError, match=reason) as caught:
            attempt()
        assert "canary" not in str(caught.value)


def test_a_client_whose_own_ids_are_wrong_refuses_and_does_not_quote_them():
    for ids, n_rows in ((["canary 1", "canary 1"], 2), (["canary 1", "canary 2"], 3)):
        role = role_with(ids, n_rows=n_rows)
        role.answer(codec.encode(JoinRun("bank", RUN, SETTINGS, BITS, 64, SERVER_KEY, b"")))
        assert refusal_of(role, a_list(people(1, 2, 3))) == "DataError"
        assert "canary" not in str(role.last_error)


@pytest.mark.parametrize("clients", [[], ["server"], ["bank", "bank"]])
def test_an_alignment_needs_clients_with_names_of_their_own(clients):
    with pytest.raises(ConfigError):
        align_rows(joined({"bank": people(1, 2)}), clients, people(1, 2), RUN, stream())


def test_the_report_tells_sizes_and_who_learned_what():
    ours, theirs = people(*range(1200)), {"bank": people(*range(100, 1300)), "shop": people(*range(1150))}
    private = " ".join(align_rows(joined(theirs), list(theirs), ours, RUN, stream()).report())
    for number in ("1,200", "1,150", "1,100", "1,050"):
        assert number in private
    assert "The server learned" in private
    assert "Each client learned" in private
    clear = " ".join(align_in_the_clear(ours, theirs, stream()).report())
    assert "in the clear" in clear
    assert "learned" not in clear
    assert "person" not in private + clear


# --- A client refuses what is not allowed, and keeps its state --------------------------------------------------------


def a_list(ids: Sequence[str]) -> BlindIds:
    return BlindIds(b"".join(BlindingExponent().blind(hash_ids(ids, RUN))))


def trace(role: ClientRole) -> tuple[Any, ...]:
    state = role.state
    pending = None if state.pending_alignment is None else state.pending_alignment.tobytes()
    rows = None if state.rows is None else state.rows.tobytes()
    return state.order, state.ids, rows, pending, state.local.table.values.tobytes(), id(state.session)


def refusal_of(role: ClientRole, request: Request[Any]) -> str:
    """Ask; assert that the answer is a refusal and that nothing has changed; return its type."""
    before = trace(role)
    answer = codec.decode(role.answer(codec.encode(request)))
    assert isinstance(answer, Refusal), type(answer).__name__
    assert trace(role) == before
    return answer.error


def in_state(state: str) -> ClientRole:
    role = joined({"bank": people(*range(6))}).roles["bank"]
    if state != "joined":
        assert isinstance(codec.decode(role.answer(codec.encode(a_list(people(*range(3, 9)))))), BlindedIds)
    if state == "aligned":
        assert codec.decode(role.answer(codec.encode(TakeRows(np.array([4, 0, 2]))))) == Done()
    assert role.state.order == state
    return role


def spelled(u: int) -> bytes:
    return u.to_bytes(32, "little")


def bad_points(good: bytes) -> dict[str, bytes]:
    """Lists of points that no honest party sends."""
    first = int.from_bytes(good[:32], "little")
    return {
        "part of a point": good[:-1],
        "a byte more": good + b"\0",
        "a repeated point": good[:-32] + good[:32],
        "a point with two spellings": spelled(first | 1 << 255) + good[32:],
        "p": spelled(P) + good[32:],
        "all ones": good[:-32] + b"\xff" * 32,
        "zero": spelled(0) + good[32:],
        "a point of order 4": spelled(1) + good[32:],
        "a point of order 8": good[:-32]
        + spelled(325606250916557431795983626356110631294008115727848805560023387167927233504),
        "a point of the twist": good[:-32] + spelled(2),
    }


GOOD_LIST = a_list(people(1, 2, 3, 4)).points


@pytest.mark.parametrize("points", bad_points(GOOD_LIST).values(), ids=bad_points(GOOD_LIST))
def test_a_client_refuses_a_list_that_no_honest_server_sends_and_keeps_its_state(points):
    role = in_state("joined")
    assert refusal_of(role, BlindIds(points)) == "InvalidPoint"
    answer = codec.decode(role.answer(codec.encode(BlindIds(GOOD_LIST))))
    assert isinstance(answer, BlindedIds)


@pytest.mark.parametrize("points", [b"", GOOD_LIST[:32]], ids=["nobody", "one person"])
def test_a_client_refuses_to_be_asked_about_nobody_or_about_one_person(points):
    assert refusal_of(in_state("joined"), BlindIds(points)) == "ProtocolError"


BAD_POSITIONS = {
    "none": np.empty(0, np.int64),
    "one": np.array([3]),
    "repeated": np.array([1, 2, 1]),
    "negative": np.array([1, -1]),
    "one too far": np.array([0, 6]),
    "far too far": np.array([2**62, 0]),
    "two-dimensional": np.array([[0, 1], [2, 3]]),
    "without dimensions": np.array(3),
}


@pytest.mark.parametrize("positions", BAD_POSITIONS.values(), ids=BAD_POSITIONS)
def test_a_client_refuses_positions_that_are_not_different_ones_of_its_list(positions):
    role = in_state("aligning")
    assert refusal_of(role, TakeRows(positions)) == "ProtocolError"
    assert codec.decode(role.answer(codec.encode(TakeRows(np.array([5, 0]))))) == Done()
    assert len(role.state.ids) == 2


def test_a_client_with_ids_insists_on_alignment():
    role = in_state("joined")
    assert refusal_of(role, PrepareColumns(np.arange(4))) == "ProtocolError"
    assert "aligned" in str(role.last_error)
    assert refusal_of(in_state("aligning"), PrepareColumns(np.arange(4))) == "ProtocolError"


def test_after_the_alignment_a_client_prepares_the_common_rows():
    channel = joined({"bank": people(*range(60))})
    align_rows(channel, ["bank"], people(*range(20, 80)), RUN, stream())
    role = channel.roles["bank"]
    assert refusal_of(role, PrepareColumns(np.array([0, 40]))) != "InternalError"  # there are 40 rows now
    assert codec.decode(role.answer(codec.encode(PrepareColumns(np.arange(30))))) == Done()
    assert role.state.order == "prepared"


def test_a_client_without_ids_takes_part_with_rows_as_they_are_and_compares_nothing():
    role = role_with(None, n_rows=40)
    role.answer(codec.encode(JoinRun("bank", RUN, SETTINGS, BITS, 64, SERVER_KEY, b"")))
    assert refusal_of(role, BlindIds(GOOD_LIST)) == "ProtocolError"
    assert codec.decode(role.answer(codec.encode(PrepareColumns(np.arange(30))))) == Done()


OUT_OF_ORDER = {
    "joined": [TakeRows(np.arange(2))],
    "aligning": [BlindIds(GOOD_LIST), PrepareColumns(np.arange(2))],
    "aligned": [BlindIds(GOOD_LIST), TakeRows(np.arange(2))],
}


@pytest.mark.parametrize("state", OUT_OF_ORDER)
def test_requests_of_the_alignment_come_once_and_in_their_order(state):
    role = in_state(state)
    for request in OUT_OF_ORDER[state]:
        assert refusal_of(role, request) == "ProtocolError"


def test_a_list_that_is_sent_again_is_not_blinded_again(monkeypatch):
    """Neither a second exponent nor a second shuffle: at most the same bytes once more, for a reply that was lost."""
    role, request = in_state("joined"), codec.encode(BlindIds(GOOD_LIST))
    first, before = role.answer(request), trace(role)
    monkeypatch.setattr(BlindingExponent, "blind", lambda self, points: pytest.fail("blinded again"))
    again = role.answer(request)
    assert again == first or isinstance(codec.decode(again), Refusal)
    assert trace(role) == before
    assert refusal_of(role, BlindIds(GOOD_LIST[32:])) == "ProtocolError"  # another list, whatever it is
    assert isinstance(codec.decode(role.answer(request)), Refusal | BlindedIds)
    assert trace(role) == before


@pytest.mark.parametrize("order", ["joined", "scoring"])
def test_ids_are_compared_once_in_a_session_even_where_the_order_would_allow_it_again(order):
    """Else a server could try list after list against what is left."""
    role = in_state("aligned")
    role.state.order = order
    assert refusal_of(role, BlindIds(GOOD_LIST)) == "ProtocolError"
    assert "once" in str(role.last_error)


def test_a_client_notes_the_size_of_the_servers_list_and_no_id(caplog):
    with caplog.at_level(logging.DEBUG):
        in_state("aligned")
    assert "6 ids with 6 ids of the server" in caplog.text
    assert "person" not in caplog.text


# --- A server does not believe everything -----------------------------------------------------------------------------


def lied_to(lie: Callable[[BlindedIds], Message]) -> tuple[RecordingChannel, FedSDGError]:
    """Align with two clients, the second of which lies; return the error that this must lead to."""
    channel = joined({"shop": people(*range(6)), "bank": people(*range(2, 8))})
    honest = channel.roles["bank"].answer

    def answer(blob: bytes) -> bytes:
        reply = codec.decode(honest(blob))
        return codec.encode(lie(reply) if isinstance(reply, BlindedIds) else reply)

    channel.roles["bank"].answer = answer  # type: ignore[method-assign]
    with pytest.raises(FedSDGError) as caught:
        align_rows(channel, ["shop", "bank"], people(*range(1, 7)), RUN, stream())
    return channel, caught.value


#: (A point of low order in `again` is never raised to anything, and matches nothing.)
LIES = [
    (field, what)
    for field in ("again", "points")
    for what in bad_points(GOOD_LIST)
    if field == "points" or not what.startswith("a point of order")
]


@pytest.mark.parametrize(("field", "what"), LIES)
def test_a_server_refuses_points_that_no_honest_client_sends_and_names_the_client(field, what):
    channel, error = lied_to(lambda r: dataclasses.replace(r, **{field: bad_points(getattr(r, field))[what]}))
    assert isinstance(error, ProtocolError)
    assert "'bank'" in str(error)
    assert "TakeRows" not in {entry.kind for entry in channel.transcript}
    assert all(role.state.order == "aligning" for role in channel.roles.values())


@pytest.mark.parametrize("change", [lambda b: b[32:], lambda b: b + GOOD_LIST[:32], lambda b: b""])
def test_a_server_refuses_another_number_of_its_own_points(change):
    _, error = lied_to(lambda reply: dataclasses.replace(reply, again=change(reply.again)))
    assert isinstance(error, ProtocolError)
    assert "'bank'" in str(error)


def test_a_server_takes_a_client_that_sends_strange_points_for_one_with_no_common_ids():
    for lie in (
        lambda r: dataclasses.replace(r, points=b""),
        lambda r: dataclasses.replace(r, again=r.points),
        lambda r: dataclasses.replace(r, points=r.again),
        lambda r: BlindedIds(r.again, GOOD_LIST),
    ):
        assert isinstance(lied_to(lie)[1], DataError)


@pytest.mark.parametrize("reply", [Done(), Refusal("InvalidPoint")])
def test_a_server_refuses_a_reply_of_another_kind_and_a_refusal_stops_it(reply):
    _, error = lied_to(lambda honest: reply)
    assert isinstance(error, PeerError)
    assert "'bank'" in str(error)


def test_the_honest_answer_would_have_been_accepted():
    channel = joined({"shop": people(*range(6)), "bank": people(*range(2, 8))})
    alignment = align_rows(channel, ["shop", "bank"], people(*range(1, 7)), RUN, stream())
    assert isinstance(alignment, Alignment)
    assert alignment.common == 4

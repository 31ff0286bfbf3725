"""What the parties of an alignment see: points that say nothing, in an order that says nothing, never twice.

`findings` looks at whole transcripts with the eyes of somebody who knows every id and every exponent, and names what is
wrong with them. On the real code it finds nothing; each protection taken away by hand is found.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from fedsdg.client import alignment as client_side
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import TrainingConfig
from fedsdg.crypto import PrivateKey
from fedsdg.crypto.blinded_ids import POINT_BYTES, BlindingExponent, hash_ids
from fedsdg.data import alignment as in_the_clear
from fedsdg.data.feature_table import FeatureTable
from fedsdg.learning.local_client import LocalClient
from fedsdg.messages.alignment import BlindedIds, BlindIds
from fedsdg.messages.session import JoinRun
from fedsdg.runtime.transcript import RecordingChannel
from fedsdg.server import alignment as server_side

BITS = 256
SERVER_KEY = PrivateKey.generate(BITS, allow_test_size=True).public_key.to_bytes()
SETTINGS = json.dumps(TrainingConfig().model_dump(mode="json"))
RUNS = (b"the first run...", b"the second run..")

#: All files are sorted, as files often are: the server's perhaps by label, a client's by income.
EVERYBODY = [f"canary-{number:04d}" for number in range(240)]
SERVER_IDS = EVERYBODY[:160]
CLIENT_IDS = {"bank": EVERYBODY[20:200], "shop": EVERYBODY[40:240]}


@dataclass
class Observed:
    """One alignment, and all there is to know about it."""

    run_id: bytes
    channel: RecordingChannel
    common: list[str]
    exponents: list[BlindingExponent]

    def points(self, kind: type, field: str) -> dict[str, list[bytes]]:
        """Return a list of points as it crossed, for each client."""
        found = {}
        for entry in self.channel.transcript:
            message = entry.message()
            if isinstance(message, kind):
                raw = getattr(message, field)
                found[entry.client] = [raw[i : i + POINT_BYTES] for i in range(0, len(raw), POINT_BYTES)]
        return found

    def meaning(self, points: list[bytes]) -> list[str]:
        """Return the ids behind a list of singly blinded points, whoever blinded them."""
        for exponent in self.exponents:
            names = dict(zip(exponent.blind(hash_ids(EVERYBODY, self.run_id)), EVERYBODY, strict=True))
            if points[0] in names:
                return [names[point] for point in points]
        raise AssertionError("points of nobody")


def observe(run_id: bytes = RUNS[0]) -> Observed:
    """Align, and remember every byte and every exponent."""
    exponents: list[BlindingExponent] = []
    with pytest.MonkeyPatch.context() as patch:
        original = BlindingExponent.__init__

        def noted(self):
            original(self)
            exponents.append(self)

        patch.setattr(BlindingExponent, "__init__", noted)
        roles = {}
        for name, ids in CLIENT_IDS.items():
            table = FeatureTable.of(np.arange(len(ids), dtype=float)[:, None])
            state = ClientState(LocalClient(name, table, b"a seed for tests"), BITS, allow_test_keys=True)
            state.ids = tuple(ids)
            roles[name] = ClientRole(state)
        channel = RecordingChannel(roles)
        channel.exchange({name: JoinRun(name, run_id, SETTINGS, BITS, 64, SERVER_KEY, b"") for name in roles})
        order = np.random.Generator(np.random.PCG64(5))
        alignment = server_side.align_rows(channel, list(roles), SERVER_IDS, run_id, order)
    return Observed(run_id, channel, [SERVER_IDS[row] for row in alignment.server_rows], exponents)


# --- What can be found ----------------------------------------------------------------------------------------------


@functools.cache
def dresses(text: str) -> set[bytes]:
    """The same text as a serialiser or a programmer might write it."""
    found = {text.encode(name) for name in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")}
    found |= {text.encode().hex().encode(), text.encode()[::-1]}
    for lead in range(3):  # base64 depends on the position modulo three: keep the part that does not
        found.add(base64.b64encode(bytes(lead) + text.encode())[(lead * 8 + 5) // 6 : -4])
    for digest in (hashlib.sha256, hashlib.sha512, hashlib.sha1, hashlib.md5):
        found |= {digest(text.encode()).digest(), digest(text.encode()).hexdigest().encode()}
    return found


def ids_in(blobs: Iterable[bytes]) -> set[str]:
    everything = b"\0\xff\0".join(blobs)
    return {name for name in EVERYBODY if any(dress in everything for dress in dresses(name))}


def follows(a: list[str], b: list[str]) -> bool:
    """Whether the common ids of two lists come in related orders (5.3 standard deviations)."""
    place = {name: i for i, name in enumerate(b)}
    pairs = np.array([(i, place[name]) for i, name in enumerate(a) if name in place], float)
    return bool(abs(np.corrcoef(pairs.T)[0, 1]) > 5.3 / np.sqrt(len(pairs)))


def findings(*runs: Observed) -> set[str]:
    found = set()
    seen: Counter[bytes] = Counter()
    for run in runs:
        blobs = [entry.blob for entry in run.channel.transcript]
        if ids_in(blobs):
            found.add("an id crosses")
        if any(point in blob for point in hash_ids(EVERYBODY, run.run_id) for blob in blobs):
            found.add("an unblinded point crosses")
        asked = run.points(BlindIds, "points")
        answers = run.points(BlindedIds, "points")
        for lists in (asked, answers, run.points(BlindedIds, "again")):
            for points in lists.values():
                seen.update(points)
        if "an unblinded point crosses" in found:
            continue
        orders = {name: run.meaning(points) for name, points in asked.items()}
        if any(follows(order, SERVER_IDS) for order in orders.values()):
            found.add("the server's list follows its file")
        if follows(orders["bank"], orders["shop"]):
            found.add("two clients see the server's ids in one order")
        if any(follows(run.meaning(points), CLIENT_IDS[name]) for name, points in answers.items()):
            found.add("a client's list follows its file")
        if follows(run.common, SERVER_IDS):
            found.add("the common order follows the server's file")
    if seen.most_common(1)[0][1] > 1:
        found.add("a point crosses twice")
    return found


@functools.cache
def real() -> tuple[Observed, Observed]:
    return observe(RUNS[0]), observe(RUNS[1])


def test_nothing_is_found_on_the_real_code():
    assert findings(*real()) == set()


def test_the_looks_were_at_all_that_crossed():
    for run in real():
        assert {len(points) for points in run.points(BlindIds, "points").values()} == {len(SERVER_IDS)}
        assert {n: len(p) for n, p in run.points(BlindedIds, "points").items()} == {
            name: len(ids) for name, ids in CLIENT_IDS.items()
        }
        assert len(run.exponents) == 4  # one per client at the server, one at each client
        assert set(run.common) == set(SERVER_IDS).intersection(*CLIENT_IDS.values())


def test_an_id_is_found_in_every_dress():
    blobs = [entry.blob for entry in real()[0].channel.transcript]
    assert not ids_in(blobs)
    for dress in dresses("canary-0123"):
        assert "canary-0123" in ids_in([*blobs, b"before" + dress + b"after"])


# --- What the parties could try with what they know -------------------------------------------------------------------


def roles_of(run: Observed) -> tuple[dict[str, BlindingExponent], dict[str, BlindingExponent]]:
    """Return the exponents of the server and of the clients, by client."""
    s1, s2, c1, c2 = run.exponents
    return {"bank": s1, "shop": s2}, {"bank": c1, "shop": c2}


@pytest.mark.parametrize("name", CLIENT_IDS)
def test_a_server_that_guesses_an_id_afterwards_finds_no_trace_of_it(name):
    """It holds s; to test an id that was not on its list it would need c."""
    run = real()[0]
    s = roles_of(run)[0][name]
    received = run.points(BlindedIds, "points")[name]
    known = {*received, *s.blind(received), *run.points(BlindedIds, "again")[name]}
    guesses = hash_ids([text for text in CLIENT_IDS[name] if text not in SERVER_IDS], run.run_id)
    assert guesses
    assert not known & {*guesses, *s.blind(guesses), *s.blind(s.blind(guesses))}


@pytest.mark.parametrize("name", CLIENT_IDS)
def test_a_client_finds_no_id_in_the_servers_list_not_even_a_common_one(name):
    run = real()[0]
    c = roles_of(run)[1][name]
    received = run.points(BlindIds, "points")[name]
    guesses = hash_ids(SERVER_IDS, run.run_id)
    assert not {*received, *c.blind(received)} & {*guesses, *c.blind(guesses), *c.blind(c.blind(guesses))}


def test_clients_that_pool_lists_and_exponents_cannot_compare_the_servers_lists():
    run = real()[0]
    lists, (bank, shop) = run.points(BlindIds, "points"), roles_of(run)[1].values()
    of_bank, of_shop = lists["bank"], lists["shop"]
    assert not {*of_bank, *shop.blind(of_bank)} & {*of_shop, *bank.blind(of_shop)}


def test_the_attacks_above_succeed_for_whoever_has_the_missing_exponent():
    run = real()[0]
    s, c = (side["bank"] for side in roles_of(run))
    received = run.points(BlindedIds, "points")["bank"]
    private = [text for text in CLIENT_IDS["bank"] if text not in SERVER_IDS]
    assert set(c.blind(hash_ids(private, run.run_id))) <= set(received)
    assert set(s.blind(hash_ids(SERVER_IDS, run.run_id))) == set(run.points(BlindIds, "points")["bank"])


# --- Each protection, taken away --------------------------------------------------------------------------------------


def without_shuffle(count: int) -> np.ndarray:
    return np.arange(count)


def test_a_server_that_does_not_shuffle_is_found(monkeypatch):
    monkeypatch.setattr(server_side, "secret_order", without_shuffle)
    found = findings(observe())
    assert found == {"the server's list follows its file", "two clients see the server's ids in one order"}


def test_a_client_that_does_not_shuffle_is_found(monkeypatch):
    monkeypatch.setattr(client_side, "secret_order", without_shuffle)
    assert findings(observe()) == {"a client's list follows its file"}


def test_a_server_that_reads_positions_of_unshuffled_lists_knows_who_comes_before_whom_in_a_clients_file(monkeypatch):
    monkeypatch.setattr(client_side, "secret_order", without_shuffle)
    taken = []
    original = server_side.TakeRows
    monkeypatch.setattr(server_side, "TakeRows", lambda positions: taken.append(positions) or original(positions))
    run = observe()
    by_position = [run.common[i] for i in np.argsort(taken[0])]
    assert by_position == [text for text in CLIENT_IDS["bank"] if text in run.common]  # the file's own order: by income


def test_one_shuffle_for_all_clients_is_found(monkeypatch):
    once = functools.cache(server_side.secret_order)
    monkeypatch.setattr(server_side, "secret_order", once)
    assert findings(observe()) == {"two clients see the server's ids in one order"}


def test_one_exponent_of_the_server_for_all_clients_is_found(monkeypatch):
    one = BlindingExponent()
    monkeypatch.setattr(server_side, "BlindingExponent", lambda: one)
    run = observe()
    run.exponents.append(one)
    assert findings(run) == {"a point crosses twice"}


def with_lasting_exponents(monkeypatch) -> tuple[Observed, Observed]:
    """Two runs in which every party uses its exponents again."""
    kept: dict[int, bytes] = {}
    original, count = BlindingExponent.__init__, [0]

    def lasting(self):
        original(self)
        self._exponent = kept.setdefault(count[0] % 4, self._exponent)
        count[0] += 1

    monkeypatch.setattr(BlindingExponent, "__init__", lasting)
    return observe(RUNS[0]), observe(RUNS[1])


def test_exponents_that_last_over_runs_are_found_when_the_run_is_not_part_of_the_hash(monkeypatch):
    for module in (server_side, client_side):
        monkeypatch.setattr(module, "hash_ids", lambda ids, run_id: hash_ids(ids, RUNS[0]))
    first, second = with_lasting_exponents(monkeypatch)
    second.run_id = RUNS[0]
    assert findings(first) == set()
    assert findings(first, second) == {"a point crosses twice"}


def test_the_run_in_the_hash_protects_even_exponents_that_last_over_runs(monkeypatch):
    first, second = with_lasting_exponents(monkeypatch)
    assert [e._exponent for e in first.exponents] == [e._exponent for e in second.exponents]
    assert findings(first, second) == set()


def test_missing_blinding_is_found(monkeypatch):
    monkeypatch.setattr(BlindingExponent, "blind", lambda self, points: list(points))
    assert "an unblinded point crosses" in findings(observe())


def test_a_common_order_that_follows_the_servers_file_is_found(monkeypatch):
    monkeypatch.setattr(in_the_clear, "common_row_order", lambda ids, order: sorted(ids, key=SERVER_IDS.index))
    assert findings(observe()) == {"the common order follows the server's file"}

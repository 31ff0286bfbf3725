"""Blinded ids: the group is what it claims to be, bad points are refused, exponents stay secret and fresh."""

from __future__ import annotations

import copy
import hashlib
import pickle
import re
import secrets
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_core_ed25519_add, crypto_core_ed25519_from_uniform

from fedsdg.crypto import blinded_ids
from fedsdg.crypto.blinded_ids import POINT_BYTES, BlindingExponent, hash_ids, load_points, secret_order
from fedsdg.errors import InvalidPoint

RUN = bytes(range(16))
P, A = 2**255 - 19, 486662
L = 2**252 + 27742317777372353535851937790883648493  # order of the prime-order subgroup
D = -121665 * pow(121666, -1, P) % P
ids_of_any_kind = st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), unique=True, max_size=6)


def number(point: bytes) -> int:
    return int.from_bytes(point, "little")


def spelled(value: int) -> bytes:
    return value.to_bytes(POINT_BYTES, "little")


# --- A second opinion on the group, in plain integers ---------------------------------------------------------------


def root(value: int) -> int:
    """Return a square root modulo P of a square."""
    found = pow(value, (P + 3) // 8, P)
    return found if found * found % P == value % P else found * pow(2, (P - 1) // 4, P) % P


def is_square(value: int) -> bool:
    return pow(value, (P - 1) // 2, P) in (0, 1)


def add(p: tuple[int, int], q: tuple[int, int]) -> tuple[int, int]:
    """Add two points of -x^2 + y^2 = 1 + D x^2 y^2."""
    (x1, y1), (x2, y2) = p, q
    t = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def elligator(uniform: bytes) -> tuple[int, int]:
    """Map 32 bytes to the prime-order subgroup: Elligator 2, to Edwards form, times 8."""
    r, sign = number(uniform) & ((1 << 255) - 1), uniform[31] >> 7
    u = -A * pow(1 + 2 * r * r, -1, P) % P
    if not is_square(u * (u * u + A * u + 1)):
        u = (-A - u) % P
    y = (u - 1) * pow(u + 1, -1, P) % P
    x = root((y * y - 1) * pow(D * y * y + 1, -1, P) % P)
    point = (P - x if x & 1 != sign else x, y)
    for _ in range(3):
        point = add(point, point)
    return point


def slow_hash(text: str, run_id: bytes) -> int:
    prefix = b"fedsdg id alignment v1" + len(run_id).to_bytes(8, "big") + run_id
    wide = hashlib.sha512(prefix + text.encode()).digest()
    y = add(elligator(wide[:32]), elligator(wide[32:]))[1]
    return (1 + y) * pow(1 - y, -1, P) % P


def slow_multiple(k: int, u: int) -> int:
    """Return the u coordinate of k P by the Montgomery ladder."""
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in bin(k)[2:]:
        if bit == "1":
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
        if bit == "1":
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2 * pow(z2, -1, P) % P if z2 % P else 0


def clamped(exponent: BlindingExponent) -> int:
    return number(exponent._exponent) & ((1 << 255) - 8) & ~(1 << 255) | (1 << 254)


@given(ids_of_any_kind, st.binary(max_size=20))
def test_an_id_is_hashed_as_a_second_implementation_does(ids, run_id):
    assert [number(point) for point in hash_ids(ids, run_id)] == [slow_hash(text, run_id) for text in ids]


def test_the_hash_never_changes():
    """Two parties with different versions of any library must still agree."""
    assert [point.hex() for point in hash_ids(["4711", "Zoë"], RUN)] == [
        "020ab850d04b64f1977f62b103b3605e6ad58d894493a732dd0d33ff1fc9a378",
        "377ebb973747c9234cbd7c9222d627421365086a48bd17073a6bc52731c88853",
    ]


def test_blinding_multiplies_on_the_curve_as_a_second_implementation_does():
    exponent, points = BlindingExponent(), hash_ids([f"id {i}" for i in range(5)], RUN)
    expected = [slow_multiple(clamped(exponent), number(point)) for point in points]
    assert [number(point) for point in exponent.blind(points)] == expected


def test_hashes_and_blinded_points_lie_in_the_subgroup_of_prime_order():
    points = hash_ids([str(i) for i in range(5)], RUN)
    for point in [*points, *BlindingExponent().blind(points)]:
        assert slow_multiple(L, number(point)) == 0
        assert slow_multiple(8, number(point)) != 0


# --- What makes two parties meet ------------------------------------------------------------------------------------


@given(ids_of_any_kind, ids_of_any_kind)
def test_doubly_blinded_points_are_equal_for_equal_ids_and_for_no_others(ours, theirs):
    s, c = BlindingExponent(), BlindingExponent()
    both = c.blind(load_points(b"".join(s.blind(hash_ids(ours, RUN)))))
    again = s.blind(load_points(b"".join(c.blind(hash_ids(theirs, RUN)))))
    assert {ours[i] for i, p in enumerate(both) if p in again} == set(ours) & set(theirs)
    assert [p for p in both if p in again] == [again[theirs.index(t)] for t in ours if t in theirs]


@pytest.mark.parametrize(
    ("first", "second"),
    [("7", "007"), ("a", "A"), ("é", "e\u0301"), ("a", "a "), ("1", "1.0"), ("x\0", "x"), ("ﬁ", "fi"), ("٣", "3")],
)
def test_ids_that_are_written_differently_are_different_ids(first, second):
    assert len(set(hash_ids([first, second], RUN))) == 2


def test_another_run_has_other_points():
    ids = [str(i) for i in range(20)]
    assert not set(hash_ids(ids, RUN)) & set(hash_ids(ids, RUN[::-1]))
    exponent = BlindingExponent()  # not even with equal exponents
    assert not set(exponent.blind(hash_ids(ids, RUN))) & set(exponent.blind(hash_ids(ids, RUN[::-1])))


def test_the_border_between_run_and_id_cannot_be_moved():
    assert hash_ids(["bc"], b"a") != hash_ids(["c"], b"ab")
    assert hash_ids(["\0c"], b"") != hash_ids(["c"], b"\0")


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_number_of_threads_changes_neither_points_nor_their_order(monkeypatch, threads):
    ids, exponent = [f"person {i}" for i in range(23)], BlindingExponent()
    expected = exponent.blind(hash_ids(ids, RUN))
    monkeypatch.setenv("FEDSDG_THREADS", threads)
    monkeypatch.setattr(blinded_ids, "_THREAD_POINTS", 2)
    assert exponent.blind(hash_ids(ids, RUN)) == expected


# --- Points that nobody honest sends --------------------------------------------------------------------------------

GOOD = hash_ids([str(i) for i in range(4)], RUN)
#: u coordinates of the points of order 1 or 2, 4 and 8 on the curve, and of order 4 on the twist.
LOW_ORDER = {
    "order 2": 0,
    "order 4": 1,
    "order 8": 325606250916557431795983626356110631294008115727848805560023387167927233504,
    "order 8, the other": 39382357235489614581723060781553021112529911719440698176882885853963445705823,
    "order 4 of the twist": P - 1,
}
ON_THE_TWIST = next(u for u in range(2, 100) if not is_square(u * (u * u + A * u + 1)))
NOT_CANONICAL = {
    "p": P,
    "p + 1": P + 1,
    "p + 9, a good point otherwise": P + 9,
    "2^255 - 1": 2**255 - 1,
    "2^255": 2**255,
    "a good point with its top bit set": number(GOOD[0]) | 1 << 255,
    "all ones": 2**256 - 1,
}


@pytest.mark.parametrize("raw", [b"\1", bytes(31), bytes(33), GOOD[0] + GOOD[1][:-1], b"".join(GOOD) + b"\0"])
def test_a_list_that_is_not_made_of_whole_points_is_refused(raw):
    with pytest.raises(InvalidPoint, match="bytes"):
        load_points(raw)


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_list_of_another_length_than_expected_is_refused(count):
    with pytest.raises(InvalidPoint, match=f"{count} points"):
        load_points(b"".join(GOOD), count)
    assert load_points(b"".join(GOOD), 4) == GOOD


@pytest.mark.parametrize("u", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
@pytest.mark.parametrize("place", [0, 2])
def test_a_second_spelling_of_a_point_is_refused(u, place):
    points = [*GOOD[:place], spelled(u), *GOOD[place:]]
    with pytest.raises(InvalidPoint, match=f"Blinded id {place} is not below"):
        load_points(b"".join(points))


def test_the_largest_canonical_points_are_not_refused_for_their_size():
    for u in range(P - 40, P):
        if is_square(u * (u * u + A * u + 1)) and u != P - 1:
            assert load_points(spelled(u)) == [spelled(u)]


@pytest.mark.parametrize("u", LOW_ORDER.values(), ids=LOW_ORDER)
def test_a_point_of_low_order_is_refused(u):
    with pytest.raises(InvalidPoint):
        BlindingExponent().blind(load_points(b"".join([*GOOD, spelled(u)])))


@pytest.mark.parametrize("u", [u for u in LOW_ORDER.values() if u != P - 1])
def test_a_point_of_low_order_is_refused_even_if_it_was_not_loaded(u):
    with pytest.raises(InvalidPoint, match="low order"):
        BlindingExponent().blind([*GOOD, spelled(u)])


def test_a_point_of_the_twist_is_refused():
    with pytest.raises(InvalidPoint, match="no point of the curve"):
        load_points(b"".join([*GOOD, spelled(ON_THE_TWIST)]))


def test_a_repeated_point_is_refused():
    with pytest.raises(InvalidPoint, match="1 of 5"):
        load_points(b"".join([*GOOD, GOOD[1]]))


def test_a_point_that_repeats_another_but_for_a_point_of_low_order_is_refused():
    """The sum with a point of order 8 is another point, and X25519 makes no difference between the two."""
    torsion = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
    edwards = crypto_core_ed25519_from_uniform(b"\1" * 32)
    pair = blinded_ids._u_coordinates([edwards, crypto_core_ed25519_add(edwards, torsion)])
    assert load_points(b"".join(pair)) == pair
    assert pair[0] != pair[1]
    with pytest.raises(InvalidPoint, match="repeat"):
        BlindingExponent().blind(pair)


def test_errors_show_no_point():
    for raw in (
        spelled(ON_THE_TWIST),
        GOOD[0] * 2,
        GOOD[0][:-1],
        spelled(NOT_CANONICAL["a good point with its top bit set"]),
    ):
        with pytest.raises(InvalidPoint) as caught:
            load_points(raw)
        assert not re.search(r"[0-9a-f]{12}|\\x", str(caught.value))


def test_empty_lists_are_nothing_special():
    assert hash_ids([], RUN) == load_points(b"") == BlindingExponent().blind([]) == []


# --- Secrets --------------------------------------------------------------------------------------------------------


def test_every_exponent_is_fresh_and_comes_from_the_operating_system(monkeypatch):
    drawn, original = [], secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda n: drawn.append(original(n)) or drawn[-1])
    exponents = [BlindingExponent() for _ in range(20)]
    assert [e._exponent for e in exponents] == drawn
    assert len({e.blind(GOOD[:1])[0] for e in exponents}) == 20


def test_an_exponent_is_neither_copied_nor_written_nor_shown():
    exponent = BlindingExponent()
    for duplicate in (copy.copy, copy.deepcopy, *(lambda e, p=p: pickle.dumps(e, p) for p in range(6))):
        with pytest.raises(TypeError, match="never serialised"):
            duplicate(exponent)
    with pytest.raises(TypeError):
        vars(exponent)
    assert {name for name in dir(exponent) if not name.startswith("_")} == {"blind"}
    secret = exponent._exponent
    for shown in (repr(exponent), str([exponent])):
        assert secret.hex()[:8] not in shown
        assert str(number(secret))[:8] not in shown


@given(st.integers(0, 300))
def test_a_secret_order_names_every_position_once(count):
    assert sorted(secret_order(count).tolist()) == list(range(count))


def test_a_secret_order_is_uniform_and_cannot_be_seeded():
    np.random.seed(1)
    first = secret_order(50).tolist()
    np.random.seed(1)
    assert secret_order(50).tolist() != first
    draws = 6000
    counted = Counter(tuple(secret_order(3).tolist()) for _ in range(draws))
    assert len(counted) == 6
    expected = draws / 6
    assert all(abs(seen - expected) < 6 * expected**0.5 for seen in counted.values())

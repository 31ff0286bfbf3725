"""Arrays on the wire: exact length, documented layout, fresh at every export."""

import struct

import pytest
from crypto_helpers import ciphertexts_in, message, values_of
from hypothesis import given
from hypothesis import strategies as st

from fedsdg.crypto import Encryptor
from fedsdg.crypto.encrypted_array import MAX_DIMENSIONS, MAX_WIRE_BYTES
from fedsdg.crypto.residues import residues_from_bytes, residues_to_bytes
from fedsdg.errors import CryptoError, InvalidCiphertext, KeyMismatch, MalformedMessage


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (1, 1, 1), (2, 1, 2, 1), (0,), (5, 0)])
def test_the_length_of_a_message_is_known_before_it_is_made(party, shape):
    size = 1
    for s in shape:
        size *= s
    array = party.encryptor.encrypt([1] * size, shape)
    assert len(array.to_bytes()) == array.wire_bytes == 22 + 4 * len(shape) + size * 128


def test_the_header_is_as_documented(party):
    blob = party.encryptor.encrypt([1] * 6, (2, 3)).to_bytes()
    assert blob[:6] == b"FSEA\x01\x02"
    assert blob[6:22] == party.key.public_key.fingerprint
    assert struct.unpack("<2I", blob[22:30]) == (2, 3)


def test_a_message_written_by_hand_is_read(party):
    n = int(party.n)
    loaded = party.evaluator.load(message(party.key.public_key, (2,), [1, n + 1]), (2,))
    assert values_of(loaded.ring, loaded.rows) == [1, n + 1]
    assert party.receive(loaded) == [0, 1]


def test_two_exports_of_one_array_share_no_ciphertext(party):
    array, shape = party.encryptor.encrypt([7] * 20), (20,)
    exports = [ciphertexts_in(array.to_bytes(), array.key, shape) for _ in range(5)]
    assert len({c for export in exports for c in export}) == 100


def test_an_array_and_its_reshaped_twin_share_no_exported_ciphertext(party):
    array = party.encryptor.encrypt([7] * 6)
    twins = [array, array.reshape(2, 3), array.reshape(3, 2), array.reshape(2, 3).reshape(6)]
    exports = [ciphertexts_in(twin.to_bytes(), twin.key, twin.shape) for twin in twins]
    assert len({c for export in exports for c in export}) == 24


def test_parts_and_joined_arrays_keep_values_and_share_no_exported_ciphertext(party):
    array = party.encryptor.encrypt([10, 11, 12, 13])
    part, whole = array.take([3, 0, 3], 1, 3), array.joined([array.take([1]), array])
    assert (part.shape, whole.shape) == ((1, 3), (9,))
    exports = [ciphertexts_in(a.to_bytes(), a.key, a.shape) for a in (array, part, whole, array)]
    assert len({c for export in exports for c in export}) == 4 + 3 + 9 + 4
    assert party.receive(part) == [13, 10, 13]
    assert party.receive(whole) == [10, 11, 12, 13, 11, 10, 11, 12, 13]


def test_parts_and_joins_that_make_no_sense_are_refused(party, other_key):
    array = party.encryptor.encrypt([1, 2, 3])
    with pytest.raises(CryptoError, match="shape"):
        array.take([0, 1], 3)
    with pytest.raises((CryptoError, IndexError)):
        array.take([3])
    with pytest.raises(KeyMismatch):
        array.joined([Encryptor(other_key, party.backend).encrypt([1])])


def test_no_result_leaves_with_the_nonces_of_its_inputs(party):
    ev, n = party.evaluator, int(party.n)
    a = party.send([1, 2], (1, 2))
    before = values_of(a.ring, a.rows)
    results = {
        "loaded": (a, before),
        "add_plain": (ev.add_plain(a, [0, 0]), before),
        "dot by one": (ev.dot(a, [[1, 0], [0, 1]]), before),
        "reshape": (a.reshape(2, 1), before),
        "take": (a.take([1, 0]), before),
        "joined": (a.joined([a]), before),
    }
    for name, (array, known) in results.items():
        leaving = [int.from_bytes(c, "little") for c in ciphertexts_in(array.to_bytes(), array.key, array.shape)]
        assert not set(leaving) & set(known), name
        # Not by a plaintext factor (1 + m n) either: the nonces themselves differ.
        assert not {c % n for c in leaving} & {c % n for c in known}, name


def test_masked_and_freshly_added_arrays_are_fresh_already_but_only_once(party):
    ev = party.evaluator
    for array in (ev.mask(party.send([1], (1,)))[0], ev.add_fresh(party.send([1], (1,)), [1])):
        inside = values_of(array.ring, array.rows)
        first, second = (
            [int.from_bytes(c, "little") for c in ciphertexts_in(array.to_bytes(), array.key, (1,))] for _ in range(2)
        )
        assert first == inside
        assert second != first


def test_the_repr_of_an_array_shows_shape_and_key_only(party):
    text = repr(party.encryptor.encrypt([1, 2]))
    assert "(2,)" in text
    assert "512 bits" in text
    assert len(text) < 100


def test_messages_over_the_limit_are_refused_before_they_are_read(party):
    class Huge(bytes):
        def __len__(self):
            return MAX_WIRE_BYTES + 1

        def __getitem__(self, key):
            raise AssertionError("it was read")

    with pytest.raises(MalformedMessage, match="limit"):
        party.evaluator.load(Huge(), (1,))


@given(blob=st.binary(max_size=300))
def test_random_bytes_are_refused(party, blob):
    with pytest.raises(CryptoError):
        party.evaluator.load(blob, (1,))


@given(data=st.data())
def test_a_message_with_any_byte_of_its_header_changed_is_refused(party, data):
    blob = bytearray(message(party.key.public_key, (1, 1), [int(party.n) + 1]))
    at = data.draw(st.integers(0, 29))
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((MalformedMessage, KeyMismatch, InvalidCiphertext)):
        party.evaluator.load(bytes(blob), (1, 1))


def test_more_dimensions_than_allowed_are_refused_even_when_expected(party):
    shape = (1,) * (MAX_DIMENSIONS + 1)
    with pytest.raises(MalformedMessage):
        party.evaluator.load(message(party.key.public_key, shape, [1]), shape)


# -- integers modulo n -----------------------------------------------------------------------------------------------


def test_residues_survive_the_wire_at_their_extremes(test_key):
    key, n = test_key.public_key, int(test_key.public_key.n)
    values = [0, 1, n - 1, n // 2, -1, n, 5 * n + 3]
    blob = residues_to_bytes(values, key)
    assert len(blob) == 7 * key.plain_bytes
    assert residues_from_bytes(blob, 7, key) == [v % n for v in values]
    assert residues_from_bytes(b"", 0, key) == []


@pytest.mark.parametrize("above", [0, 1, 2**64])
def test_residues_that_are_not_below_n_are_refused(test_key, above):
    key = test_key.public_key
    value = min(int(key.n) + above, 2 ** (8 * key.plain_bytes) - 1)
    with pytest.raises(MalformedMessage) as refusal:
        residues_from_bytes(bytes(key.plain_bytes) + value.to_bytes(key.plain_bytes, "little"), 2, key)
    assert not any(ch.isdigit() for ch in str(refusal.value))


@pytest.mark.parametrize("length", [0, 63, 65, 127, 129])
def test_residues_of_the_wrong_length_are_refused(test_key, length):
    with pytest.raises(MalformedMessage):
        residues_from_bytes(bytes(length), 2, test_key.public_key)

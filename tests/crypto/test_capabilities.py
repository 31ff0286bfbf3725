"""Who holds what can do what, and nothing else; keys never mix."""

import numpy as np
import pytest
from crypto_helpers import message

from fedsdg.crypto import Decryptor, Encryptor, Evaluator
from fedsdg.errors import CryptoError, KeyMismatch


@pytest.fixture
def stranger(other_key, backend):
    """Another party, with another key on the same back end."""
    return Encryptor(other_key, backend)


def test_an_evaluator_cannot_decrypt(party):
    assert not [name for name in dir(party.evaluator) if "decrypt" in name.lower()]
    assert not hasattr(party.evaluator, "_owner")


def test_an_encryptor_cannot_decrypt(party):
    public = Encryptor(party.key.public_key, party.backend)
    assert not [name for name in dir(public) if "decrypt" in name.lower()]
    assert public._owner is None


def test_an_evaluator_of_a_public_key_holds_no_primes(party):
    def numbers(thing, depth=0):
        if depth > 4:
            return
        if hasattr(thing, "bit_length"):
            yield int(thing)
        elif isinstance(thing, (list, tuple)):
            for item in thing:
                yield from numbers(item, depth + 1)
        elif hasattr(thing, "__dict__"):
            for item in vars(thing).values():
                yield from numbers(item, depth + 1)

    assert not {int(party.key.p), int(party.key.q)} & set(numbers(party.evaluator))
    assert {int(party.key.p), int(party.key.q)} <= set(numbers(party.decryptor))  # the search does find them


def test_a_decryptor_needs_the_private_key(party):
    with pytest.raises(CryptoError, match="private key"):
        Decryptor(Encryptor(party.key.public_key, party.backend))
    with pytest.raises((CryptoError, TypeError, AttributeError)):
        Decryptor(party.key.public_key, party.backend)


def test_an_evaluator_refuses_a_private_key(party):
    """It has no use for one, and whoever holds an evaluator must not find one in it."""
    with pytest.raises((CryptoError, TypeError)):
        Evaluator(party.key, party.backend)


def test_what_was_loaded_for_decryption_cannot_be_sent_on(party):
    loaded = party.decryptor.load(party.encryptor.encrypt([1, 2]).to_bytes(), (2,))
    for array in (loaded, loaded.reshape(1, 2)):
        with pytest.raises(CryptoError, match="decryption only"):
            array.to_bytes()


def test_arrays_under_another_key_are_refused_by_every_operation(party, stranger):
    ev, ours, theirs = party.evaluator, party.send([1], (1, 1)), stranger.encrypt([1], (1, 1))
    for operation in (
        lambda: ev.add(ours, theirs),
        lambda: ev.add(theirs, ours),
        lambda: ev.add_plain(theirs, [1]),
        lambda: ev.add_fresh(theirs, [1]),
        lambda: ev.negate(theirs),
        lambda: ev.mask(theirs),
        lambda: ev.dot(theirs, [[1]]),
        lambda: ev.shifted_sums(theirs, [[1]], [0]),
        lambda: ev.sum_selected(theirs, [np.array([0])]),
        lambda: party.decryptor.decrypt(theirs),
    ):
        with pytest.raises(KeyMismatch):
            operation()


def test_messages_under_another_key_are_refused_by_everybody(party, stranger):
    blob = stranger.encrypt([1]).to_bytes()
    for receiver in (party.evaluator, party.encryptor, party.decryptor):
        with pytest.raises(KeyMismatch):
            receiver.load(blob, (1,))


def test_a_relabelled_message_is_decrypted_to_noise_and_not_to_its_plaintext(party, stranger):
    """The fingerprint is a label, not a proof: under another key a ciphertext means nothing."""
    theirs = stranger.encrypt([1])
    raw = stranger.ring.dump(theirs.rows)
    value = int.from_bytes(raw, "little") % int(party.n) ** 2
    loaded = party.decryptor.load(message(party.key.public_key, (1,), [value]), (1,))
    assert party.decryptor.decrypt(loaded) != [1]


def test_arrays_of_another_back_end_are_refused_by_name(test_key, backend):
    """Rows of one back end are nonsense to the other; that must be an error of ours, not a TypeError from below."""
    from fedsdg.crypto import backends

    if backends.native_problem() is not None:
        pytest.skip("needs both back ends")
    other = Encryptor(test_key, "gmpy2" if backend == "native" else "native")
    foreign = other.encrypt([1, 2])
    ours = Encryptor(test_key, backend)
    for operation in (
        lambda: Evaluator(ours).add(foreign, foreign),
        lambda: Evaluator(ours).add_plain(foreign, [1, 2]),
        lambda: Decryptor(ours).decrypt(foreign),
    ):
        with pytest.raises(CryptoError):
            operation()

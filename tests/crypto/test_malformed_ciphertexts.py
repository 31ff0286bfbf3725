"""The trap one ciphertext deep: decrypting a multiple of n would hand out the private key. It cannot be done here."""

import pytest
from crypto_helpers import factors_from, handmade, message, textbook_crt_decrypt

from fedsdg.errors import InvalidCiphertext


def multiples_of_n(n: int) -> list[int]:
    return [0, n, 2 * n, 7 * n, (n - 1) * n]


def test_textbook_decryption_of_a_multiple_of_n_gives_the_key_away(party):
    """Why all of this exists."""
    n, primes = int(party.n), {int(party.key.p), int(party.key.q)}
    for c in multiples_of_n(n):
        assert factors_from(textbook_crt_decrypt(party.key, c), n) == primes


def test_the_reader_of_factors_finds_none_in_ordinary_plaintexts(party):
    for m in (1, 2, 12345, int(party.n) - 1):
        assert factors_from(m, party.n) == set()


def test_multiples_of_n_are_refused_on_arrival(party):
    for c in multiples_of_n(int(party.n)):
        blob = message(party.key.public_key, (1,), [c])
        for receiver in (party.evaluator, party.decryptor, party.encryptor):
            with pytest.raises(InvalidCiphertext):
                receiver.load(blob, (1,))


@pytest.mark.parametrize("position", [0, 3, 8])
def test_decryption_refuses_non_units_in_an_array_built_by_hand(party, position):
    """Whoever bypasses `load` still meets the check inside decryption, wherever in the batch the value hides."""
    n, p, q = int(party.n), int(party.key.p), int(party.key.q)
    for c in (*multiples_of_n(n), p, q, p * p, q * q, 5 * p, n * n - q):
        values = [n + 1] * 9
        values[position] = c
        with pytest.raises(InvalidCiphertext) as refusal:
            party.decryptor.decrypt(handmade(party.decryptor, values))
        assert not any(ch.isdigit() for ch in str(refusal.value))


def test_decryption_refuses_non_units_under_a_real_key(real_party):
    n = int(real_party.n)
    for c in (0, n, int(real_party.key.p)):
        with pytest.raises(InvalidCiphertext):
            real_party.decryptor.decrypt(handmade(real_party.decryptor, [1, c]))


def test_results_computed_from_non_units_cannot_be_decrypted_either(party):
    ev, n = party.evaluator, int(party.n)
    bad = handmade(ev, [n, n + 1])
    for array in (ev.add(bad, bad), ev.add_plain(bad, [1, 1]), ev.mask(bad)[0]):
        with pytest.raises(InvalidCiphertext):
            party.decryptor.decrypt(array)
        with pytest.raises(InvalidCiphertext):
            party.receive(array)


def test_a_batch_is_refused_as_a_whole(party):
    """Nothing of a spoiled batch is decrypted: no oracle that answers for the good ones."""
    good = [int(party.n) + 1] * 4
    assert party.decryptor.decrypt(handmade(party.decryptor, good)) == [1] * 4
    with pytest.raises(InvalidCiphertext):
        party.decryptor.decrypt(handmade(party.decryptor, [*good, 0]))

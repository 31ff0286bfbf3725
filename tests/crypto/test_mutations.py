"""Each protection is watched by a checker, and each checker is watched: with the protection removed, it must fail.

A failing `test_protection_is_in_place[x]` says that protection x went missing. A failing
`test_its_removal_is_noticed[x: ...]` says that the checker of x has gone blind.
"""

from __future__ import annotations

import math
import os

import gmpy2
import pytest
from crypto_helpers import ciphertexts_in, factors_from, handmade, message, values_of
from gmpy2 import mpz

from fedsdg.crypto import Encryptor, Evaluator, SlotLayout, encrypted_array, nonces, paillier, randomness, validation
from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.errors import CryptoError, DoesNotFit, InvalidCiphertext, KeyMismatch, SlotOverflow

N = (1 << 511) + 111


def refuses(error, action) -> bool:
    try:
        action()
    except error:
        return True
    return False


# -- checkers: each passes on the real code --------------------------------------------------------------------------


def rerandomised_on_export(party):
    """What leaves shares no ciphertext, and no nonce, with what came in or left before."""
    n = int(party.n)
    array = party.evaluator.add_plain(party.send([5] * 4, (4,)), [1] * 4)
    batches = [values_of(array.ring, array.rows)]
    for _ in range(3):
        batches.append([int.from_bytes(c, "little") for c in ciphertexts_in(array.to_bytes(), array.key, (4,))])
    leaving = [c % n for batch in batches for c in batch]
    assert len(set(leaving)) == len(leaving), "an exported ciphertext still carries an old nonce"


def range_checked_at_load(party):
    """Residues that are not below n^2 do not enter, though their residue class would be a fine ciphertext."""
    n = int(party.n)
    for c in (n * n + 1, n * n + n + 1):
        blob = message(party.key.public_key, (1,), [c])
        assert refuses(InvalidCiphertext, lambda blob=blob: party.evaluator.load(blob, (1,))), (
            "an unreduced residue entered"
        )


def units_checked_at_load(party):
    """Multiples of n or of its primes do not enter, alone or among others."""
    n = int(party.n)
    for c in (n, 5 * n, int(party.key.p), 3 * int(party.key.q)):
        blob = message(party.key.public_key, (3,), [1, c, n + 1])
        assert refuses(InvalidCiphertext, lambda blob=blob: party.evaluator.load(blob, (3,))), "a non-unit entered"


def chi_squared(buckets: list[int]) -> float:
    expected = sum(buckets) / len(buckets)
    return sum((b - expected) ** 2 for b in buckets) / expected


def masked_uniformly_in_z_n(party):
    """What the key owner decrypts is uniform in Z_n, whatever was masked: tested on its top, its bottom and its middle.

    A sample of 640 in 16 buckets; with 15 degrees of freedom, 75 is exceeded once in 10^9 runs.
    """
    n, count = int(party.n), 640
    for plaintext in (0, n - 1):
        masked, _ = party.evaluator.mask(party.send([plaintext] * count, (count,)))
        seen = [int(u) for u in party.decryptor.decrypt(masked)]
        assert len(set(seen)) == count, "masks repeat"
        views = {"top": lambda u: u * 16 // n, "bottom": lambda u: u % 16, "middle": lambda u: (u >> 250) % 16}
        for name, bucket in views.items():
            counts = [0] * 16
            for u in seen:
                counts[bucket(u)] += 1
            assert chi_squared(counts) < 75, f"masked values are not uniform in Z_n: their {name} is biased"


def masks_are_the_ones_returned(party):
    """The masks that the evaluator keeps are those that were added."""
    masked, masks = party.evaluator.mask(party.send([1, 2, 3], (3,)))
    seen = party.decryptor.decrypt(masked)
    assert [(u - m) % party.n for u, m in zip(seen, masks, strict=True)] == [1, 2, 3], "a mask cannot be taken off"


def units_checked_in_decryption(party):
    """An array built by hand around a multiple of n is not decrypted; its decryption would be the private key."""
    n = int(party.n)
    for c in (0, n, 7 * n):
        array = handmade(party.decryptor, [n + 1, c])
        try:
            decrypted = party.decryptor.decrypt(array)
        except InvalidCiphertext:
            continue
        stolen = factors_from(int(decrypted[1]), n) == {int(party.key.p), int(party.key.q)}
        raise AssertionError(f"a non-unit was decrypted; the private key can be read from the result: {stolen}")


def nonces_are_fresh(party):
    """Encrypting the same value again and again never gives the same ciphertext, nor a related one."""
    n = int(party.n)
    for encryptor in (party.encryptor, Encryptor(party.key.public_key, party.backend)):
        arrays = [encryptor.encrypt([7] * 5) for _ in range(4)]
        drawn = [c % n for array in arrays for c in values_of(array.ring, array.rows)]
        assert len(set(drawn)) == 20, "an encryption repeats a nonce"
        assert not {1, n - 1} & set(drawn), "an encryption has no nonce"


def prefilled_nonces_are_used_once(party):
    """A pool hands out each nonce once."""
    encryptor = Encryptor(party.key.public_key, party.backend)
    encryptor.prefill(12)
    drawn = [c for _ in range(4) for c in values_of(encryptor.ring, encryptor.encrypt([0] * 4).rows)]
    assert len(set(drawn)) == 16, "a prefilled nonce was used twice"


def pools_do_not_survive_a_fork(party):
    """A child (here: the same process under another id) does not draw from its parent's pool."""
    encryptor = Encryptor(party.key.public_key, party.backend)
    encryptor.prefill(4)
    pool = set(values_of(encryptor.ring, encryptor._nonces._ready))
    parent = os.getpid
    try:
        os.getpid = lambda: -1
        drawn = set(values_of(encryptor.ring, encryptor.encrypt([0] * 4).rows))
    finally:
        os.getpid = parent
    assert not pool & drawn, "a child would repeat its parent's nonces"


def slots_checked_when_unpacked(party):
    """A slot that left its range is an error, not a wrong number and a wrong neighbour."""
    layout = SlotLayout.for_key(512, 60)
    for outside in (1 << 58, -(1 << 58), 1 << 59, 3 << 58):
        packed = layout.pack_wide([0, outside, 0]) % N
        assert refuses(SlotOverflow, lambda packed=packed: layout.unpack(packed, 3, N)), "an overflowing slot was read"


def values_checked_when_packed(party):
    """A value that is too wide for its slot is not packed."""
    layout = SlotLayout.for_key(512, 60)
    assert refuses(DoesNotFit, lambda: layout.pack([1, 1 << 58])), "a value wider than its slot was packed"


def keys_never_mix(party):
    """Arrays under another key are refused before anything is computed."""
    other = Encryptor(_other_key(), party.backend).encrypt([1])
    assert refuses(KeyMismatch, lambda: party.evaluator.negate(other)), "arrays under two keys were combined"


def received_for_decryption_stays(party):
    """Arrays that a decryptor loaded cannot be exported."""
    loaded = party.decryptor.load(party.encryptor.encrypt([1]).to_bytes(), (1,))
    assert refuses(CryptoError, loaded.to_bytes), "an array received for decryption was sent on"


# -- mutations: each removes one protection --------------------------------------------------------------------------


def export_without_new_nonces(patch, party):
    def to_bytes(self):
        return encrypted_array._header(self.key, self.shape) + self.ring.dump(self.rows)

    patch.setattr(EncryptedArray, "to_bytes", to_bytes)


def export_believing_everything_is_fresh(patch, party):
    original = EncryptedArray.to_bytes

    def to_bytes(self):
        self._fresh = True
        return original(self)

    patch.setattr(EncryptedArray, "to_bytes", to_bytes)


def export_with_trivial_nonces(patch, party):
    patch.setattr(nonces.NonceSource, "draw", lambda self, count: _ones(self.ring, count))


def load_without_range_check(patch, party):
    def load_checked(ring, raw, count):
        rows = ring.load(raw)
        if gmpy2.gcd(ring.total_modulo_n(rows), ring.n) != 1:
            raise InvalidCiphertext
        return rows

    patch.setattr(validation, "load_checked", load_checked)


def load_without_gcd_check(patch, party):
    patch.setattr(validation.gmpy2, "gcd", lambda *_: 1)


def load_checking_the_first_only(patch, party):
    original = type(party.evaluator.ring).total_modulo_n
    patch.setattr(type(party.evaluator.ring), "total_modulo_n", lambda self, rows: original(self, self.take(rows, [0])))


def _masks_from(draw):
    def mutate(patch, party):
        original = randomness.below

        def below(bound, count):
            return [mpz(draw(int(bound), original)) for _ in range(count)]

        patch.setattr(paillier.randomness, "below", below)

    return mutate


def one_mask_for_all(patch, party):
    original = randomness.below
    patch.setattr(paillier.randomness, "below", lambda bound, count: original(bound, 1) * count)


def masks_forgotten(patch, party):
    patch.setattr(Evaluator, "_add_encrypted", lambda self, a, plaintexts: Evaluator.add_plain(self, a, [0] * a.size))


def decrypt_without_unit_check(patch, party):
    def quotients(self, raw, count):
        w = self.ring.value_bytes
        values = [int.from_bytes(raw[i : i + w], "little") for i in range(0, len(raw), w)]
        return tuple([mpz((pow(c, int(p) - 1, int(p) ** 2) - 1) // int(p)) for c in values] for p in self.primes)

    patch.setattr(type(party.decryptor._owner), "quotients", quotients)


def encrypt_with_one_nonce(patch, party):
    def draw(self, count):
        return self.ring.take(self._compute(1), [0] * count)

    patch.setattr(nonces.NonceSource, "draw", draw)


def encrypt_with_a_constant_exponent(patch, party):
    original = randomness.random_bytes
    patch.setattr(nonces.randomness, "random_bytes", lambda count, width: original(count, width) * 0 + 3)


def pool_that_forgets_what_was_used(patch, party):
    def draw(self, count):
        if self._ready is None:
            return self._compute(count)
        return self.ring.take(self._ready, range(count))

    patch.setattr(nonces.NonceSource, "draw", draw)


def pool_without_a_look_at_the_process(patch, party):
    original = nonces.NonceSource.draw

    def draw(self, count):
        self._process = os.getpid()
        return original(self, count)

    patch.setattr(nonces.NonceSource, "draw", draw)


def unpack_without_range_check(patch, party):
    def unpack_rows(self, packed, count, n, guard_bits=2):
        import numpy as np

        half, mask = 1 << (self.width - 1), (1 << self.width) - 1
        offset = sum(half << (self.width * i) for i in range(count))
        return np.array([[((int(v) + offset) >> (self.width * i) & mask) - half for i in range(count)] for v in packed])

    patch.setattr(SlotLayout, "unpack_rows", unpack_rows)


def unpack_with_one_guard_bit(patch, party):
    original = SlotLayout.unpack_rows
    patch.setattr(
        SlotLayout, "unpack_rows", lambda self, packed, count, n, guard_bits=2: original(self, packed, count, n, 1)
    )


def pack_without_range_check(patch, party):
    patch.setattr(SlotLayout, "pack", SlotLayout.pack_wide)


def operations_without_a_look_at_the_key(patch, party):
    patch.setattr(paillier._Capability, "_own", lambda self, array: array.rows)


def decryptor_with_nonces(patch, party):
    patch.setattr(party.decryptor, "_nonces", party.encryptor._nonces)


PROTECTIONS = {
    rerandomised_on_export: [
        export_without_new_nonces,
        export_believing_everything_is_fresh,
        export_with_trivial_nonces,
    ],
    range_checked_at_load: [load_without_range_check],
    units_checked_at_load: [load_without_gcd_check, load_checking_the_first_only],
    masked_uniformly_in_z_n: {
        "no_mask": _masks_from(lambda n, draw: 0),
        "masks_of_64_bits": _masks_from(lambda n, draw: draw(1 << 64, 1)[0]),
        "masks_64_bits_narrower_than_n": _masks_from(lambda n, draw: draw(n >> 64, 1)[0]),
        "masks_below_half_of_n": _masks_from(lambda n, draw: draw(n // 2, 1)[0]),
        "masks_that_are_even": _masks_from(lambda n, draw: draw(n // 2, 1)[0] * 2),
        "masks_below_a_power_of_two": _masks_from(lambda n, draw: draw(1 << (n.bit_length() - 1), 1)[0]),
        "masks_forgotten": masks_forgotten,
        "one_mask_for_all": one_mask_for_all,
    },
    masks_are_the_ones_returned: [masks_forgotten],
    units_checked_in_decryption: [decrypt_without_unit_check],
    nonces_are_fresh: [encrypt_with_one_nonce, encrypt_with_a_constant_exponent, export_with_trivial_nonces],
    prefilled_nonces_are_used_once: [pool_that_forgets_what_was_used],
    pools_do_not_survive_a_fork: [pool_without_a_look_at_the_process],
    slots_checked_when_unpacked: [unpack_without_range_check, unpack_with_one_guard_bit],
    values_checked_when_packed: [pack_without_range_check],
    keys_never_mix: [operations_without_a_look_at_the_key],
    received_for_decryption_stays: [decryptor_with_nonces],
}


def _named(mutations):
    return mutations.items() if isinstance(mutations, dict) else [(m.__name__, m) for m in mutations]


REMOVALS = [
    pytest.param(checker, mutate, id=f"{checker.__name__}: {name}")
    for checker, mutations in PROTECTIONS.items()
    for name, mutate in _named(mutations)
]


def _ones(ring, count):
    return ring.load((1).to_bytes(ring.value_bytes, "little") * count)


_other: list = []


def _other_key():
    from fedsdg.crypto import PrivateKey

    if not _other:
        _other.append(PrivateKey.generate(512, allow_test_size=True))
    return _other[0]


@pytest.mark.parametrize("checker", PROTECTIONS, ids=lambda checker: checker.__name__)
def test_protection_is_in_place(party, checker):
    checker(party)


@pytest.mark.parametrize(("checker", "mutate"), REMOVALS)
def test_its_removal_is_noticed(party, monkeypatch, checker, mutate):
    with monkeypatch.context() as patch:
        mutate(patch, party)
        with pytest.raises(AssertionError):
            checker(party)
    checker(party)  # and the protection is back, so the next test sees the real code


def test_the_missing_unit_check_would_cost_the_private_key(party, monkeypatch):
    with monkeypatch.context() as patch:
        decrypt_without_unit_check(patch, party)
        with pytest.raises(AssertionError, match="read from the result: True"):
            units_checked_in_decryption(party)


def test_the_statistic_accepts_uniform_samples_and_rejects_skewed_ones():
    assert chi_squared([40] * 16) == 0
    assert chi_squared([640] + [0] * 15) > 1000
    assert math.isclose(chi_squared([60, 20]), 20)

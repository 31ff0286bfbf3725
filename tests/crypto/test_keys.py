"""Keys: made well, checked when they arrive, comparable by fingerprint."""

import warnings

import gmpy2
import pytest

from fedsdg.crypto import ALLOWED_BITS, DEFAULT_BITS, PrivateKey, PublicKey
from fedsdg.crypto.keys import SMALLEST_TEST_BITS, random_generator
from fedsdg.errors import CryptoError, InvalidPublicKey, WeakKeyWarning


@pytest.mark.parametrize("bits", [0, 1, 256, 512, 1024, 2032, 2047, 2049, 3071, 4096])
def test_other_sizes_than_2048_and_3072_need_the_test_flag(bits):
    with pytest.raises(InvalidPublicKey, match="2048 or 3072"):
        PrivateKey.generate(bits)


def test_the_sizes_are_those_of_the_policy():
    assert ALLOWED_BITS == (2048, 3072)
    assert DEFAULT_BITS == 3072


@pytest.mark.parametrize("bits", [0, 128, SMALLEST_TEST_BITS - 16, 264, 513, 3088, 4096])
def test_test_sizes_have_limits_too(bits):
    with pytest.raises(InvalidPublicKey, match="multiple of 16"):
        PrivateKey.generate(bits, allow_test_size=True)


@pytest.mark.parametrize("bits", [256, 272, 512, 1040])
def test_a_test_size_warns_when_made_and_when_read(bits):
    with pytest.warns(WeakKeyWarning, match=f"{bits}-bit"):
        key = PrivateKey.generate(bits, allow_test_size=True)
    assert key.public_key.bits == bits
    with pytest.warns(WeakKeyWarning, match="deliberately weak"):
        PublicKey.from_bytes(key.public_key.to_bytes(), allow_test_size=True)


def test_a_real_size_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        key = PrivateKey.generate(2048)
        PublicKey.from_bytes(key.public_key.to_bytes(), bits=2048)


@pytest.mark.parametrize("bits", [256, 512, 1024, 2048, 3072])
def test_the_primes_are_as_the_nonces_need_them(key_of, bits):
    key = key_of(bits)
    p, q = key.p, key.q
    for prime in (p, q):
        assert gmpy2.is_prime(prime, 40)
        assert prime % 4 == 3
        assert prime.bit_length() == bits // 2
        assert prime >> (bits // 2 - 2) == 3
    assert gmpy2.gcd(p - 1, q - 1) == 2
    assert p * q == key.public_key.n
    assert key.public_key.n.bit_length() == key.public_key.bits == bits
    assert abs(p - q).bit_length() > bits // 2 - 100
    assert gmpy2.gcd(key.public_key.n, (p - 1) * (q - 1)) == 1


def test_keys_are_fresh(key_of, test_key, other_key):
    primes = {key.p for key in (key_of(512), test_key, other_key)} | {
        key.q for key in (key_of(512), test_key, other_key)
    }
    assert len(primes) == 6


def test_a_private_key_refuses_unsuitable_primes(test_key):
    p, q = int(test_key.p), int(test_key.q)
    one_mod_four = int(gmpy2.next_prime(p))
    while one_mod_four % 4 == 3:
        one_mod_four = int(gmpy2.next_prime(one_mod_four))
    for a, b in ((p, p), (p, q + 2), (p, 2**128 + 51), (one_mod_four, q), (p * q, q), (3, 7)):
        with pytest.raises(CryptoError):
            PrivateKey(a, b, allow_test_size=True)


def test_a_private_key_made_from_its_primes_is_the_same_key(test_key):
    with pytest.warns(WeakKeyWarning):
        again = PrivateKey(test_key.p, test_key.q, allow_test_size=True)
    assert again.public_key == test_key.public_key


def test_fingerprints_tell_keys_apart(test_key, other_key):
    one, other = test_key.public_key, other_key.public_key
    assert len(one.fingerprint) == 16
    assert one.fingerprint != other.fingerprint
    assert one != other
    assert len({one, other, PublicKey(one.n, allow_test_size=True)}) == 2
    assert one != "a key"


def test_a_public_key_survives_the_wire(test_key, real_key):
    for key, allow in ((test_key.public_key, True), (real_key.public_key, False)):
        again = PublicKey.from_bytes(key.to_bytes(), bits=key.bits, allow_test_size=allow)
        assert again == key
        assert again.fingerprint == key.fingerprint
        assert len(key.to_bytes()) == 8 + key.bits // 8


def test_the_prescribed_size_is_enforced_among_allowed_ones(real_key):
    with pytest.raises(InvalidPublicKey, match="3072"):
        PublicKey.from_bytes(real_key.public_key.to_bytes(), bits=3072)


@pytest.mark.parametrize("n", [-1, 0, 1, -(2**2047) - 1])
def test_numbers_that_are_no_modulus_are_refused(n):
    with pytest.raises(InvalidPublicKey):
        PublicKey(n)


def test_real_moduli_are_checked_like_test_ones(real_key, key_of):
    n, p = int(real_key.public_key.n), int(real_key.p)
    prime = int(gmpy2.next_prime(3 << 2046))
    for bad in (n - 1, p * p, prime, 3 * ((3 << 2046) // 3 | 1), n * 65521 >> 16 << 16):
        with pytest.raises(InvalidPublicKey):
            PublicKey(bad)


def test_keys_are_immutable(test_key):
    for key, name in (
        (test_key, "p"),
        (test_key, "public_key"),
        (test_key.public_key, "n"),
        (test_key.public_key, "x"),
    ):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(key, name, 1)


def test_generators_have_full_order_as_far_as_small_primes_tell(test_key):
    for p in (test_key.p, test_key.q):
        g = random_generator(p)
        assert 1 < g < p
        assert gmpy2.powmod(g, (p - 1) // 2, p) == p - 1
        for f in (3, 5, 7, 11, 13, 1009):
            if (p - 1) % f == 0:
                assert gmpy2.powmod(g, (p - 1) // f, p) != 1


def test_in_a_tiny_group_whatever_is_found_generates_all_of_it():
    for g in {int(random_generator(gmpy2.mpz(1019))) for _ in range(60)}:
        assert len({pow(g, e, 1019) for e in range(1018)}) == 1018

"""Fixtures shared by all tests: both back ends, and test keys made once."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, backends
from fedsdg.errors import WeakKeyWarning

settings.register_profile(
    "fedsdg", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("fedsdg")

AVAILABLE_BACKENDS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name == "native" and backends.native_problem() is not None,
            reason=f"native back end: {backends.native_problem()}",
        ),
    )
    for name in backends.NAMES
]
TEST_BITS = 512


def make_key(bits: int = TEST_BITS) -> PrivateKey:
    """Make a key; small ones are weak on purpose, and say so once too often for a test log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakKeyWarning)
        return PrivateKey.generate(bits, allow_test_size=True)


class Party:
    """The owner of a key and somebody who computes under it, on one back end."""

    def __init__(self, key: PrivateKey, backend: str) -> None:
        self.key = key
        self.n = key.public_key.n
        self.backend = backend
        self.encryptor = Encryptor(key, backend)
        self.decryptor = Decryptor(self.encryptor)
        self.evaluator = Evaluator(key.public_key, backend)

    def send(self, plaintexts: list[int], shape: tuple[int, ...]):
        """Encrypt, serialise, and load on the other side."""
        return self.evaluator.load(self.encryptor.encrypt(plaintexts, shape).to_bytes(), shape)

    def receive(self, array) -> list[int]:
        """Serialise, load at the owner, decrypt."""
        loaded = self.decryptor.load(array.to_bytes(), array.shape)
        return [int(m) for m in self.decryptor.decrypt(loaded)]


@pytest.fixture(params=AVAILABLE_BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each arithmetic back end that can run here."""
    return request.param


@pytest.fixture(scope="session")
def test_key() -> PrivateKey:
    """A small key, for speed."""
    return make_key()


@pytest.fixture(scope="session")
def other_key() -> PrivateKey:
    """Another party's small key."""
    return make_key()


@pytest.fixture(scope="session")
def real_key() -> PrivateKey:
    """A key of the smallest size that a job may use."""
    return PrivateKey.generate(2048)


_parties: dict[tuple[bytes, str], Party] = {}


def party_for(key: PrivateKey, backend: str) -> Party:
    """Tables are expensive: one party per key and back end."""
    found = _parties.setdefault((key.public_key.fingerprint, backend), None)  # type: ignore[arg-type]
    if found is None:
        found = _parties[key.public_key.fingerprint, backend] = Party(key, backend)
    return found


_keys: dict[int, PrivateKey] = {}


def _key_of(bits: int) -> PrivateKey:
    if bits not in _keys:
        _keys[bits] = make_key(bits)
    return _keys[bits]


@pytest.fixture(scope="session")
def key_of() -> Callable[[int], PrivateKey]:
    """A key of any size, made once per size."""
    return _key_of


@pytest.fixture(scope="session")
def party_of() -> Callable[[int, str], Party]:
    """Both sides of a key of any size, on a named back end."""
    return lambda bits, backend: party_for(_key_of(bits), backend)


@pytest.fixture
def party(test_key: PrivateKey, backend: str) -> Party:
    """Both sides of a small key."""
    return party_for(test_key, backend)


@pytest.fixture
def real_party(real_key: PrivateKey, backend: str) -> Party:
    """Both sides of a 2048-bit key."""
    return party_for(real_key, backend)

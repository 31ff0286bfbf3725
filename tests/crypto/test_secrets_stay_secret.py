"""Nothing shows, writes down or copies a private key, and secrets come from the operating system alone."""

import ast
import copy
import importlib
import pickle
import pkgutil
import pprint
import secrets
from pathlib import Path

import pytest

import fedsdg.crypto
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, randomness

SOURCES = sorted(Path(fedsdg.crypto.__file__).parent.rglob("*.py"))


def assert_no_digits_of(key, text: str) -> None:
    for prime in (int(key.p), int(key.q)):
        for digits in (str(prime), hex(prime)[2:]):
            for start in range(0, len(digits) - 8):
                assert digits[start : start + 8] not in text.lower()


HOLDERS = {
    "private key": lambda party: party.key,
    "encryptor": lambda party: party.encryptor,
    "decryptor": lambda party: party.decryptor,
    "decryptor of the key": lambda party: Decryptor(party.key, party.backend),
    "evaluator of one's own encryptor": lambda party: Evaluator(party.encryptor),
    "array": lambda party: party.encryptor.encrypt([1]),
    "arithmetic": lambda party: party.encryptor._owner,
    "nonces": lambda party: party.encryptor._nonces,
}


@pytest.fixture(params=HOLDERS)
def holder(request, party):
    """Everything of the owner's side that contains the private key in some form."""
    return HOLDERS[request.param](party)


def test_no_way_of_printing_shows_a_private_key(party, holder):
    for text in (repr(holder), str(holder), f"{holder}", f"{holder!r:>200}", f"{[holder]}", pprint.pformat(holder)):
        assert_no_digits_of(party.key, text)


def test_a_private_key_has_no_vars(test_key):
    with pytest.raises(TypeError):
        vars(test_key)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_private_key_does_not_pickle(test_key, protocol):
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(test_key, protocol)
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps({"key": [test_key]}, protocol)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_private_key_is_not_copied(test_key, duplicate):
    with pytest.raises(TypeError, match="never serialised"):
        duplicate(test_key)


def test_nothing_that_holds_a_private_key_pickles(holder):
    """A pickled decryptor is a private key in a file."""
    with pytest.raises(TypeError):
        pickle.dumps(holder)


def test_nothing_that_holds_a_private_key_is_copied(holder):
    with pytest.raises(TypeError):
        copy.deepcopy(holder)


def test_a_private_key_has_no_serialised_form(test_key):
    public = {name for name in dir(test_key) if not name.startswith("_")}
    assert public == {"p", "q", "public_key", "generate"}
    assert not {name for name in dir(test_key) if "bytes" in name or "json" in name or "export" in name}
    for name in ("__reduce__", "__getstate__"):
        method = getattr(test_key, name, None)
        if method is not None:
            with pytest.raises(TypeError):
                method()


# -- where randomness comes from -------------------------------------------------------------------------------------


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_module_imports_a_seedable_generator_or_pickle(path):
    forbidden = {"random", "numpy.random", "pickle", "marshal", "shelve", "dill", "joblib", "torch", "phe"}
    for name in imports_of(path):
        assert not any(name == bad or name.startswith(f"{bad}.") for bad in forbidden), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_module_reaches_a_seedable_generator_through_an_attribute(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            owner = node.value
            assert not (node.attr == "random" and isinstance(owner, ast.Name) and owner.id in ("np", "numpy"))
            assert node.attr not in ("mpz_random", "mpz_urandomb", "random_state", "default_rng", "RandomState")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__")


def test_every_module_was_looked_at():
    modules = [m.name for m in pkgutil.walk_packages(fedsdg.crypto.__path__, "fedsdg.crypto.")]
    python = [m for m in modules if not m.endswith("._native")]
    assert len(python) + 1 == len(SOURCES)
    for name in python:
        importlib.import_module(name)


def test_seeding_the_seedable_generators_changes_nothing():
    import random

    import numpy as np

    drawn = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        drawn.append(randomness.below(2**128, 3))
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("function", ["token_bytes"])
def test_every_secret_is_drawn_through_secrets(party, monkeypatch, function):
    calls = []
    original = getattr(secrets, function)
    monkeypatch.setattr(secrets, function, lambda *a: calls.append(a) or original(*a))
    for action in (
        lambda: party.encryptor.encrypt([1]),
        lambda: Encryptor(party.key.public_key, party.backend).encrypt([1]),
        lambda: party.evaluator.mask(party.send([1], (1,))),
    ):
        calls.clear()
        action()
        assert calls


def test_key_generation_draws_through_secrets(monkeypatch):
    def refuse(*_):
        raise ConnectionError("secrets was asked")

    monkeypatch.setattr(secrets, "randbits", refuse)
    with pytest.raises(ConnectionError):
        PrivateKey.generate(2048)


# -- the generator itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 255, 256, 257, 1000, 65535, 65536, 65537])
def test_integers_below_a_bound_are_below_it_and_reach_every_part_of_it(bound):
    drawn = [int(v) for v in randomness.below(bound, 2000)]
    assert all(0 <= v < bound for v in drawn)
    buckets = min(bound, 8)
    assert {v * buckets // bound for v in drawn} == set(range(buckets))


@pytest.mark.parametrize("bound", [3, 5, 6, 257])
def test_there_is_no_modulo_bias(bound):
    count = 12000
    drawn = [int(v) for v in randomness.below(bound, count)]
    buckets = min(bound, 6)
    for b in range(buckets):
        share = -(-(b + 1) * bound // buckets) - -(-b * bound // buckets)
        expected = count * share / bound
        assert abs(sum(v * buckets // bound == b for v in drawn) - expected) < 8 * expected**0.5


def test_signed_integers_fill_their_range():
    drawn = randomness.signed(3, 2000)
    assert set(drawn) == set(range(-8, 8))


@pytest.mark.parametrize("bound", [0, -1, -(2**70)])
def test_an_empty_range_is_an_error_and_not_an_endless_loop(monkeypatch, bound):
    draws = iter([randomness.random_bytes] * 20)
    monkeypatch.setattr(randomness, "random_bytes", lambda *a: next(draws)(*a))  # StopIteration instead of for ever
    with pytest.raises(ValueError, match="bound"):
        randomness.below(bound, 1)

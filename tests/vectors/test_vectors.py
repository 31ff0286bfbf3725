"""Every vector gets its verdict, on every back end, and no error repeats what was sent."""

import json
import re
from pathlib import Path

import generate
import pytest

from fedsdg import errors
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, PublicKey

HERE = Path(__file__).parent
FILES = ["ciphertexts.json", "public_keys.json"]
VECTORS = {name: json.loads((HERE / name).read_text(encoding="utf-8")) for name in FILES}


def cases(name: str):
    return [pytest.param(case, id=f"{case['tcId']}-{case['comment']}") for case in VECTORS[name]["tests"]]


@pytest.fixture(scope="module")
def key():
    keys = VECTORS["ciphertexts.json"]["testKeys"]
    return PrivateKey(int(keys["p"], 16), int(keys["q"], 16), allow_test_size=True)


_receivers: dict[str, tuple[Evaluator, Decryptor]] = {}


@pytest.fixture
def receivers(key, backend):
    """Both who read arrays from a peer."""
    if backend not in _receivers:
        _receivers[backend] = (Evaluator(key.public_key, backend), Decryptor(Encryptor(key, backend)))
    return _receivers[backend]


def assert_says_nothing(text: str, message: bytes) -> None:
    """No part of the input stands in the text: neither as bytes, nor as a number in hexadecimal or decimal."""
    text = text.replace(str(2**32 - 1), "")  # shapes may be named
    assert not re.search(r"[0-9a-fA-F]{10,}", text)
    assert not re.search(r"\d{8,}", text)
    for start in range(0, max(0, len(message) - 8), 8):
        chunk = message[start : start + 8]
        if any(chunk):
            assert chunk.hex() not in text.lower()


@pytest.mark.parametrize("case", cases("ciphertexts.json"))
def test_arrays_get_their_verdict(receivers, case):
    message, shape = bytes.fromhex(case["msg"]), tuple(case["shape"])
    limit = {"max_bytes": case["maxBytes"]} if "maxBytes" in case else {}
    for receiver in receivers:
        if case["result"] == "valid":
            array = receiver.load(message, shape, **limit)
            assert array.shape == shape
            assert receivers[1].decrypt(array) == [int(m, 16) for m in case["plaintexts"]]
        else:
            with pytest.raises(errors.CryptoError) as refusal:
                receiver.load(message, shape, **limit)
            assert type(refusal.value).__name__ == case["error"]
            assert_says_nothing(str(refusal.value), message)


@pytest.mark.parametrize("case", cases("public_keys.json"))
def test_public_keys_get_their_verdict(case):
    message = bytes.fromhex(case["msg"])
    arguments = {"bits": case.get("bits"), "allow_test_size": case.get("allowTestSize", True)}
    if case["result"] == "valid":
        key = PublicKey.from_bytes(message, **arguments)
        assert key.n == int(case["modulus"], 16)
        assert key.to_bytes() == message
    else:
        with pytest.raises(errors.CryptoError) as refusal:
            PublicKey.from_bytes(message, **arguments)
        assert type(refusal.value).__name__ == case["error"]
        assert_says_nothing(str(refusal.value), message)


def test_the_generator_writes_exactly_these_files():
    assert generate.build(generate.stored_keys()) == VECTORS


@pytest.mark.parametrize("name", FILES)
def test_the_files_describe_themselves(name):
    content = VECTORS[name]
    assert content["numberOfTests"] == len(content["tests"])
    assert [case["tcId"] for case in content["tests"]] == list(range(1, len(content["tests"]) + 1))
    assert "TEST ONLY" in content["warning"]
    used = {flag for case in content["tests"] for flag in case["flags"]}
    assert used == set(content["notes"])
    for case in content["tests"]:
        assert case["result"] in ("valid", "invalid")
        assert ("error" in case) == (case["result"] == "invalid")

"""Writes ciphertexts.json and public_keys.json, in the style of Wycheproof.

    python tests/vectors/generate.py             keep the test keys, write everything else anew: same bytes every time
    python tests/vectors/generate.py --new-keys  draw new test keys first

The wire form is written out here by hand, from its documentation, so that the vectors do not inherit a mistake of the
code they test. Only plain Python integers are used; fedsdg is not imported.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import struct
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BITS = 512
WIDTH = BITS // 8
WARNING = "TEST ONLY: the primes below are public. Never encrypt anything under these keys."


# -- numbers ---------------------------------------------------------------------------------------------------------


def is_prime(n: int) -> bool:
    if any(n % f == 0 for f in range(2, 2000)):
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(40):
        x = pow(2 + secrets.randbelow(n - 3), odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def draw_prime(bits: int) -> int:
    while True:
        candidate = secrets.randbits(bits) | (3 << (bits - 2)) | 3
        if is_prime(candidate):
            return candidate


def draw_keys() -> dict[str, str]:
    """Two key pairs, and an isolated prime for moduli that are no product of two."""
    while True:
        primes = [draw_prime(BITS // 2) for _ in range(4)]
        if math.gcd(primes[0] - 1, primes[1] - 1) == math.gcd(primes[2] - 1, primes[3] - 1) == 2:
            names = ("p", "q", "otherP", "otherQ")
            return {name: hex(prime) for name, prime in zip(names, primes, strict=True)} | {
                "prime": hex(draw_prime(BITS))
            }


def deterministic(label: str, bound: int) -> int:
    """A number in [1, bound) that depends on its label only."""
    wide = b"".join(hashlib.sha512(f"{label} {i}".encode()).digest() for i in range(12))
    return 1 + int.from_bytes(wide, "big") % (bound - 1)


# -- the wire --------------------------------------------------------------------------------------------------------


def fingerprint(n: int, scheme: int = 1) -> bytes:
    return hashlib.sha256(bytes([scheme]) + n.to_bytes(WIDTH, "little")).digest()[:16]


def array(n: int, shape: tuple[int, ...], values: list[int], **header: Any) -> bytes:
    fields: dict[str, Any] = {
        "magic": b"FSEA",
        "version": 1,
        "dimensions": len(shape),
        "fingerprint": fingerprint(n),
        "claimed": shape,
    }
    fields |= header
    head = fields["magic"] + bytes([fields["version"], fields["dimensions"]]) + fields["fingerprint"]
    head += struct.pack(f"<{len(fields['claimed'])}I", *fields["claimed"])
    return head + b"".join(v.to_bytes(2 * WIDTH, "little") for v in values)


def public_key(n: int, width: int = WIDTH, **header: Any) -> bytes:
    fields: dict[str, Any] = {"magic": b"FSPK", "version": 1, "scheme": 1, "bits": 8 * width} | header
    head = struct.pack("<4sBBH", fields["magic"], fields["version"], fields["scheme"], fields["bits"])
    return head + n.to_bytes(width, "little")


# -- the vectors -----------------------------------------------------------------------------------------------------


class Tests(list[dict[str, Any]]):
    """Numbered test cases."""

    def valid(self, comment: str, message: bytes, flags: list[str], **more: Any) -> None:
        self._add(comment, message, flags, "valid", more)

    def invalid(self, comment: str, message: bytes, flags: list[str], error: str, **more: Any) -> None:
        self._add(comment, message, flags, "invalid", {"error": error} | more)

    def _add(self, comment: str, message: bytes, flags: list[str], result: str, more: dict[str, Any]) -> None:
        case = {"tcId": len(self) + 1, "comment": comment, "flags": flags, "msg": message.hex()}
        self.append(case | more | {"result": result})


def ciphertext_vectors(keys: dict[str, str]) -> dict[str, Any]:
    p, q = int(keys["p"], 16), int(keys["q"], 16)
    n = p * q
    square = n * n
    other = int(keys["otherP"], 16) * int(keys["otherQ"], 16)
    tests = Tests()

    def encrypt(m: int, label: str) -> int:
        return (1 + m * n) * pow(deterministic(label, n), n, square) % square

    def one(value: int) -> bytes:
        return array(n, (1,), [value])

    plain = {"0": 0, "1": 1, "n-1": n - 1, "(n-1)/2": (n - 1) // 2, "(n+1)/2": (n + 1) // 2}
    for name, m in plain.items():
        tests.valid(f"encryption of {name}", one(encrypt(m, name)), ["Normal"], shape=[1], plaintexts=[hex(m)])
    edges = {
        "1: an encryption of 0 with nonce 1": (1, 0),
        "n^2-1: an encryption of 0 with nonce -1": (square - 1, 0),
        "n+1: an encryption of 1 with nonce 1": (n + 1, 1),
        "n^2-n+1: an encryption of -1 with nonce 1": (square - n + 1, n - 1),
        "n^2-n-1: an encryption of 1 with nonce -1": (square - n - 1, 1),
        "n-1: an encryption of -1 with nonce -1": (n - 1, n - 1),
    }
    for comment, (c, m) in edges.items():
        tests.valid(comment, one(c), ["Edge"], shape=[1], plaintexts=[hex(m)])
    four = [encrypt(m, f"array {m}") for m in range(4)]
    plaintexts = [hex(m) for m in range(4)]
    for shape in ((4,), (2, 2), (1, 4), (1, 2, 2), (1, 2, 1, 2)):
        tests.valid(f"shape {shape}", array(n, shape, four), ["Shape"], shape=list(shape), plaintexts=plaintexts)
    tests.valid("no dimension: a single ciphertext", array(n, (), four[:1]), ["Shape"], shape=[], plaintexts=["0x0"])
    tests.valid("empty array", array(n, (0,), []), ["Shape"], shape=[0], plaintexts=[])
    tests.valid("exactly as long as the limit", one(four[1]), ["Limit"], shape=[1], plaintexts=["0x1"], maxBytes=154)

    def bad(comment: str, value: int, flag: str) -> None:
        tests.invalid(comment, one(value), [flag], "InvalidCiphertext", shape=[1])

    bad("0: textbook decryption returns the private key", 0, "KeyRecovery")
    bad("n: textbook decryption returns the private key", n, "KeyRecovery")
    bad("7n", 7 * n, "KeyRecovery")
    bad("(n-1)n: the largest multiple of n", (n - 1) * n, "KeyRecovery")
    bad("a random multiple of n", deterministic("multiple", n) * n, "KeyRecovery")
    for name, prime in (("p", p), ("q", q)):
        bad(name, prime, "NotAUnit")
        bad(f"{name}^2", prime * prime, "NotAUnit")
        bad(f"{name}^3", prime**3, "NotAUnit")
        bad(f"n^2-{name}", square - prime, "NotAUnit")
        bad(f"a random multiple of {name}", deterministic(name, n) * prime, "NotAUnit")
    bad("n^2", square, "OutOfRange")
    bad("n^2+1: congruent to a valid ciphertext", square + 1, "OutOfRange")
    bad("n^2+n+1", square + n + 1, "OutOfRange")
    bad("all bits set", (1 << (16 * WIDTH)) - 1, "OutOfRange")
    for at in range(4):
        spoiled = [*four[:at], 3 * n, *four[at + 1 :]]
        tests.invalid(
            f"a multiple of n among good ones, at {at}",
            array(n, (4,), spoiled),
            ["KeyRecovery"],
            "InvalidCiphertext",
            shape=[4],
        )
        spoiled = [*four[:at], square + 1, *four[at + 1 :]]
        tests.invalid(
            f"n^2+1 among good ones, at {at}", array(n, (4,), spoiled), ["OutOfRange"], "InvalidCiphertext", shape=[4]
        )
    spoiled = [p, q, *four[2:]]
    tests.invalid("p and q as two ciphertexts", array(n, (4,), spoiled), ["NotAUnit"], "InvalidCiphertext", shape=[4])

    good = one(four[2])
    head = len(good) - 2 * WIDTH
    for comment, message in {
        "one byte short": good[:-1],
        "half a ciphertext": good[:-WIDTH],
        "header only": good[:head],
        "one byte too many": good + b"\0",
        "one ciphertext too many": good + good[head:],
    }.items():
        tests.invalid(comment, message, ["Length"], "InvalidCiphertext", shape=[1])
    for comment, message in {
        "nothing at all": b"",
        "one byte": good[:1],
        "cut within the fingerprint": good[:20],
        "cut before the shape": good[:22],
        "cut within the shape": good[:25],
        "wrong magic": b"FSEB" + good[4:],
        "a public key": public_key(n),
        "version 0": array(n, (1,), four[:1], version=0),
        "version 2": array(n, (1,), four[:1], version=2),
        "fewer dimensions than expected": array(n, (), four[:1]),
        "five dimensions": array(n, (1, 1, 1, 1, 1), four[:1]),
        "255 dimensions claimed": array(n, (1,), four[:1], dimensions=255),
        "255 dimensions present": array(n, (1,) * 255, four[:1]),
        "another shape of the same size": array(n, (1, 1), four[:1]),
        "another size": array(n, (2,), four[:2]),
        "an empty array": array(n, (0,), []),
        "2^32-1 ciphertexts claimed": array(n, (1,), four[:1], claimed=(2**32 - 1,)),
        "2^128 ciphertexts claimed": array(n, (1,), four[:1], dimensions=4, claimed=(2**32 - 1,) * 4),
    }.items():
        tests.invalid(comment, message, ["Header"], "MalformedMessage", shape=[1])
    tests.invalid("one byte over the limit", good, ["Limit"], "MalformedMessage", shape=[1], maxBytes=len(good) - 1)
    tests.invalid(
        "a huge shape over the limit",
        array(n, (64,), four * 16),
        ["Limit"],
        "MalformedMessage",
        shape=[64],
        maxBytes=4096,
    )
    for comment, print_ in {
        "another key's fingerprint": fingerprint(other),
        "no fingerprint": bytes(16),
        "a transparent key's fingerprint": fingerprint(n, 255),
        "one bit of the fingerprint flipped": bytes([fingerprint(n)[0] ^ 1]) + fingerprint(n)[1:],
    }.items():
        tests.invalid(comment, array(n, (1,), four[:1], fingerprint=print_), ["Key"], "KeyMismatch", shape=[1])
    return {
        "algorithm": "Paillier",
        "schema": "fedsdg encrypted array, version 1",
        "warning": WARNING,
        "generatedBy": "tests/vectors/generate.py",
        "numberOfTests": len(tests),
        "notes": {
            "Normal": "ordinary ciphertexts",
            "Edge": "unusual but valid residues: units below n^2 whose nonce is 1 or -1",
            "Shape": "shapes that arrays may have",
            "KeyRecovery": "multiples of n: decrypted without a check, they return (p+q)^-1 modulo n",
            "NotAUnit": "multiples of a prime of n",
            "OutOfRange": "residues that are not below n^2",
            "Length": "a body that does not have the length its shape says",
            "Header": "headers that are cut, of another kind or version, or of another shape",
            "Limit": "at and over the receiver's size limit",
            "Key": "arrays under another key",
        },
        "testKeys": keys,
        "n": hex(n),
        "tests": list(tests),
    }


def public_key_vectors(keys: dict[str, str]) -> dict[str, Any]:
    p, q, r, s = (int(keys[name], 16) for name in ("p", "q", "otherP", "otherQ"))
    prime, n = int(keys["prime"], 16), p * q
    tests = Tests()

    def odd(bits: int) -> int:
        """A product without small factors that has exactly that many bits."""
        value = n >> (BITS - bits) if bits <= BITS else n << (bits - BITS)
        value |= 1 << (bits - 1) | 1
        while any(value % f == 0 for f in range(3, 70000, 2)) or pow(2, value - 1, value) == 1:
            value += 2
        return value

    def modulus(comment: str, value: int, flag: str, width: int = WIDTH, **more: Any) -> None:
        tests.invalid(comment, public_key(value, width), [flag], "InvalidPublicKey", **more)

    tests.valid("a product of two primes", public_key(n), ["Normal"], modulus=hex(n))
    tests.valid("another product of two primes", public_key(r * s), ["Normal"], modulus=hex(r * s))
    tests.valid("of the size that the job prescribes", public_key(n), ["Normal"], modulus=hex(n), bits=BITS)
    modulus("zero", 0, "Size")
    modulus("one", 1, "Size")
    modulus("n-1: even", n - 1, "Even")
    modulus("2^511: even", 1 << 511, "Even")
    modulus("a prime", prime, "Prime")
    modulus("p^2", p * p, "PerfectPower")
    modulus("q^2", q * q, "PerfectPower")
    root = math.isqrt(math.isqrt(3 << 510))
    while any(root % f == 0 for f in range(2, 70000)):
        root += 1
    modulus("a fourth power", root**4, "PerfectPower")
    for factor in (3, 5, 65521):
        cofactor = (1 << BITS) // factor - 2
        while cofactor % 2 == 0 or not all(cofactor % f for f in (3, 5, 7, 11)):
            cofactor -= 1
        modulus(f"a multiple of {factor}", factor * cofactor, "SmallFactor")
    modulus("one bit too small: 511 bits in 64 bytes", odd(BITS - 1), "Size")
    modulus("one bit too large: 513 bits in 66 bytes", odd(BITS + 1), "Size", WIDTH + 2)
    modulus("eight bits too small", odd(BITS - 8), "Size", WIDTH - 1)
    modulus("240 bits: below every test size", odd(240), "Size", 30)
    modulus("p alone, as if it were n", p, "Size")
    modulus("a good key of another size than the job prescribes", n, "Size", bits=1024)
    modulus("a test size where none is allowed", n, "Size", allowTestSize=False)
    tests.invalid("the transparent scheme", public_key(n, scheme=255), ["Scheme"], "InvalidPublicKey")
    tests.invalid("scheme 0", public_key(n, scheme=0), ["Scheme"], "InvalidPublicKey")
    good = public_key(n)
    for comment, message in {
        "nothing at all": b"",
        "cut within the header": good[:7],
        "header only": good[:8],
        "one byte short": good[:-1],
        "one byte too many": good + b"\0",
        "more bits claimed than carried": public_key(n, bits=1024),
        "fewer bits claimed than carried": public_key(n, bits=256),
        "one bit fewer claimed": public_key(n, bits=BITS - 1),
        "no bits claimed": public_key(n, bits=0),
        "wrong magic": b"FSPL" + good[4:],
        "an encrypted array": array(n, (1,), [n + 1]),
        "version 0": public_key(n, version=0),
        "version 2": public_key(n, version=2),
        "absurdly long": good[:8] + bytes(5000),
    }.items():
        tests.invalid(comment, message, ["Header"], "MalformedMessage")
    return {
        "algorithm": "Paillier",
        "schema": "fedsdg public key, version 1",
        "warning": WARNING,
        "generatedBy": "tests/vectors/generate.py",
        "numberOfTests": len(tests),
        "notes": {
            "Normal": "keys that are accepted; allowTestSize is true unless a vector says otherwise",
            "Size": "moduli of a size that is not allowed, not prescribed, or not claimed",
            "Even": "even moduli",
            "Prime": "prime moduli: everybody could decrypt",
            "PerfectPower": "powers: factored by taking a root",
            "SmallFactor": "moduli with a prime factor below 2^16",
            "Scheme": "keys of another scheme",
            "Header": "headers that are cut, contradict the body, or are of another kind or version",
        },
        "tests": list(tests),
    }


def build(keys: dict[str, str]) -> dict[str, dict[str, Any]]:
    """All files, by name."""
    return {"ciphertexts.json": ciphertext_vectors(keys), "public_keys.json": public_key_vectors(keys)}


def stored_keys() -> dict[str, str]:
    return json.loads((HERE / "ciphertexts.json").read_text(encoding="utf-8"))["testKeys"]


def main() -> None:
    keys = draw_keys() if "--new-keys" in sys.argv else stored_keys()
    for name, content in build(keys).items():
        (HERE / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What `fedsdg doctor` finds: the back end and why, whether it computes correctly, and what would make it faster."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

import fedsdg
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey, backends
from fedsdg.crypto.backends import native_ring
from fedsdg.errors import BackendUnavailable


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    subject: str
    verdict: Literal["ok", "note", "broken"]
    text: str


def examine() -> list[Finding]:
    """Look at everything that decides whether and how fast fedsdg runs here."""
    return [_versions(), *_backend(), _threads(), _memory()]


def _versions() -> Finding:
    found = [f"fedsdg {fedsdg.__version__}", f"Python {platform.python_version()}"]
    for package in ("gmpy2", "numpy"):
        found.append(f"{package} {metadata.version(package)}")
    return Finding("versions", "ok", ", ".join(found))


def _backend() -> list[Finding]:
    try:
        chosen = backends.choose()
    except BackendUnavailable as problem:
        return [Finding("back end", "broken", str(problem))]
    problem_here = backends.native_problem()
    findings = [Finding("back end", "ok" if problem_here is None else "note", f"{chosen.name} ({chosen.reason})")]
    if chosen.name != "native":
        advice = (
            "install a C compiler and reinstall fedsdg" if native_ring.IMPORT_PROBLEM else "use a CPU with AVX-512 IFMA"
        )
        if problem_here is not None:
            findings.append(
                Finding(
                    "speed",
                    "note",
                    f"encrypted products run about ten times slower than they could: {advice}",
                )
            )
    findings.append(_self_test(chosen.name))
    return findings


def _self_test(name: str) -> Finding:
    """Encrypt, compute and decrypt with a real 2048-bit key."""
    key = PrivateKey.generate(2048)
    encryptor, evaluator = Encryptor(key, name), Evaluator(key.public_key, name)
    decryptor = Decryptor(encryptor)
    sent = encryptor.encrypt([3, -5, 7, 11], (2, 2)).to_bytes()
    result = evaluator.dot(evaluator.load(sent, (2, 2)), [[2], [-3]]).to_bytes()
    n = key.public_key.n
    if decryptor.decrypt(decryptor.load(result, (2, 1))) == [21 % n, -19 % n]:
        return Finding("self-test", "ok", "2048-bit key made, values encrypted, multiplied, decrypted: correct")
    return Finding("self-test", "broken", "an encrypted product came out wrong; do not use this installation")


def _threads() -> Finding:
    cores = os.cpu_count() or 1
    threads = native_ring.thread_count()
    return Finding("threads", "ok", f"{threads} of {cores} cores (FEDSDG_THREADS changes it; gmpy2 uses one)")


def _memory() -> Finding:
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 2**30
    except (ValueError, OSError):
        return Finding("memory", "note", "unknown")
    return Finding("memory", "ok" if available > 1 else "note", f"{available:.1f} GiB free")

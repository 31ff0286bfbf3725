"""Which arithmetic runs, and why.

`choose()` prefers the native kernel and falls back to gmpy2. FEDSDG_BACKEND=native or =gmpy2 forces one; a forced back
end that cannot run is an error, never a silent fallback. `fedsdg doctor` shows the choice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from fedsdg.crypto.backends import native_ring
from fedsdg.crypto.backends.base import OwnerRing, Ring
from fedsdg.crypto.backends.gmpy2_ring import Gmpy2OwnerRing, Gmpy2Ring
from fedsdg.crypto.backends.native_ring import NativeOwnerRing, NativeRing
from fedsdg.errors import BackendUnavailable

ENVIRONMENT_VARIABLE = "FEDSDG_BACKEND"
NAMES = ("native", "gmpy2")


@dataclass(frozen=True)
class Backend:
    """An arithmetic back end and the reason for choosing it."""

    name: str
    reason: str

    def ring(self, n: int) -> Ring[Any]:
        """Return arithmetic modulo n^2."""
        return NativeRing(n) if self.name == "native" else Gmpy2Ring(n)

    def owner_ring(self, ring: Ring[Any], p: int, q: int) -> OwnerRing[Any]:
        """Return the key owner's arithmetic modulo p^2 and q^2."""
        return NativeOwnerRing(ring, p, q) if isinstance(ring, NativeRing) else Gmpy2OwnerRing(ring, p, q)


def native_problem(bits: int = 2048) -> str | None:
    """Return why the native kernel cannot serve keys of that size here, or None if it can."""
    if native_ring.IMPORT_PROBLEM is not None:
        return "the C extension was not built (no compiler at install time?)"
    if not native_ring.cpu_supported():
        return "this CPU has no AVX-512 IFMA"
    if native_ring.digits_for(bits) is None:
        return f"no kernel for {bits}-bit keys was compiled"
    return None


def choose(bits: int = 2048, force: str | None = None) -> Backend:
    """Choose the back end for keys of that size; `force` overrides the environment variable."""
    wanted = force or os.environ.get(ENVIRONMENT_VARIABLE) or "auto"
    source = "asked for" if force else f"{ENVIRONMENT_VARIABLE}={wanted}"
    problem = native_problem(bits)
    if wanted == "gmpy2":
        return Backend("gmpy2", source)
    if wanted == "native":
        if problem is not None:
            raise BackendUnavailable(f"The native back end was requested ({source}), but {problem}.")
        return Backend("native", source)
    if wanted != "auto":
        raise BackendUnavailable(
            f"Unknown back end {wanted!r} ({source}): use one of {', '.join(NAMES)} or leave it unset."
        )
    if problem is None:
        return Backend("native", "AVX-512 IFMA kernel found")
    return Backend("gmpy2", problem)

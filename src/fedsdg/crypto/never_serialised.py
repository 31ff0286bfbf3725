"""What holds a secret is neither pickled nor copied."""

from __future__ import annotations

from typing import Any, NoReturn


class NeverSerialised:
    """Refuses pickle, copy and deepcopy: a pickled decryptor is a private key in a file."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is never serialised or copied")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is never serialised or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is never serialised or copied")

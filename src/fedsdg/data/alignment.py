"""Which rows all parties have in common, and in which order: the result, and its computation in the clear.

The order of common rows must say nothing. The order of the server's file may be that of its labels, so common ids are
sorted first and then permuted by a stream of the server's private seed. With the same stream an alignment in the clear
and one by blinded ids (`server/alignment.py`) give the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsdg.data.arrays import IntArray
from fedsdg.errors import ConfigError, DataError

SERVER = "server"
#: Nothing can be learned from fewer rows. (To score rows, one is enough.)
MINIMUM_ROWS = 2


@dataclass(frozen=True, eq=False)
class Alignment:
    """The common rows of a run, and how many ids the parties hold."""

    server_rows: IntArray
    """The server's rows in the common order."""
    client_rows: Mapping[str, IntArray] | None
    """The rows of each client in that order; None when only the clients themselves know them."""
    sizes: Mapping[str, int]
    """Number of ids of every party, the server included."""
    common: int
    """Number of ids that all parties hold."""
    held: Mapping[str, frozenset[int]]
    """Which of the server's rows each client holds."""

    @property
    def pairwise(self) -> dict[str, int]:
        """How many of the server's ids each client holds."""
        return {name: len(rows) for name, rows in self.held.items()}

    def report(self) -> list[str]:
        """Say how many ids there are, and who learned what, in plain sentences."""
        sizes, clients = self.sizes, list(self.held)
        held = ", ".join(f"client {name!r} {sizes[name]:,}" for name in clients)
        shared = ", ".join(f"client {name!r} {self.pairwise[name]:,}" for name in clients)
        lines = [
            f"The server holds {sizes[SERVER]:,} ids, {held}.",
            f"All parties have {self.common:,} ids in common; only their rows take part.",
        ]
        if self.client_rows is not None:
            return [*lines, "The ids were compared in the clear, in one process: this comparison hid nothing."]
        return [
            *lines,
            "The server learned how many ids each client holds, and which of its own ids each client holds "
            f"({shared} of {sizes[SERVER]:,}).",
            f"Each client learned that the server holds {sizes[SERVER]:,} ids, which of its own ids all parties hold, "
            "and the common order.",
            "Nobody was shown an id that it does not hold.",
        ]


def check_ids(ids: Sequence[str], owner: str, minimum: int = MINIMUM_ROWS) -> None:
    """Refuse ids that cannot name rows: too few, empty, repeated, or not text that can be written down."""
    if len(ids) < max(minimum, 1):
        raise DataError(f"{owner}: {len(ids)} id(s); at least {max(minimum, 1)} are needed")
    empty = sum(not text.strip() for text in ids)
    if empty:
        raise DataError(f"{owner}: {empty} of {len(ids)} ids are empty; each row needs an id")
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise DataError(f"{owner}: {repeated} of {len(ids)} ids repeat another; each row needs an id of its own")
    broken = sum(not _is_unicode(text) for text in ids)
    if broken:
        raise DataError(f"{owner}: {broken} of {len(ids)} ids are no valid Unicode text; read the file as UTF-8")


def check_clients(clients: Iterable[str]) -> None:
    """Refuse an alignment with nobody, or with two parties of one name."""
    names = list(clients)
    if not names:
        raise ConfigError("no client takes part: at least one is needed")
    if SERVER in names or len(set(names)) != len(names):
        raise ConfigError(f"clients need different names, and none may be called {SERVER!r}")


def common_row_order(common_ids: Sequence[str], order: np.random.Generator) -> list[str]:
    """Return the ids in the common order: a function of the set of ids and of the stream, not of any file."""
    ordered = sorted(common_ids)
    return [ordered[position] for position in order.permutation(len(ordered))]


def align_in_the_clear(
    server_ids: Sequence[str],
    client_ids: Mapping[str, Sequence[str]],
    order: np.random.Generator,
    *,
    minimum: int = MINIMUM_ROWS,
) -> Alignment:
    """Find the common rows where all ids lie open; raise `DataError` when fewer than `minimum` are common."""
    check_clients(client_ids)
    check_ids(server_ids, "the server", minimum)
    found = {}
    for name, ids in client_ids.items():
        check_ids(ids, f"client {name!r}", minimum)
        row_of = {text: row for row, text in enumerate(ids)}
        found[name] = {row: row_of[text] for row, text in enumerate(server_ids) if text in row_of}
    sizes = {SERVER: len(server_ids), **{name: len(ids) for name, ids in client_ids.items()}}
    server_rows, client_rows = intersect(server_ids, found, sizes, order, minimum)
    held = {name: frozenset(rows) for name, rows in found.items()}
    return Alignment(server_rows, client_rows, sizes, len(server_rows), held)


def intersect(
    server_ids: Sequence[str],
    found: Mapping[str, Mapping[int, int]],
    sizes: Mapping[str, int],
    order: np.random.Generator,
    minimum: int,
) -> tuple[IntArray, dict[str, IntArray]]:
    """Return the common rows, in the common order: the server's, and each client's as `found` names them.

    `found` maps, for each client, the server's rows that it holds to the client's own numbers for them.
    """
    shared = set.intersection(*(set(rows) for rows in found.values()))
    if len(shared) < minimum:
        each = ", ".join(f"client {name!r} {sizes[name]} ({len(rows)} of them)" for name, rows in found.items())
        raise DataError(
            f"all parties have {len(shared)} id(s) in common, and at least {minimum} are needed: the server holds "
            f"{sizes[SERVER]} ids, {each}. Check that all parties use the same kind of id, written the same way."
        )
    row_of = {server_ids[row]: row for row in shared}
    rows = [row_of[text] for text in common_row_order(list(row_of), order)]
    named = {name: np.array([numbers[row] for row in rows], np.int64) for name, numbers in found.items()}
    return np.array(rows, np.int64), named


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

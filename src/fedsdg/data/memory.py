"""How much memory there is, and a refusal before a table is read that would not fit.

A run holds a table several times over: as it was read, as numbers, its training rows, the prepared inputs and the bins.
`CELL_BYTES` is what one cell takes at the peak of all that. `FEDSDG_MEMORY` (bytes) replaces what the operating system
and the container say is free.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedsdg.errors import ConfigError, DataError

#: Copies of 8 bytes that are alive at the peak: read, table, training rows, filled, shaped, scaled, prepared, bins.
CELL_BYTES = 64
#: An id as text, in a tuple and in a dictionary.
ROW_BYTES = 256
CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def free_memory() -> int | None:
    """Return the bytes that this process may still take, or None if nothing tells."""
    said = os.environ.get("FEDSDG_MEMORY")
    if said is not None:
        if not said.isascii() or not said.isdigit() or int(said) == 0:
            raise ConfigError("FEDSDG_MEMORY: give a number of bytes, such as 8000000000")
        return int(said)
    found = [available for available in (_of_machine(), *(_of_container(*files) for files in CGROUPS)) if available]
    return min(found) if found else None


def require_memory(owner: str, rows: int, columns: int, text_bytes: int = 0) -> None:
    """Refuse a table that would not fit; `text_bytes`: what its texts take besides."""
    needed = rows * (columns * CELL_BYTES + ROW_BYTES) + text_bytes
    free = free_memory()
    if free is not None and needed > free:
        raise DataError(
            f"{owner}: {rows:,} rows x {columns:,} columns need about {needed:,} bytes of memory, and {free:,} are "
            "free. Choose fewer columns with the setting `columns`, fewer rows, or a machine with more memory."
        )


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _of_container(limit: Path, used: Path) -> int | None:
    try:  # "max" stands for no limit and is no number
        return max(1, int(limit.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return None

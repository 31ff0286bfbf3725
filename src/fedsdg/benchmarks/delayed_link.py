"""A network cable that is late: two TAP devices, and every frame of one leaves the other so many milliseconds later.

::

    python delayed_link.py NEAR FAR MILLISECONDS

Runs until it is stopped, and the devices go with it. A line on its input with another number changes the delay. Whole
frames are delayed, below TCP, so slow starts, windows and lost frames cost what they cost on a long way. Kernels with
`netem` could do the same; many lack it. Nothing of this package is imported: the process starts at once, in a
namespace of its own.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x1002
LARGEST_FRAME, INPUT = 65536, 0


class Direction:
    """Frames on their way from one device to the other."""

    def __init__(self, source: int, sink: int, delay: float) -> None:
        self.source, self.sink, self.delay = source, sink, delay
        self.under_way: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        """Accept every frame that waits at the source."""
        due = time.monotonic() + self.delay
        try:
            while True:
                self.under_way.append((due, os.read(self.source, LARGEST_FRAME)))
        except BlockingIOError:
            pass

    def deliver(self) -> float | None:
        """Hand over what is due; return the time until the next frame is."""
        while self.under_way:
            due, frame = self.under_way[0]
            left = due - time.monotonic()
            if left > 0:
                return left
            self.under_way.popleft()
            try:
                os.write(self.sink, frame)
            except OSError:
                continue  # the other end is down: a cable loses such frames, too
        return None


def open_device(name: str) -> int:
    """Make a TAP device in this network namespace; it may be moved to another one."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), TAP_WITHOUT_HEADER))
    return device


def main(near: str, far: str, milliseconds: float) -> None:
    """Carry frames both ways, for ever."""
    ends = open_device(near), open_device(far)
    directions = {source: Direction(source, sink, milliseconds / 1000) for source, sink in (ends, (ends[1], ends[0]))}
    inputs, wait = {*ends, INPUT}, None
    while True:
        ready, _, _ = select.select(inputs, [], [], wait)
        for source in ready:
            if source == INPUT:
                line = os.read(INPUT, 100)
                for direction in directions.values():
                    direction.delay = float(line) / 1000 if line else direction.delay
                inputs -= set() if line else {INPUT}
                continue
            try:
                directions[source].take()
            except OSError:
                time.sleep(0.01)  # this end is down
        waits = [left for left in (direction.deliver() for direction in directions.values()) if left is not None]
        wait = min(waits, default=None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

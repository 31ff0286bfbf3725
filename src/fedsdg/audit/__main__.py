"""`python -m fedsdg.audit`: measure what leaks and print a short table."""

from __future__ import annotations

from fedsdg.audit.run import measure, table

if __name__ == "__main__":
    print(table(measure()))

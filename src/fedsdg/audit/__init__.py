"""What semi-honest parties can infer from what they legitimately see: one file per attack, measured on generated data.

Attacks are pure functions of a party's view. They hold for `masked` and `plain` runs alike, because both compute the
same integers. `python -m fedsdg.audit` measures them and prints a table; docs/threat_model.md explains it.
"""

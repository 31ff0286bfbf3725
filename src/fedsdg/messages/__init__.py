"""What the parties say to each other: frozen data with "X learns: ...", an order table, and a data-only codec.

No message knows how it is carried, and none contains code.
"""

"""The learning half of the method, without cryptography and without messages.

A party's learner takes and returns arrays of exact integers. Whether those integers then travel encrypted or
not is decided elsewhere, so every profile learns the same model, bit for bit.
"""

"""Encrypted arithmetic: Paillier keys, packed integers, and fast products of plain matrices with encrypted ones.

Knows neither protocols nor learning. The safe call is the short one: keys check themselves, incoming ciphertexts are
validated, whatever leaves is re-randomised.

>>> from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey
>>> private_key = PrivateKey.generate(2048)                       # the owner of the data
>>> numbers = Encryptor(private_key).encrypt([1, 2, 3, 4], shape=(2, 2))
>>> evaluator = Evaluator(private_key.public_key)                 # the other party
>>> received = evaluator.load(numbers.to_bytes(), shape=(2, 2))
>>> result = evaluator.dot(received, [[10], [-1]])
>>> owner = Decryptor(private_key)
>>> [int(m) for m in owner.decrypt(owner.load(result.to_bytes(), shape=(2, 1)))]
[8, 26]
"""

from fedsdg.crypto.encrypted_array import EncryptedArray
from fedsdg.crypto.fixed_point import FixedPoint
from fedsdg.crypto.keys import ALLOWED_BITS, DEFAULT_BITS, PrivateKey, PublicKey
from fedsdg.crypto.layouts import MinibatchPlan, ValueBits, plan_minibatch
from fedsdg.crypto.masking import DEFAULT_SIGMA, SquareByMasking, statistical_mask
from fedsdg.crypto.packing import SlotLayout, centred
from fedsdg.crypto.paillier import Decryptor, Encryptor, Evaluator

__all__ = [
    "ALLOWED_BITS",
    "DEFAULT_BITS",
    "DEFAULT_SIGMA",
    "Decryptor",
    "EncryptedArray",
    "Encryptor",
    "Evaluator",
    "FixedPoint",
    "MinibatchPlan",
    "PrivateKey",
    "PublicKey",
    "SlotLayout",
    "SquareByMasking",
    "ValueBits",
    "centred",
    "plan_minibatch",
    "statistical_mask",
]

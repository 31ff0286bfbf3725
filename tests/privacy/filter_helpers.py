"""Sizes and keys that the tests of filters under encryption share."""

from __future__ import annotations

from typing import get_args

from fedsdg.config import BinningSettings, TrainingConfig
from fedsdg.crypto import Decryptor, Encryptor, Evaluator, PrivateKey
from fedsdg.messages.filter_statistics import Statistic

STATISTICS = get_args(Statistic)
BITS, SIGMA, N_ROWS, N_COLUMNS, N_BINS = 512, 64, 40, 5, 4
CONFIG = TrainingConfig(binning=BinningSettings(bins=N_BINS))


def server_capabilities() -> tuple[Encryptor, Evaluator, Decryptor]:
    """The server's key: encrypt labels, compute under it, decrypt."""
    encryptor = Encryptor(PrivateKey.generate(BITS, allow_test_size=True))
    return encryptor, Evaluator(encryptor.key), Decryptor(encryptor)

"""The kernel keeps what kernel.h promises: exact for every half below 32 n, and both halves of a result below 2 n."""

import secrets

import numpy as np
import pytest
from crypto_helpers import needs_native
from gmpy2 import mpz

from fedsdg.crypto.backends import native_ring

pytestmark = needs_native

DIGITS = list(native_ring.SIZES)
HALVES = 32  # times n, exclusive


def moduli(k: int) -> list[int]:
    """Odd numbers at the edges of a size: as large as the headroom allows, all ones, all zeros but two, random."""
    largest = 52 * k - native_ring.HEADROOM_BITS
    smallest = max((52 * s - 12 for s in DIGITS if s < k), default=100) + 1
    return [
        (1 << largest) - 1,
        (1 << largest) - (1 << (largest // 2)) + 1,
        (1 << (largest - 1)) + 1,
        (1 << (smallest - 1)) + 1,
        secrets.randbits(largest) | 1 | (1 << (largest - 1)),
    ]


def halves(n: int) -> list[int]:
    top = HALVES * n - 1
    digit_edges = [(1 << 52) - 1, 1 << 52, sum(((1 << 52) - 1) << (104 * i) for i in range(30)) % top]
    return [0, 1, n - 1, n, n + 1, 2 * n - 1, 31 * n, top, *digit_edges, secrets.randbelow(top), secrets.randbelow(top)]


def to_rows(kernel, pairs):
    rows = [
        np.concatenate([native_ring._to_digits(low, kernel.k), native_ring._to_digits(high, kernel.k)])
        for low, high in pairs
    ]
    return np.stack(rows)


def to_halves(kernel, rows):
    def number(digits):
        return sum(int(d) << (52 * j) for j, d in enumerate(digits))

    return [(number(row[: kernel.k]), number(row[kernel.k :])) for row in rows]


def check(kernel, result, wanted):
    """Compare modulo n^2 and look at the bounds."""
    n, square = int(kernel.n), int(kernel.n_squared)
    for (low, high), value in zip(to_halves(kernel, result), wanted, strict=True):
        assert (low + high * n - value) % square == 0
        assert low < 2 * n
        assert high < 2 * n
    assert int(result.max()) < 1 << 52


@pytest.fixture(params=DIGITS)
def kernels(request):
    found = [native_ring._Kernel(mpz(n)) for n in moduli(request.param)]
    assert {kernel.k for kernel in found} == {request.param}
    return found


def test_products_are_exact_for_every_half_that_the_contract_allows(kernels):
    for kernel in kernels:
        n, square = int(kernel.n), int(kernel.n_squared)
        r_inverse = pow(int(kernel.r), -1, square)
        values = halves(n)
        pairs = [(low, high) for low in values for high in values]
        others = pairs[5:] + pairs[:5]
        out = kernel.multiply(to_rows(kernel, pairs), to_rows(kernel, others))
        wanted = [(a + b * n) * (c + d * n) * r_inverse % square for (a, b), (c, d) in zip(pairs, others, strict=True)]
        check(kernel, out, wanted)


def test_squares_are_exact_for_every_half_that_the_contract_allows(kernels):
    for kernel in kernels:
        n, square = int(kernel.n), int(kernel.n_squared)
        r_inverse = pow(int(kernel.r), -1, square)
        values = halves(n)
        pairs = [(low, high) for low in values for high in values]
        table = np.concatenate([kernel.one, to_rows(kernel, pairs)])
        indices = np.stack([np.arange(1, len(table)), np.zeros(len(pairs), np.int64)]).astype(np.int64)
        out = kernel.chain(table, indices, np.array([0, 1], np.int64))  # squared, then times one
        check(kernel, out, [pow(a + b * n, 2, square) * r_inverse % square for a, b in pairs])


def test_numbers_are_written_canonically_whatever_form_they_had(kernels):
    for kernel in kernels:
        n, square = int(kernel.n), int(kernel.n_squared)
        r_inverse = pow(int(kernel.r), -1, square)
        pairs = [(low, high) for low in halves(n) for high in halves(n)]
        width = (square.bit_length() + 7) // 8
        raw = kernel.dump(to_rows(kernel, pairs), width)
        written = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
        assert written == [(a + b * n) * r_inverse % square for a, b in pairs]


def test_secret_powers_are_exact(kernels):
    for kernel in kernels[:2]:
        square = int(kernel.n_squared)
        bases = [1, 2, square - 1, int(kernel.n) - 1, int(kernel.n) + 1, *(secrets.randbelow(square) for _ in range(4))]
        rows = np.stack([kernel.montgomery(mpz(b)) for b in bases])
        for exponent in (b"\0", b"\1", b"\xff\xff\xff", b"\0\0\x10", b"\x0f\0"):
            out = kernel.empty(len(rows))
            native_ring._native.power_scanned(kernel.words, out, rows, exponent, 0, len(rows))
            e, width = int.from_bytes(exponent, "little"), (square.bit_length() + 7) // 8
            raw = kernel.dump(out, width)
            written = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
            assert written == [pow(b, e, square) for b in bases]


def test_a_key_size_without_a_kernel_is_none():
    assert native_ring.digits_for(52 * 60 - 12) == 60
    assert native_ring.digits_for(52 * 60 - 11) is None
    for bits in range(256, 3073, 16):
        k = native_ring.digits_for(bits)
        assert 52 * k >= bits + 12
        assert native_ring._native.has_size(k)
    assert not native_ring._native.has_size(5)
    with pytest.raises(ValueError, match="size"):
        native_ring._Kernel(mpz(1) << 4000 | 1)

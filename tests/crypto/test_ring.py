"""Ring level: every back end computes what Python's integers say, so all agree bit for bit, at every size and edge."""

import numpy as np
import pytest
from crypto_helpers import rows_of, values_of

from fedsdg.crypto import backends
from fedsdg.crypto.backends.base import (
    dot_multiplications,
    shift_schedule,
    subset_indices,
    subset_size,
)

BITS = [256, 512, 1024, 2048, 3072]
LANES = [1, 7, 8, 9, 17]


@pytest.fixture(params=BITS)
def bits(request):
    return request.param


@pytest.fixture
def ring(key_of, backend, bits):
    return backends.choose(bits, backend).ring(key_of(bits).public_key.n)


@pytest.fixture
def owner(ring, key_of, backend, bits):
    key = key_of(bits)
    return backends.choose(bits, backend).owner_ring(ring, key.p, key.q)


def edges(n: int) -> list[int]:
    """Units modulo n^2 at the edges: of the residue, of its base-n digits, and of their Montgomery forms."""
    n = int(n)
    square = n * n
    r_inverse = pow(1 << (52 * (-(-(n.bit_length() + 12) // 52))), -1, square)
    plain = [
        1,
        2,
        square - 1,
        square - 2,
        n + 1,
        n - 1,
        square - n + 1,
        square - n - 1,
        2 * n - 1,
        (n // 2) * n + n - 1,
        (n - 1) * n + 1,
        1 + n * (n // 2),
        (1 << n.bit_length()) - 1,
        1 << n.bit_length(),
        1 << (n.bit_length() - 1),
    ]
    return [v % square for v in plain] + [v * r_inverse % square for v in plain[:9]]


def batch(n: int, count: int, step: int = 1) -> list[int]:
    values = edges(n)
    return [values[(step * i) % len(values)] for i in range(count)]


def test_residues_are_read_and_written_unchanged(ring):
    n = int(ring.n)
    values = [*edges(n), 0, n, 2 * n, n * n - n]  # no units, but a ring does not care
    rows = rows_of(ring, values)
    assert ring.count(rows) == len(values)
    assert values_of(ring, rows) == values
    assert values_of(ring, ring.take(rows, [3, 3, 0])) == [values[3], values[3], values[0]]
    assert values_of(ring, ring.join([ring.take(rows, [1]), rows])) == [values[1], *values]
    assert ring.count(ring.load(b"")) == 0


@pytest.mark.parametrize("count", LANES)
def test_products_of_edges_are_exact(ring, count):
    n, square = int(ring.n), int(ring.n_squared)
    for step in (1, 2, 5):
        a, b = batch(n, count, 1), batch(n, count, step)
        product = ring.add(rows_of(ring, a), rows_of(ring, b))
        assert values_of(ring, product) == [x * y % square for x, y in zip(a, b, strict=True)]


def test_all_pairs_of_edges_multiply_exactly(ring):
    n, square = int(ring.n), int(ring.n_squared)
    values = edges(n)
    a, b = [x for x in values for _ in values], values * len(values)
    product = ring.add(rows_of(ring, a), rows_of(ring, b))
    assert values_of(ring, product) == [x * y % square for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("count", LANES)
def test_plain_integers_are_added_exactly_at_the_edges(ring, count):
    n, square = int(ring.n), int(ring.n_squared)
    plain = [[0, n - 1, 1, n // 2, n - 2][i % 5] for i in range(count)]
    values = batch(n, count)
    added = ring.add_plain(rows_of(ring, values), plain)
    assert values_of(ring, added) == [c * (1 + m * n) % square for c, m in zip(values, plain, strict=True)]


def test_plain_integers_can_be_added_again_and_again(ring):
    n, square = int(ring.n), int(ring.n_squared)
    values = edges(n)
    rows = rows_of(ring, values)
    for _ in range(40):
        rows = ring.add_plain(rows, [n - 1] * len(values))
    assert values_of(ring, rows) == [c * (1 - 40 * n) % square for c in values]
    product = ring.add(rows, rows)
    assert values_of(ring, product) == [pow(c * (1 - 40 * n), 2, square) for c in values]


@pytest.mark.parametrize("count", LANES)
def test_inverses_are_exact(ring, count):
    values = batch(ring.n, count)
    assert values_of(ring, ring.negate(rows_of(ring, values))) == [pow(c, -1, int(ring.n_squared)) for c in values]


@pytest.mark.parametrize("segments", [[], [0], [1], [0, 5, 0, 1, 3, 0, 2, 9, 1], [600], [300, 0, 300], [3] * 40])
def test_segment_products_are_exact(ring, segments):
    n, square = int(ring.n), int(ring.n_squared)
    values = edges(n)
    members = np.arange(sum(segments), dtype=np.int64) * 5 % len(values)
    offsets = np.concatenate([[0], np.cumsum(segments)]).astype(np.int64)
    out = values_of(ring, ring.sum_segments(rows_of(ring, values), offsets, members))
    wanted = []
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        total = 1
        for i in members[start:stop]:
            total = total * values[i] % square
        wanted.append(total)
    assert out == wanted


@pytest.mark.parametrize(
    ("blocks", "length", "bits_of_weights", "outputs"), [(1, 1, 1, 1), (3, 5, 9, 4), (1, 13, 2, 17), (8, 1, 33, 1)]
)
def test_weighted_products_are_exact(ring, blocks, length, bits_of_weights, outputs):
    square = int(ring.n_squared)
    rng = np.random.default_rng(blocks * length)
    planes = rng.integers(0, 2, (bits_of_weights, length, outputs)).astype(np.uint8)
    planes[:, 0, 0], planes[:, -1, -1] = 1, 0
    weights = sum(planes[-1 - b].astype(object) << b for b in range(bits_of_weights))
    values = batch(ring.n, blocks * length, 3)
    out = values_of(ring, ring.dot(rows_of(ring, values), length, planes))
    wanted = []
    for block in range(blocks):
        for o in range(outputs):
            total = 1
            for i in range(length):
                total = total * pow(values[block * length + i], int(weights[i, o]), square) % square
            wanted.append(total)
    assert out == wanted


@pytest.mark.parametrize("positions", [[0], [7], [0, 0, 0], [5, 90, 1], [300, 2, 300]])
def test_shifted_products_are_exact(ring, positions):
    square, items, outputs = int(ring.n_squared), len(positions), 3
    digits = np.random.default_rng(items).integers(0, 16, (outputs, items, 5)).astype(np.uint8)
    digits[0], digits[1, 0] = 15, 0
    values = batch(ring.n, outputs * items, 7)
    out = values_of(ring, ring.shifted_sums(rows_of(ring, values), digits, np.array(positions, np.int64)))
    wanted = []
    for q in range(outputs):
        total = 1
        for i in range(items):
            weight = sum(int(d) << (4 * j) for j, d in enumerate(digits[q, i]))
            total = total * pow(values[q * items + i], weight << positions[i], square) % square
        wanted.append(total)
    assert out == wanted


@pytest.mark.parametrize("count", LANES)
def test_fixed_base_powers_are_exact(ring, count):
    n, square = int(ring.n), int(ring.n_squared)
    exponents = np.random.default_rng(count).integers(0, 256, (count, 6)).astype(np.uint8)
    exponents[0] = 255
    exponents[-1, :5] = 0
    for base in (n * n - 1, n + 1, 3):
        out = values_of(ring, ring.fixed_base_powers(ring.fixed_base(base, 6), exponents))
        assert out == [pow(base, int.from_bytes(e.tobytes(), "little"), square) for e in exponents]


def test_the_zeroth_power_is_one(ring):
    table = ring.fixed_base(int(ring.n) - 1, 3)
    assert values_of(ring, ring.fixed_base_powers(table, np.zeros((2, 3), np.uint8))) == [1, 1]


def test_the_product_over_a_batch_is_known_modulo_n(ring):
    n = int(ring.n)
    for count in (1, 20, 600):
        total = 1
        for v in batch(n, count):
            total = total * v % n
        assert ring.total_modulo_n(rows_of(ring, batch(n, count))) == total


@pytest.mark.parametrize("count", LANES)
def test_quotients_of_decryption_are_exact(owner, count):
    ring = owner.ring
    values = batch(ring.n, count)
    found = owner.quotients(ring.dump(rows_of(ring, values)), count)
    assert found is not None
    for prime, quotients in zip(owner.primes, found, strict=True):
        prime = int(prime)
        assert [int(x) for x in quotients] == [(pow(c, prime - 1, prime**2) - 1) // prime for c in values]


@pytest.mark.parametrize("position", [0, 7, 8])
def test_one_non_unit_anywhere_in_the_batch_gives_no_quotients(owner, position):
    ring, (p, q) = owner.ring, (int(prime) for prime in owner.primes)
    n = int(ring.n)
    for bad in (0, n, 5 * n, n * n - n, p, q, p * p, q * q, 3 * p, n * n - q):
        values = batch(n, 9)
        values[position] = bad
        assert owner.quotients(ring.dump(rows_of(ring, values)), 9) is None


@pytest.mark.parametrize("count", LANES)
def test_residues_are_joined_from_both_primes(owner, count):
    ring, w = owner.ring, owner.prime_bytes
    bases = tuple(int(square) - 2 for square in owner.squares)
    owner.set_bases(bases)
    exponents = tuple(np.random.default_rng(s).integers(0, 256, (count, w)).astype(np.uint8) for s in (1, 2))
    exponents[0][0], exponents[1][-1] = 0, 255
    found = values_of(ring, owner.residues(exponents))
    for base, square, rows in zip(bases, owner.squares, exponents, strict=True):
        assert [c % int(square) for c in found] == [
            pow(base, int.from_bytes(e.tobytes(), "little"), int(square)) for e in rows
        ]
    assert all(0 < c < ring.n_squared for c in found)


# -- schedules that the back ends share ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "bits_of_weights", "outputs"), [(1, 1, 1), (32, 106, 16), (128, 19, 16), (7, 3, 90)]
)
def test_the_subset_size_is_the_cheapest(length, bits_of_weights, outputs):
    t = subset_size(length, bits_of_weights, outputs)
    costs = [dot_multiplications(length, bits_of_weights, outputs, other) for other in range(1, 11)]
    assert dot_multiplications(length, bits_of_weights, outputs) == min(costs) == costs[t - 1]


def test_subset_indices_name_the_rows_of_each_plane():
    planes = np.array([[[1], [0], [1]], [[0], [1], [1]]], np.uint8)
    assert subset_indices(planes, 2).tolist() == [[[1], [1]], [[2], [1]]]


def test_the_shift_schedule_ends_at_position_zero():
    order, squarings = shift_schedule(2, 2, np.array([3, 20]))
    assert order == [(1, 1), (1, 0), (0, 1), (0, 0), (-1, -1)]
    assert squarings.tolist() == [0, 4, 13, 4, 3]
    assert shift_schedule(1, 1, np.array([0])) == ([(0, 0)], np.array([0]))

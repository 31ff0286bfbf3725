"""The C extension checks what it is given: bad buffers, lengths and indices raise, and nothing ever crashes."""

import secrets
import subprocess
import sys

import numpy as np
import pytest
from crypto_helpers import needs_native
from gmpy2 import mpz

from fedsdg.crypto.backends import native_ring

pytestmark = needs_native

REFUSALS = (ValueError, TypeError, BufferError, OverflowError)
WIDTH = 64  # bytes of a residue modulo n, for a 512-bit n


class Call:
    """The valid arguments of one function on nine rows, to be spoiled one at a time."""

    def __init__(self, name: str) -> None:
        kernel = native_ring._Kernel((mpz(1) << 511) + 111)
        rows = np.stack([kernel.montgomery(mpz(v)) for v in range(2, 11)])
        out, indices = kernel.empty(9), np.arange(9, dtype=np.int64)
        chains = np.stack([indices, indices[::-1]])
        offsets, one = np.arange(10, dtype=np.int64), kernel.factors([mpz(1)])
        raw, low, high = bytes(9 * WIDTH), np.empty(9 * WIDTH, np.uint8), np.empty(9 * WIDTH, np.uint8)
        self.name = name
        self.arguments = {
            "multiply": [kernel.words, out, rows, indices, rows, indices, 0, 9],
            "chain": [kernel.words, out, rows, chains, np.array([0, 1], np.int64), 0, 9],
            "segment_products": [kernel.words, out, rows, offsets, indices, 0, 9],
            "power_scanned": [kernel.words, out, rows, b"\x11\x22", 0, 9],
            "load": [kernel.words, out, raw, WIDTH, one, 0, 9],
            "dump": [kernel.words, low, WIDTH, rows, 0, 9],
            "split": [kernel.words, low, high, WIDTH, rows, 0, 9],
            "add_plain": [kernel.words, out, rows, raw, WIDTH, 0, 9],
        }[name]
        self.outputs = {"split": (1, 2)}.get(name, (1,))
        self.buffers = [i for i, a in enumerate(self.arguments) if not isinstance(a, int)]

    def __call__(self, **spoiled) -> None:
        """Call with arguments replaced by position, e.g. _1=..., counted from the end when negative: last_1=..."""
        arguments = list(self.arguments)
        for where, value in spoiled.items():
            kind, _, position = where.partition("_")
            arguments[int(position) if kind == "at" else -int(position)] = value
        getattr(native_ring._native, self.name)(*arguments)


NAMES = ["multiply", "chain", "segment_products", "power_scanned", "load", "dump", "split", "add_plain"]


@pytest.fixture(params=NAMES)
def call(request):
    return Call(request.param)


def test_valid_arguments_are_taken(call):
    call()


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 9), (0, 10), (5, 4), (0, -1), (10, 10), (2**62, 2**62), (-(2**63), 0)]
)
def test_a_range_outside_the_rows_is_refused(call, start, stop):
    with pytest.raises(REFUSALS):
        call(last_2=start, last_1=stop)


def test_a_range_beyond_64_bits_is_refused(call):
    with pytest.raises(OverflowError):
        call(last_1=2**63)


def test_an_empty_range_does_nothing(call):
    output = call.arguments[1]
    output[:] = 77
    call(last_2=4, last_1=4)
    assert (output == 77).all()


def test_a_part_of_the_range_writes_only_that_part(call):
    output = np.reshape(call.arguments[1], (9, -1))
    output[:] = 77
    call(last_2=3, last_1=5)
    assert (output[:3] == 77).all()
    assert (output[5:] == 77).all()
    assert (output[3:5] != 77).any()


def test_buffers_one_byte_or_one_row_short_or_long_are_refused(call):
    for position in call.buffers:
        raw = bytes(memoryview(call.arguments[position]).cast("B"))
        for other in (raw[:-1], raw[: len(raw) // 2 - 1], raw + b"\0"):
            if call.name == "power_scanned" and position == 3:
                continue  # an exponent has any length but zero
            if call.name == "chain" and position == 4 and len(other) // 8 == 2:
                continue  # stray bytes after the last number of squarings are never read
            if call.name == "segment_products" and position == 4 and len(other) // 8 == 9:
                continue  # the same for members
            spoiled = bytearray(other)
            with pytest.raises(REFUSALS):
                call(**{f"at_{position}": spoiled})


def test_an_empty_exponent_is_refused():
    with pytest.raises(ValueError, match="lengths"):
        Call("power_scanned")(at_3=b"")


def test_read_only_outputs_are_refused(call):
    for position in call.outputs:
        frozen = call.arguments[position].copy()
        frozen.flags.writeable = False
        with pytest.raises(REFUSALS):
            call(**{f"at_{position}": frozen})
        with pytest.raises(REFUSALS):
            call(**{f"at_{position}": frozen.tobytes()})


def test_arrays_with_gaps_are_refused(call):
    for position in call.buffers:
        spaced = np.repeat(np.frombuffer(call.arguments[position], np.uint8), 2)[::2]
        with pytest.raises(REFUSALS):
            call(**{f"at_{position}": spaced})


@pytest.mark.parametrize("thing", [None, 3, "text", [1, 2], object()])
def test_things_that_are_no_buffers_are_refused(call, thing):
    optional = (3, 5) if call.name == "multiply" else ()
    for position in call.buffers:
        if thing is None and position in optional:
            continue
        with pytest.raises(REFUSALS):
            call(**{f"at_{position}": thing})


@pytest.mark.parametrize("digits", [0, 1, 5, 11, 13, 60, 4096, 4097, 2**40, 2**63, 2**64 - 1])
def test_a_ring_of_another_size_than_it_claims_is_refused(call, digits):
    bogus = call.arguments[0].copy()
    bogus[0] = digits
    with pytest.raises(ValueError, match="ring"):
        call(at_0=bogus)


@pytest.mark.parametrize("length", [0, 1, 8, 15, 16])
def test_a_ring_cut_short_is_refused(call, length):
    with pytest.raises(ValueError, match="ring"):
        call(at_0=call.arguments[0].tobytes()[:length])


def test_a_ring_of_nonsense_gives_nonsense_and_no_crash(call):
    for fill in (0, 2**52 - 1, 2**64 - 1):
        bogus = call.arguments[0].copy()
        bogus[1:] = fill
        call(at_0=bogus)


@pytest.mark.parametrize("bad", [-1, 9, 10**6, 2**62, -(2**63)])
@pytest.mark.parametrize(
    ("name", "position"), [("multiply", 3), ("multiply", 5), ("chain", 3), ("segment_products", 4)]
)
def test_indices_outside_the_table_are_refused(name, position, bad):
    call = Call(name)
    for at in (0, -1):
        indices = call.arguments[position].copy()
        indices.ravel()[at] = bad
        with pytest.raises(ValueError, match="index"):
            call(**{f"at_{position}": indices})


@pytest.mark.parametrize("offsets", [[-1, 1], [1, 0], [0, 10], [0, 2**62], [5, 2**63 - 1], [-(2**63), 2]])
def test_offsets_that_run_backwards_or_out_are_refused(offsets):
    call = Call("segment_products")
    for at in (0, 4, 8):
        spoiled = call.arguments[3].copy()
        spoiled[at : at + 2] = offsets
        with pytest.raises(ValueError, match="index"):
            call(at_3=spoiled)


def test_a_negative_number_of_squarings_is_refused():
    with pytest.raises(ValueError, match="squarings"):
        Call("chain")(at_4=np.array([0, -1], np.int64))


def test_a_chain_of_no_steps_is_refused():
    with pytest.raises(ValueError, match="lengths"):
        Call("chain")(at_3=np.empty((0, 9), np.int64), at_4=np.empty(0, np.int64))


def test_more_chunks_than_the_bounds_allow_are_refused():
    call = Call("load")
    factors = np.concatenate([call.arguments[4]] * 9)
    with pytest.raises(ValueError, match="lengths"):
        call(at_2=bytes(9 * 9 * WIDTH), at_4=factors)


@pytest.mark.parametrize(("name", "position"), [("load", 3), ("dump", 2), ("split", 3), ("add_plain", 4)])
@pytest.mark.parametrize("width", [0, -1, -64, 63, 65, 10**9, -(2**63), 2**63 - 1])
def test_wrong_widths_are_refused(name, position, width):
    with pytest.raises(ValueError, match="lengths"):
        Call(name)(**{f"at_{position}": width})


OVERFLOWS = """
import numpy as np
from gmpy2 import mpz
from fedsdg.crypto.backends import _native, native_ring
kernel = native_ring._Kernel((mpz(1) << 511) + 111)
for rows in (2, 4, 8, 16):
    out, width = np.zeros((rows, kernel.width), np.uint64), 2**64 // rows
    for exact in (width, width // 2, width + 1):
        if exact >= 2**63:
            continue
        try:
            {call}
        except ValueError:
            continue
        raise SystemExit(f"a width of {{exact}} was taken for {{rows}} rows")
"""


@pytest.mark.parametrize(
    "call",
    [
        'native_ring._native.load(kernel.words, out, b"", exact, kernel.factors([mpz(1)]), 0, rows)',
        "_native.dump(kernel.words, bytearray(), exact, out, 0, rows)",
        "_native.split(kernel.words, bytearray(), bytearray(), exact, out, 0, rows)",
        '_native.add_plain(kernel.words, out, out.copy(), b"", exact, 0, rows)',
    ],
    ids=["load", "dump", "split", "add_plain"],
)
def test_widths_whose_product_with_the_rows_wraps_around_are_refused(call):
    # In a process of its own: where the check is missing, this reads or writes far outside its buffers.
    done = subprocess.run([sys.executable, "-c", OVERFLOWS.format(call=call)], capture_output=True, text=True)
    assert done.returncode == 0, f"exit code {done.returncode} (negative: killed by a signal). {done.stderr}"


def test_wrong_numbers_of_arguments_are_refused(call):
    function = getattr(native_ring._native, call.name)
    for arguments in ([], call.arguments[:-1], [*call.arguments, 0]):
        with pytest.raises(TypeError):
            function(*arguments)


def test_random_arguments_never_crash(call):
    """A small fuzz: buffers of random sizes and contents, numbers of random sizes."""
    pick = secrets.SystemRandom()
    function = getattr(native_ring._native, call.name)
    refused = 0
    for _ in range(400):
        arguments = list(call.arguments)
        for position in pick.sample(range(len(arguments)), pick.randint(1, 3)):
            if call.name == "chain" and position == 4:
                continue  # a random number of squarings is valid, and takes for ever
            old = arguments[position]
            if isinstance(old, int):
                arguments[position] = pick.choice([0, 1, 8, 9, 63, 64, 65, -1, pick.randrange(-(2**20), 2**20)])
            elif position == 0:
                arguments[0] = old.copy()
                arguments[0][pick.randrange(len(old))] = pick.randrange(2**64)
            else:
                arguments[position] = bytearray(secrets.token_bytes(pick.choice([0, 8, 72, 576, 864, 1728])))
        try:
            function(*arguments)
        except REFUSALS:
            refused += 1
    assert refused > 0

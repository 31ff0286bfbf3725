"""How the matrices of one mini-batch lie in ciphertexts, and a planner that counts and chooses.

In a product of plain weights with packed ciphertexts all slots of a ciphertext share one weight, so each of the three
products of a mini-batch (B samples, d embedding columns, k outputs) has its own layout:

===========  =============================================  ==========  ======================  ===================
product      ciphertexts                                    weight      to encrypt              to decrypt
===========  =============================================  ==========  ======================  ===================
G W          A: one per column, slots are samples           W[j, o]     d ceil(B/S)             k ceil(B/S)
G^T D        B: one per sample, slots are columns           D[b, o]     B ceil(d/S)             k ceil(d/S)
G^T D        reversed: one per sample, slots are outputs    G[b, j]     B ceil(k/S), own key    d ceil(k/S)
D E^T        E: one per output, slots are columns           D[b, o]     m k ceil(d/S)           ceil(B/m) ceil(d/S)
===========  =============================================  ==========  ======================  ===================

When few columns are open, E is sent m times at offsets of d slots, and one result carries m samples.

Slot widths come from the bits of the values and of the sums; a share that cancels modulo n before anyone unpacks takes
no room. The planner knows the closed-form cost of every step, in multiplications modulo n^2 of the reference schedule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from fedsdg.crypto.backends.base import dot_multiplications
from fedsdg.crypto.packing import SlotLayout
from fedsdg.errors import ConfigError, DoesNotFit

GradientLayout = Literal["columns", "reversed"]


@dataclass(frozen=True)
class ValueBits:
    """Bits of the integers that meet in a mini-batch (|v| < 2^bits), and of the statistical masks."""

    embedding: int = 16
    gradient: int = 16
    step: int = 18
    weight: int = 40
    sigma: int = 64

    @property
    def share(self) -> int:
        """Bits of the share E that hides the weights: sigma bits wider than they are."""
        return self.weight + self.sigma

    @property
    def noisy_weight(self) -> int:
        """Bits of the noisy weights W~ = W + E."""
        return self.share + 1


@dataclass(frozen=True)
class Work:
    """Operations of one mini-batch, both parties together."""

    owner_encryptions: int
    public_encryptions: int
    decryptions: int
    dot_products: tuple[tuple[int, int, int, int], ...]  # (blocks, length, bits, outputs)
    client_to_server: int  # ciphertexts
    server_to_client: int  # ciphertexts
    plain_to_server: int  # residues modulo n

    def kernel_products(self, key_bits: int) -> KernelProducts:
        """Count the multiplications of the reference schedule (docs/packing.md derives them)."""
        windows = key_bits // 16  # bytes of a nonce exponent, and of a prime
        nibbles = key_bits // 8  # 4-bit digits of p - 1
        multiply_n = self.public_encryptions * (windows - 1)
        multiply_p = 2 * self.owner_encryptions * (windows - 1) + 2 * self.decryptions * (nibbles - 1 + 7)
        square_p = 2 * self.decryptions * (4 * (nibbles - 1) + 7)
        square_n = 0
        for blocks, length, bits, outputs in self.dot_products:
            squarings = (bits - 1) * outputs
            square_n += blocks * squarings
            multiply_n += blocks * (dot_multiplications(length, bits, outputs) - squarings)
        return KernelProducts(multiply_n, square_n, multiply_p, square_p)

    def wire_bytes(self, key_bits: int) -> tuple[int, int]:
        """Return bytes from client to server and from server to client, headers apart."""
        ciphertext, plain = key_bits // 4, key_bits // 8
        return (
            self.client_to_server * ciphertext + self.plain_to_server * plain,
            self.server_to_client * ciphertext,
        )


@dataclass(frozen=True)
class KernelProducts:
    """Multiplications and squarings modulo n^2 and modulo the squares of its primes."""

    multiply_n: int
    square_n: int
    multiply_p: int
    square_p: int

    @property
    def weighted(self) -> float:
        """The same in multiplications modulo n^2: a square is 0.7 of a product, half the digits are a quarter."""
        return self.multiply_n + 0.7 * self.square_n + 0.25 * self.multiply_p + 0.175 * self.square_p

    def digit_products(self, digits_n: int, digits_p: int) -> int:
        """Count 52-bit multiply-adds (low and high halves apart): 10 K^2 a product, 7 K^2 + K a square."""
        return (
            self.multiply_n * 10 * digits_n**2
            + self.square_n * (7 * digits_n**2 + digits_n)
            + self.multiply_p * 10 * digits_p**2
            + self.square_p * (7 * digits_p**2 + digits_p)
        )


@dataclass(frozen=True)
class MinibatchPlan:
    """Where everything lies, for one mini-batch of one client."""

    key_bits: int
    batch: int
    columns: int
    outputs: int
    values: ValueBits
    forward: SlotLayout
    update: SlotLayout
    backward: SlotLayout
    gradient: GradientLayout
    samples_per_result: int
    work: Work

    @property
    def forward_blocks(self) -> list[slice]:
        """Samples per ciphertext of layout A."""
        return self.forward.blocks(self.batch)

    @property
    def update_blocks(self) -> list[slice]:
        """Columns (layout B) or outputs (reversed) per ciphertext."""
        return self.update.blocks(self.columns if self.gradient == "columns" else self.outputs)

    @property
    def backward_blocks(self) -> list[slice]:
        """Columns per ciphertext of layout E."""
        return self.backward.blocks(self.columns)


@lru_cache(maxsize=512)
def plan_minibatch(
    key_bits: int,
    batch: int,
    columns: int,
    outputs: int,
    values: ValueBits | None = None,
    gradient: GradientLayout | None = None,
) -> MinibatchPlan:
    """Choose the cheapest layouts for one mini-batch, or the cheapest with the given layout of G^T D.

    Raises `DoesNotFit` when a slot cannot hold its worst case.
    """
    values = values or ValueBits()
    if min(batch, columns, outputs) < 1:
        raise ConfigError(f"A mini-batch of {batch} x {columns} x {outputs} has nothing to compute.")
    forward = SlotLayout.for_key(key_bits, values.embedding + values.weight + _log2(columns) + 2)
    backward = SlotLayout.for_key(key_bits, values.gradient + values.weight + _log2(outputs) + 2)
    # V2 carries the difference of two shares (share + 1 bits), a sign and a guard bit; the update must fit beside it.
    update_bits = values.embedding + values.step + _log2(batch)
    if update_bits > values.share:
        raise DoesNotFit(f"An update of {update_bits} bits is not hidden by a share of {values.share} bits.")
    update = SlotLayout.for_key(key_bits, values.share + 3)
    choices = [
        _plan(key_bits, batch, columns, outputs, values, (forward, update, backward), layout, m)
        for layout in ((gradient,) if gradient else ("columns", "reversed"))
        for m in _samples_per_result(backward.capacity // columns, batch)
    ]
    return min(choices, key=lambda plan: plan.work.kernel_products(key_bits).weighted)


@dataclass(frozen=True)
class ElementwisePlan:
    """Where everything lies when the interactive layer scales each embedding column by one weight (z_j = g_j w_j).

    Forward as layout A. The gradients have no weight in common, so each G[b, j] and each E[j] gets a ciphertext of its
    own, already shifted to slot j; the sums stay packed.
    """

    key_bits: int
    batch: int
    columns: int
    values: ValueBits
    forward: SlotLayout
    update: SlotLayout
    backward: SlotLayout
    samples_per_result: int

    @property
    def forward_blocks(self) -> list[slice]:
        """Samples per ciphertext of layout A."""
        return self.forward.blocks(self.batch)

    @property
    def update_blocks(self) -> list[slice]:
        """Columns per ciphertext of the packed weight gradient."""
        return self.update.blocks(self.columns)

    @property
    def backward_blocks(self) -> list[slice]:
        """Columns per ciphertext of dL/dG."""
        return self.backward.blocks(self.columns)


@lru_cache(maxsize=512)
def plan_elementwise(key_bits: int, batch: int, columns: int, values: ValueBits) -> ElementwisePlan:
    """Lay out one mini-batch of an element-wise interactive layer."""
    if min(batch, columns) < 1:
        raise ConfigError(f"A mini-batch of {batch} x {columns} has nothing to compute.")
    forward = SlotLayout.for_key(key_bits, values.embedding + values.weight + 2)
    backward = SlotLayout.for_key(key_bits, values.gradient + values.weight + 2)
    update = SlotLayout.for_key(key_bits, values.share + 3)
    if values.embedding + values.step + _log2(batch) > values.share:
        raise DoesNotFit("An update is not hidden by its share.")
    m = max(1, min(batch, backward.capacity // columns))
    return ElementwisePlan(key_bits, batch, columns, values, forward, update, backward, m)


def _samples_per_result(most: int, batch: int) -> list[int]:
    return sorted({min(m, batch) for m in range(1, max(1, most) + 1)})


def _plan(
    key_bits: int,
    batch: int,
    columns: int,
    outputs: int,
    values: ValueBits,
    slots: tuple[SlotLayout, SlotLayout, SlotLayout],
    gradient: GradientLayout,
    m: int,
) -> MinibatchPlan:
    forward, update, backward = slots
    a_blocks, e_blocks = len(forward.blocks(batch)), len(backward.blocks(columns))
    results = math.ceil(batch / m)
    c1, c3 = outputs * a_blocks, results * e_blocks
    own_a, own_e = columns * a_blocks, m * outputs * e_blocks
    dots = [
        (a_blocks, columns, values.noisy_weight + 1, outputs),
        (e_blocks, m * outputs, values.gradient + 1, results),
    ]
    if gradient == "columns":
        u_blocks = len(update.blocks(columns))
        sent, c2 = batch * u_blocks, outputs * u_blocks
        dots.append((u_blocks, batch, values.step + 1, outputs))
        up, down, plain = own_a + own_e + sent, c1 + c2 + c3, c1 + c2
    else:
        u_blocks = len(update.blocks(outputs))
        sent, c2 = batch * u_blocks, columns * u_blocks
        dots.append((u_blocks, batch, values.embedding + 1, columns))
        up, down, plain = own_a + own_e + c2, c1 + c3 + sent, c1
    work = Work(own_a + own_e + sent, c1 + c2 + c3, c1 + c2 + c3, tuple(dots), up, down, plain)
    return MinibatchPlan(key_bits, batch, columns, outputs, values, forward, update, backward, gradient, m, work)


def _log2(count: int) -> int:
    return math.ceil(math.log2(count)) if count > 1 else 0

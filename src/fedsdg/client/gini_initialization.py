"""Algorithm 1 at a client: class counts of its bins under the server's encryption, masked for one squaring.

With w the weight and U the size of a bin, c_k its encrypted class counts, v_k = w c_k, and R = sum_k r_k:

    u_k = v_k + r_k,    e_k = 2 w (r_k + R + w U),    const = sum_k r_k^2 + R^2 - (w U)^2
    sum_k u_k^2 + (sum_k u_k)^2  -  sum_k e_k c_k  -  const  =  sum over ALL classes of v^2

The server squares u, this party knows e and const, and only their sum over the bins of a column is ever unmasked. The
steps that do not depend on the statistic (counting, packing, unmasking) serve the secure filters, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsdg.crypto import EncryptedArray, Evaluator
from fedsdg.crypto.randomness import below
from fedsdg.crypto.residues import residues_from_bytes
from fedsdg.data.binning import Binning
from fedsdg.errors import MalformedMessage
from fedsdg.learning.gini import GiniScores, bin_weight, gini_from_square_sum
from fedsdg.messages.gini_initialization import MaskedCounts
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.square_sum_layout import Chunk, SquareSumLayout

Indices = npt.NDArray[np.int64]


@dataclass(eq=False)
class PendingSums:
    """What unmasks the sums of squares when they arrive from the server."""

    layout: SquareSumLayout
    masks: list[mpz]  # t, one per score ciphertext
    constants: list[int]  # per scored column


@dataclass(eq=False)
class PendingScores(PendingSums):
    """What makes Gini scores of them."""

    n_bins: Indices


def mask_counts(
    indicators: bytes, binning: Binning, layout: GiniLayout, evaluator: Evaluator
) -> tuple[MaskedCounts, PendingScores]:
    """A1.2: count, weigh, mask and pack."""
    labels = evaluator.load(indicators, (layout.n_rows, layout.label_columns))
    whole = sum_of_all_rows(labels, layout, evaluator)
    counts, cross, constants = [], [], []
    for chunk in layout.chunks():
        masked, terms, of_columns = _mask_chunk(labels, whole, binning, layout, chunk, evaluator)
        counts.append(masked)
        cross.append(terms)
        constants += of_columns
    reply, masks = masked_reply(counts, cross, evaluator)
    return reply, PendingScores(layout, masks, constants, binning.n_bins)


def masked_reply(
    counts: list[EncryptedArray], cross: list[EncryptedArray], evaluator: Evaluator
) -> tuple[MaskedCounts, list[mpz]]:
    """Return the reply made of all chunks, and the masks t of the cross terms."""
    # u is fresh: masks were added as new encryptions. Y gets a mask uniform in Z_n.
    masked_cross, masks = evaluator.mask(cross[0].joined(cross[1:]))
    return MaskedCounts(counts[0].joined(counts[1:]).to_bytes(), masked_cross.to_bytes()), masks


def unmask_scores(pending: PendingScores, sums: bytes, evaluator: Evaluator) -> GiniScores:
    """A1.4: take masks and constants off and read one score per column."""
    layout = pending.layout
    assert isinstance(layout, GiniLayout)
    ginis = np.array(
        [
            gini_from_square_sum(s, layout.n_rows, layout.fraction_bits)
            for s in unmask_square_sums(pending, sums, evaluator)
        ]
    )
    return GiniScores(ginis[:-1], float(ginis[-1]), pending.n_bins, layout.n_rows, layout.n_classes)


def unmask_square_sums(pending: PendingSums, sums: bytes, evaluator: Evaluator) -> list[int]:
    """Take masks and constants off and read one sum of squares per column."""
    layout, slots, n = pending.layout, pending.layout.scores, evaluator.key.n
    T = residues_from_bytes(sums, len(pending.masks), evaluator.key)
    square_sums: list[int] = []
    constants = iter(pending.constants)
    at = 0
    for chunk in layout.chunks():
        left = len(chunk.columns)
        for _ in range(chunk.score_ciphertexts):
            here = min(left, slots.capacity)
            const = slots.pack_wide([next(constants) for _ in range(here)])
            packed = (T[at] + pending.masks[at] - const) % n
            square_sums += _read_slots(int(packed), here, slots.width)
            left -= here
            at += 1
    if any(s > layout.largest_sum for s in square_sums):
        raise MalformedMessage("A score is out of range: the server's sums do not fit this party's counts.")
    return square_sums


def _mask_chunk(
    labels: EncryptedArray,
    whole: EncryptedArray,
    binning: Binning,
    layout: GiniLayout,
    chunk: Chunk,
    evaluator: Evaluator,
) -> tuple[EncryptedArray, EncryptedArray, list[int]]:
    others, sizes = layout.label_columns, np.zeros((len(chunk.columns), layout.n_bins), np.int64)
    sums = class_counts(labels, whole, binning, layout, chunk, evaluator, sizes)
    r = below(1 << layout.mask_bits, len(chunk.columns) * layout.items_per_column)
    w = np.array([bin_weight(int(s), layout.fraction_bits) if s else 0 for s in sizes.ravel()], object)
    e: list[int] = []
    constants: list[int] = []
    for column in range(len(chunk.columns)):
        constant = 0
        for i in range(layout.n_bins):
            at = (column * layout.n_bins + i) * others
            weight, masks = int(w[column * layout.n_bins + i]), [int(v) for v in r[at : at + others]]
            total, weighted_size = sum(masks), weight * int(sizes[column, i])
            e += [2 * weight * (mask + total + weighted_size) for mask in masks]
            constant += sum(mask * mask for mask in masks) + total * total - weighted_size * weighted_size
        constants.append(constant)
    weights = np.repeat(w, others)
    return (
        pack_counts(sums, weights, r, layout, chunk, evaluator),
        pack_cross_terms(sums, e, layout, chunk, evaluator),
        constants,
    )


def sum_of_all_rows(labels: EncryptedArray, layout: SquareSumLayout, evaluator: Evaluator) -> EncryptedArray:
    """Return the sums of the label columns over all rows."""
    return evaluator.sum_selected(labels, _per_class(np.arange(layout.n_rows), layout.label_columns))


def class_counts(
    labels: EncryptedArray,
    whole: EncryptedArray,
    binning: Binning,
    layout: SquareSumLayout,
    chunk: Chunk,
    evaluator: Evaluator,
    sizes: Indices,
) -> EncryptedArray:
    """Return [[c]] in order (column, bin, class), and fill in the bin sizes.

    A bin of more than half of all rows is the total minus the others: sparse columns become much cheaper.
    """
    others = layout.label_columns
    nothing = np.empty(0, np.int64)
    selections: list[Indices] = []
    complements: list[tuple[int, list[Indices]]] = []  # (flat item of the large bin's first class, the rest per class)
    for position, column in enumerate(chunk.columns):
        if column == layout.n_columns:  # the column of all rows
            members = [np.arange(layout.n_rows)] + [nothing] * (layout.n_bins - 1)
        else:
            codes = binning.codes[:, column]
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=layout.n_bins))
            members = np.split(order, ends[:-1])
        sizes[position] = [len(m) for m in members]
        for i, rows in enumerate(members):
            if 2 * len(rows) > layout.n_rows:
                rest = np.concatenate([m for other, m in enumerate(members) if other != i])
                complements.append((len(selections), _per_class(rest, others)))
                selections += [nothing] * others
            else:
                selections += _per_class(rows, others)
    sums = evaluator.sum_selected(labels, selections)
    if not complements:
        return sums
    others_sum = evaluator.sum_selected(labels, [s for _, of_classes in complements for s in of_classes])
    large = evaluator.add(whole.take(list(range(others)) * len(complements)), evaluator.negate(others_sum))
    joined = sums.joined([large])
    positions = np.arange(sums.size)
    for number, (item, _) in enumerate(complements):
        positions[item : item + others] = sums.size + number * others + np.arange(others)
    return joined.take(positions.tolist())


def pack_counts(
    sums: EncryptedArray,
    weights: npt.NDArray[np.object_],
    r: list[mpz],
    layout: SquareSumLayout,
    chunk: Chunk,
    evaluator: Evaluator,
) -> EncryptedArray:
    """Return u: weighted counts shifted into slots, masks added as new encryptions; unused slots are masked, too."""
    slots, ciphertexts = layout.counts, chunk.count_ciphertexts
    padding = ciphertexts * slots.capacity - sums.size
    items = sums.take([*range(sums.size), *([0] * padding)], ciphertexts, slots.capacity)
    padded = np.concatenate([weights, np.zeros(padding, object)]).reshape(ciphertexts, slots.capacity)
    shifts = [slots.width * i for i in range(slots.capacity)]
    packed = evaluator.shifted_sums(items, padded, shifts, layout.weight_bits)
    masks = [*r, *below(1 << layout.mask_bits, padding)]
    plain = [slots.pack_wide(masks[i : i + slots.capacity]) for i in range(0, len(masks), slots.capacity)]
    return evaluator.add_fresh(packed, plain)


def pack_cross_terms(
    sums: EncryptedArray, e: list[int], layout: SquareSumLayout, chunk: Chunk, evaluator: Evaluator
) -> EncryptedArray:
    """Return the cross terms of every column, packed; masked by the caller."""
    slots, columns, items = layout.scores, len(chunk.columns), layout.items_per_column
    by_column = sums.reshape(columns, items)
    per_column = evaluator.shifted_sums(
        by_column, np.array(e, object).reshape(columns, items), [0] * items, layout.cross_bits
    )
    padding = chunk.score_ciphertexts * slots.capacity - columns
    grouped = per_column.take([*range(columns), *([0] * padding)], chunk.score_ciphertexts, slots.capacity)
    ones = np.array([1] * columns + [0] * padding).reshape(chunk.score_ciphertexts, slots.capacity)
    return evaluator.shifted_sums(grouped, ones, [slots.width * i for i in range(slots.capacity)], 1)


def _per_class(rows: Indices, label_columns: int) -> list[Indices]:
    """Return the flat positions of these rows' label numbers, class by class."""
    return [rows * label_columns + k for k in range(label_columns)]


def _read_slots(packed: int, count: int, width: int) -> list[int]:
    if packed >> (width * count):
        raise MalformedMessage("The server's sums do not fit this party's counts.")
    mask = (1 << width) - 1
    return [(packed >> (width * i)) & mask for i in range(count)]

"""Filters at a client: linear sums of encrypted label numbers, masked for one squaring as in Algorithm 1.

gini and ms_gini are Algorithm 1 with the bins of the filter. In chi2 and sffs the server's label numbers carry the
class weights, so every class is encrypted and none is implied. With c an encrypted sum, w its weight, v = w c and r its
mask:

    u = v + r,    e = 2 w r,    const = sum r^2
    sum u^2  -  sum e c  -  const  =  sum v^2
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fedsdg.client.gini_initialization import (
    PendingSums,
    class_counts,
    mask_counts,
    masked_reply,
    pack_counts,
    pack_cross_terms,
    sum_of_all_rows,
    unmask_scores,
    unmask_square_sums,
)
from fedsdg.client.state import ClientState
from fedsdg.crypto import EncryptedArray, Evaluator
from fedsdg.crypto.randomness import below
from fedsdg.data.arrays import FloatArray, IntArray, as_feature_matrix
from fedsdg.data.binning import Binning, bin_columns
from fedsdg.errors import ProtocolError
from fedsdg.learning.gini import bin_weight
from fedsdg.messages.filter_layout import ChiSquareLayout, ClassSumLayout, filter_layout
from fedsdg.messages.filter_scores import FinishFilter, ScoreColumns
from fedsdg.messages.filter_statistics import (
    CELL_BITS,
    chi2_from_square_sum,
    f_from_square_sums,
    fixed_point_cells,
    split_at_mean,
    split_scores,
    standardised,
)
from fedsdg.messages.gini_initialization import MaskedCounts
from fedsdg.messages.gini_layout import GiniLayout
from fedsdg.messages.session import Done
from fedsdg.messages.square_sum_layout import Chunk, SquareSumLayout

logger = logging.getLogger("fedsdg.client")

Finish = Callable[[bytes], FloatArray]
"""From the server's sums to one score per column."""

BITS_AT_ONCE = 1 << 28
"""Columns are multiplied in blocks of about so many bits, because the bits of all cells are laid out in memory."""


def score_columns(state: ClientState, request: ScoreColumns) -> MaskedCounts:
    """F.2: sum, weigh, mask and pack."""
    session = state.joined
    values = as_feature_matrix(state.local.table.values[state.train_rows], "a filter")
    layout = filter_layout(
        request.statistic,
        values.shape[0],
        values.shape[1],
        request.n_classes,
        session.config.binning,
        session.keys.under_server_key.key.bits,
        session.sigma,
    )
    evaluator = session.keys.under_server_key
    if isinstance(layout, ClassSumLayout):
        reply, finish = mask_class_sums(request.labels, fixed_point_cells(values), layout, evaluator)
    elif isinstance(layout, ChiSquareLayout):
        reply, finish = mask_table(request.labels, bin_columns(values, session.config.binning), layout, evaluator)
    else:
        assert isinstance(layout, GiniLayout)
        splits = request.statistic == "ms_gini"
        binning = split_at_mean(values) if splits else bin_columns(values, session.config.binning)
        reply, pending = mask_counts(request.labels, binning, layout, evaluator)

        def finish(sums: bytes) -> FloatArray:
            scores = unmask_scores(pending, sums, evaluator)
            return split_scores(scores) if splits else scores.deviations_from_chance()

    state.pending_filter = finish
    return reply


def finish_filter(state: ClientState, request: FinishFilter) -> Done:
    """F.4: unmask one score per column. They stay here."""
    if state.pending_filter is None:
        raise ProtocolError("No filter waits for its sums.")
    state.filter_scores = state.pending_filter(request.sums)
    state.pending_filter = None
    logger.info("client %r: filter scores of %d columns", state.local.client_id, len(state.filter_scores))
    return Done()


def mask_table(
    labels: bytes, binning: Binning, layout: ChiSquareLayout, evaluator: Evaluator
) -> tuple[MaskedCounts, Finish]:
    """Count, weigh and mask the bins x classes table of every column; what comes back is chi-square, standardised."""
    numbers = evaluator.load(labels, (layout.n_rows, layout.label_columns))
    whole = sum_of_all_rows(numbers, layout, evaluator)

    def sums_of(chunk: Chunk) -> tuple[EncryptedArray, npt.NDArray[np.object_]]:
        sizes = np.zeros((len(chunk.columns), layout.n_bins), np.int64)
        sums = class_counts(numbers, whole, binning, layout, chunk, evaluator, sizes)
        w = np.array([bin_weight(int(size), layout.fraction_bits) if size else 0 for size in sizes.ravel()], object)
        return sums, np.repeat(w, layout.label_columns)

    reply, pending = _mask_squares(sums_of, layout, evaluator)

    def finish(sums: bytes) -> FloatArray:
        found = unmask_square_sums(pending, sums, evaluator)
        scores = np.full(layout.n_columns, -np.inf)
        for column, n_bins in enumerate(binning.n_bins.tolist()):
            if n_bins > 1:
                chi2 = chi2_from_square_sum(found[column], layout.n_rows)
                scores[column] = standardised(chi2, n_bins, layout.n_classes)
        return scores

    return reply, finish


def mask_class_sums(
    labels: bytes, cells: IntArray, layout: ClassSumLayout, evaluator: Evaluator
) -> tuple[MaskedCounts, Finish]:
    """Sum and mask cells times label numbers; what comes back is the F statistic of every column."""
    numbers = evaluator.load(labels, (layout.n_rows, layout.label_columns))
    by_class = np.arange(layout.n_rows * layout.label_columns).reshape(layout.n_rows, layout.label_columns).T
    classes = numbers.take(by_class.ravel().tolist(), layout.label_columns, layout.n_rows)

    def sums_of(chunk: Chunk) -> tuple[EncryptedArray, npt.NDArray[np.object_]]:
        each = max(1, BITS_AT_ONCE // (8 * layout.n_rows * (CELL_BITS + 1)))
        blocks = []
        for first in range(chunk.columns.start, chunk.columns.stop, each):
            of_block = cells[:, first : min(first + each, chunk.columns.stop)]
            products = evaluator.dot(classes, of_block, CELL_BITS)
            order = np.arange(products.size).reshape(products.shape).T  # column by column
            blocks.append(products.take(order.ravel().tolist()))
        sums = blocks[0].joined(blocks[1:])
        return sums, np.ones(sums.size, object)

    reply, pending = _mask_squares(sums_of, layout, evaluator)
    return reply, lambda sums: f_from_square_sums(unmask_square_sums(pending, sums, evaluator), cells, layout.n_classes)


def _mask_squares(
    sums_of: Callable[[Chunk], tuple[EncryptedArray, npt.NDArray[np.object_]]],
    layout: SquareSumLayout,
    evaluator: Evaluator,
) -> tuple[MaskedCounts, PendingSums]:
    """Mask weighted sums of which none is implied by the others."""
    counts: list[EncryptedArray] = []
    cross: list[EncryptedArray] = []
    constants: list[int] = []
    for chunk in layout.chunks():
        sums, weights = sums_of(chunk)
        r = [mask + layout.shift for mask in below(1 << layout.mask_bits, sums.size)]
        e = [2 * int(weight) * int(mask) for weight, mask in zip(weights, r, strict=True)]
        counts.append(pack_counts(sums, weights, r, layout, chunk, evaluator))
        cross.append(pack_cross_terms(sums, e, layout, chunk, evaluator))
        each = layout.items_per_column
        constants += [int(sum(mask * mask for mask in r[at : at + each])) for at in range(0, len(r), each)]
    reply, masks = masked_reply(counts, cross, evaluator)
    return reply, PendingSums(layout, masks, constants)

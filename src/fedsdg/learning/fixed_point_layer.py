"""The interactive layer in exact integers: the arithmetic that a `masked` run performs under encryption.

::

    forward    Z  = G W   + tau           W is an integer matrix on the scale 2**(f_G + f_step)
    backward   dG = D W^T + tau2
    update     W <- W - G^T D_step        the step size is folded into D_step, so nothing is ever truncated

G are quantised embeddings, D and D_step quantised per-sample gradients. The dithers ``tau`` (the client's)
and ``tau2`` (the server's) are drawn 20 bits below one unit: they change no prediction and hide that the
results are exact integer products, whose greatest common divisors would reveal W. In the element-wise layer W
is a vector: ``Z_j = G_j w_j``.

Here W lies in the clear. In a `masked` run nobody holds it, yet G, D, Z and dG are the same integers: any
difference is a bug. A result that leaves its documented range raises :class:`~fedsdg.errors.SlotOverflow`;
nothing wraps around.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsdg.config import FixedPointSettings, Interactive
from fedsdg.data.arrays import FloatArray, IntArray
from fedsdg.errors import ConfigError, DataError, SlotOverflow

FLOAT64_INTEGER_BITS = 53
INT64_BITS = 63


def quantize(values: FloatArray, fraction_bits: int, magnitude_bits: int) -> tuple[IntArray, int]:
    """Round to integers of ``|x| < 2**magnitude_bits`` and count the values that had to be clipped."""
    scaled = np.rint(np.asarray(values, dtype=np.float64) * float(1 << fraction_bits))
    if not np.isfinite(scaled).all():
        raise DataError("training diverged: NaN or infinite values before quantisation; lower the learning rates")
    limit = float((1 << magnitude_bits) - 1)
    clipped = int(np.count_nonzero(np.abs(scaled) > limit))
    return np.clip(scaled, -limit, limit).astype(np.int64), clipped


def magnitude(values: NDArray[np.int64] | NDArray[np.object_]) -> int:
    """Return the largest absolute value as a Python integer."""
    if values.size == 0:
        return 0
    return max(int(values.max()), -int(values.min()))


def exact_matmul(left: IntArray, right: IntArray) -> NDArray[np.int64] | NDArray[np.object_]:
    """Multiply integer matrices exactly.

    float64 matrix products of integers are exact while every partial sum stays below 2**53, in any order of
    summation. So ``right`` is cut into limbs narrow enough for that, one fast product is taken per limb, and
    the results are joined in int64. Only when the result itself might not fit int64 are Python integers used
    (and then returned).
    """
    inner = left.shape[1]
    left_max, right_max = magnitude(left), magnitude(right)
    bound = left_max * right_max * max(1, inner)
    if bound >> FLOAT64_INTEGER_BITS == 0:
        return np.rint(left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    limb_bits = FLOAT64_INTEGER_BITS - (left_max * inner).bit_length()
    if bound >> INT64_BITS or limb_bits < 8:
        return np.asarray(left.astype(object) @ right.astype(object), dtype=object)
    total = np.zeros((left.shape[0], right.shape[1]), dtype=np.int64)
    left_float = left.astype(np.float64)
    rest, shift = right, 0
    while shift == 0 or rest.any():
        low = rest & ((1 << limb_bits) - 1)  # two's complement: low limbs are never negative, the last carries the sign
        high = rest >> limb_bits
        if magnitude(rest) >> limb_bits == 0:
            low, high = rest, np.zeros_like(rest)
        total += (left_float @ low.astype(np.float64)).astype(np.int64) << shift
        rest, shift = high, shift + limb_bits
    return total


def require_slots(values: NDArray[np.int64] | NDArray[np.object_], slot_bits: int, what: str) -> IntArray:
    """Return ``values`` as int64, or raise when one of them has left its slot (|x| >= 2**(slot_bits - 2))."""
    if magnitude(values) >> (slot_bits - 2):
        raise SlotOverflow(
            f"{what}: a value needs more than {slot_bits - 2} bits and would run into its neighbour; "
            "training is diverging (lower interactive_learning_rate), or raise fixed_point.weight_range_bits"
        )
    return values.astype(np.int64)


class InteractiveLayer(Protocol):
    """What training needs of the layer between one client and the server."""

    @property
    def width(self) -> int:
        """Columns of Z: the outputs of a dense layer, the open dimensions of an element-wise one."""
        ...

    def forward(self, embeddings: IntArray, dither: IntArray) -> IntArray:
        """Return Z = G W + tau."""
        ...

    def backward(self, gradients: IntArray, dither: IntArray) -> IntArray:
        """Return dL/dG = D W^T + tau2, with the weights of the forward pass."""
        ...

    def update(self, embeddings: IntArray, step_gradients: IntArray) -> None:
        """Replace W by W - G^T D_step."""
        ...

    def keep(self, dimensions: IntArray) -> None:
        """Keep only these embedding dimensions (positions among the present ones)."""
        ...


class _ClearLayer:
    """Weights in the clear, range-checked whenever they are set."""

    def __init__(self, weights: IntArray, settings: FixedPointSettings) -> None:
        self._settings = settings
        self._weights = self._checked(np.array(weights))

    @property
    def weights(self) -> IntArray:
        """A copy of W, as integers on the scale 2**f_W."""
        return self._weights.copy()

    def restore(self, weights: IntArray) -> None:
        """Put back the weights of a snapshot."""
        self._weights = self._checked(np.array(weights))

    def keep(self, dimensions: IntArray) -> None:
        """Keep only these embedding dimensions (positions among the present ones)."""
        self._weights = self._weights[dimensions]

    def _checked(self, weights: NDArray[np.int64] | NDArray[np.object_]) -> IntArray:
        return require_slots(weights, self._settings.weight_bits + 2, "interactive weights")


class DenseLayer(_ClearLayer):
    """W is d x k: every embedding dimension reaches every output."""

    @property
    def width(self) -> int:
        """Number of outputs k."""
        return int(self._weights.shape[1])

    def forward(self, embeddings: IntArray, dither: IntArray) -> IntArray:
        """Return Z = G W + tau."""
        _require_shape(embeddings, (embeddings.shape[0], self._weights.shape[0]), "embeddings")
        product = exact_matmul(embeddings, self._weights)
        slot_bits = self._settings.forward_slot_bits(self._weights.shape[0])
        return require_slots(_exact_sum(product, dither), slot_bits, "Z")

    def backward(self, gradients: IntArray, dither: IntArray) -> IntArray:
        """Return dL/dG = D W^T + tau2."""
        _require_shape(gradients, (gradients.shape[0], self._weights.shape[1]), "gradients")
        product = exact_matmul(gradients, np.ascontiguousarray(self._weights.T))
        slot_bits = self._settings.backward_slot_bits(self._weights.shape[1])
        return require_slots(_exact_sum(product, dither), slot_bits, "dL/dG")

    def update(self, embeddings: IntArray, step_gradients: IntArray) -> None:
        """Replace W by W - G^T D_step."""
        step = exact_matmul(np.ascontiguousarray(embeddings.T), step_gradients)
        self._weights = self._checked(_exact_sum(-step, self._weights))


class ElementwiseLayer(_ClearLayer):
    """A vector of d weights, as the paper writes it: every embedding dimension is scaled and passed on."""

    @property
    def width(self) -> int:
        """Number of open dimensions."""
        return len(self._weights)

    def forward(self, embeddings: IntArray, dither: IntArray) -> IntArray:
        """Return Z_bj = G_bj w_j + tau_bj."""
        _require_shape(embeddings, (embeddings.shape[0], len(self._weights)), "embeddings")
        product = _exact_product(embeddings, self._weights[None, :])
        return require_slots(_exact_sum(product, dither), self._settings.forward_slot_bits(1), "Z")

    def backward(self, gradients: IntArray, dither: IntArray) -> IntArray:
        """Return dL/dG_bj = D_bj w_j + tau2_bj."""
        _require_shape(gradients, (gradients.shape[0], len(self._weights)), "gradients")
        product = _exact_product(gradients, self._weights[None, :])
        return require_slots(_exact_sum(product, dither), self._settings.backward_slot_bits(1), "dL/dG")

    def update(self, embeddings: IntArray, step_gradients: IntArray) -> None:
        """Replace w_j by w_j - sum_b G_bj D_step,bj."""
        if magnitude(embeddings) * magnitude(step_gradients) * max(1, len(embeddings)) >> INT64_BITS:
            step: NDArray[np.int64] | NDArray[np.object_] = (
                embeddings.astype(object) * step_gradients.astype(object)
            ).sum(axis=0)
        else:
            step = (embeddings * step_gradients).sum(axis=0)
        self._weights = self._checked(_exact_sum(-step, self._weights))


def build_layer(kind: Interactive, weights: IntArray, settings: FixedPointSettings) -> DenseLayer | ElementwiseLayer:
    """Return the clear layer of this kind around initial weights."""
    if kind == "dense":
        if weights.ndim != 2:
            raise ConfigError(f"a dense interactive layer needs a matrix of weights, got {weights.ndim} dimension(s)")
        settings.require_capacity(*weights.shape)
        return DenseLayer(weights, settings)
    if weights.ndim != 1:
        raise ConfigError(
            f"an element-wise interactive layer needs a vector of weights, got {weights.ndim} dimension(s)"
        )
    settings.require_capacity(1, 1)
    return ElementwiseLayer(weights, settings)


def _exact_product(left: IntArray, right: IntArray) -> NDArray[np.int64] | NDArray[np.object_]:
    if magnitude(left) * magnitude(right) >> INT64_BITS:
        return np.asarray(left.astype(object) * right.astype(object), dtype=object)
    return left * right


def _exact_sum(
    left: NDArray[np.int64] | NDArray[np.object_], right: IntArray
) -> NDArray[np.int64] | NDArray[np.object_]:
    _require_shape(right, left.shape, "summand")
    if (magnitude(left) + magnitude(right)) >> INT64_BITS:
        return np.asarray(left.astype(object) + right.astype(object), dtype=object)
    return left + right


def _require_shape(array: NDArray[np.int64], shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise DataError(f"interactive layer: {what} must have shape {shape}, got {array.shape}")

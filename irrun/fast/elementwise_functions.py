"""Which elementwise operations a chain can contain, and the functions that compute them on blocks of f32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.functions import HIGHEST, LOWEST, SCRATCH_FACTOR, F32Function, find_function
from irrun.fast.support import ZERO, clip

__all__ = ["BlockFunction", "find_block_function"]

Array = np.ndarray[Any, Any]
#: Called with the operands, the block of the result and a flat scratch array.
Compute = Callable[[Sequence[Array], Array, Any], object]


class BlockFunction(NamedTuple):
    """The computation of a step on a block. The result may be written to any operand.

    Attributes:
        compute: The function.
        scratch_factor: Arrays of the size of the block that it needs as scratch memory.
        operand_count: Number of operands; the other inputs of the operation are part of the function.
    """

    compute: Compute
    scratch_factor: int
    operand_count: int


#: Operations of two operands -> ufunc. All of them have NumPy's broadcasting here.
BINARY: dict[str, Callable[..., Any]] = {
    "Add-1": np.add,
    "Divide-1": np.divide,
    "Maximum-1": np.maximum,
    "Minimum-1": np.minimum,
    "Multiply-1": np.multiply,
    "Subtract-1": np.subtract,
}
#: Operations whose plain kernels treat NaN in another way, so that the second operand must be a constant without NaN.
EXTREMA = ("Maximum-1", "Minimum-1")
#: Functions of one pass.
ONE_PASS = frozenset(
    ("Abs-1", "Ceiling-1", "Clamp-1", "Exp-1", "Floor-1", "HSigmoid-5", "Negative-1", "Relu-1", "Sigmoid-1", "Tanh-1")
)


def _wrap_ufunc(ufunc: Callable[..., Any]) -> Compute:
    def compute(operands: Sequence[Array], out: Array, scratch: Any) -> None:
        ufunc(operands[0], operands[1], out=out)

    return compute


def _wrap_function(function: F32Function) -> Compute:
    def compute(operands: Sequence[Array], out: Array, scratch: Any) -> None:
        function(operands[0], out, scratch)

    return compute


def _compute_square(operands: Sequence[Array], out: Array, scratch: Any) -> None:
    np.square(operands[0], out)


def _compute_p_relu(operands: Sequence[Array], out: Array, scratch: Array) -> None:
    """Compute max(x, 0) + slope min(x, 0)."""
    x, slope = operands
    negative = scratch[: x.size].reshape(x.shape)
    clip(x, LOWEST, ZERO, negative)
    np.multiply(negative, slope, negative)
    clip(x, ZERO, HIGHEST, out)
    np.add(out, negative, out)


def _compute_leaky_relu(operands: Sequence[Array], out: Array, scratch: Array) -> None:
    """Compute max(x, slope x), for slopes in (0, 1]."""
    x, slope = operands
    scaled = scratch[: x.size].reshape(x.shape)
    np.multiply(x, slope, scaled)
    np.maximum(x, scaled, out=out)


def find_block_function(
    operation: str, attributes: Mapping[str, Any], constants: Sequence[Array | None]
) -> BlockFunction | None:
    """Return the function that computes an operation on blocks of f32, or None where chains cannot contain it.

    Args:
        operation: Type with version: "Gelu-7".
        attributes: Attributes of the operation.
        constants: One entry per input: its value if it is constant.
    """
    ufunc = BINARY.get(operation)
    if ufunc is not None:
        if attributes.get("auto_broadcast", "numpy") != "numpy" or len(constants) != 2:
            return None
        if operation in EXTREMA and (constants[1] is None or np.isnan(constants[1]).any()):
            return None
        return BlockFunction(_wrap_ufunc(ufunc), 0, 2)
    if operation == "Power-1":
        exponent = constants[1] if len(constants) == 2 else None
        is_square = exponent is not None and exponent.size == 1 and exponent.item() == 2
        return BlockFunction(_compute_square, 0, 1) if is_square and constants[0] is None else None
    if operation == "PRelu-1":
        slope = constants[1] if len(constants) == 2 else None
        if slope is None or not np.isfinite(slope).all():
            return None
        is_small = bool(((slope > 0) & (slope <= 1)).all())
        return BlockFunction(_compute_leaky_relu if is_small else _compute_p_relu, 1, 2)
    if not constants or constants[0] is not None or any(c is None for c in constants[1:]):
        return None
    function = find_function(operation, attributes, constants)
    if function is None:
        return None
    return BlockFunction(_wrap_function(function), 0 if operation in ONE_PASS else SCRATCH_FACTOR, 1)

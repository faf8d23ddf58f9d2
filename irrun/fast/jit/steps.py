"""Translation of operations to the steps of expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Translation", "translate"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Translation:
    """A step for an operation.

    Attributes:
        operation: A key of `expressions.OPERATIONS`.
        operands: For each operand, the position of an input of the operation, or a constant that replaces inputs.
        parameters: The parameters of the step.
        is_cheap: Whether NumPy computes the operation in one pass as fast.
    """

    operation: str
    operands: tuple[int | Array, ...]
    parameters: tuple[Any, ...] = ()
    is_cheap: bool = False


Constants = Sequence[Any]
Attributes = Mapping[str, Any]

#: Operations of one input without attributes.
UNARY = {
    name: name
    for name in (
        *("Abs", "Ceiling", "Erf", "Exp", "Floor", "HSigmoid", "HSwish", "Log", "Mish", "Negative", "Relu"),
        *("Sigmoid", "SoftPlus", "Sqrt", "Tanh"),
    )
}
#: Operations of two inputs that broadcast.
BINARY = ("Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract")
CHEAP = frozenset(("Abs", "Ceiling", "Floor", "Negative", "Relu", "Sqrt", *BINARY))


def translate(
    name: str, attributes: Attributes, constants: Constants, ranks: Sequence[int | None]
) -> Translation | None:
    """Return the step for an operation, or None where there is none.

    Args:
        name: The type of the operation.
        attributes: Its attributes.
        constants: For each input, its value if it is constant.
        ranks: For each input, its rank if it is known.
    """
    if name in UNARY and len(constants) == 1:
        return Translation(UNARY[name], (0,), (), name in CHEAP)
    if name in BINARY:
        return Translation(name, (0, 1), (), True) if _broadcasts_as_numpy(attributes, ranks) else None
    create = _FACTORIES.get(name)
    return create(attributes, constants, ranks) if create else None


def _broadcasts_as_numpy(attributes: Attributes, ranks: Sequence[int | None]) -> bool:
    return bool(attributes.get("auto_broadcast", "numpy") == "numpy")


def _get_number(constants: Constants, position: int) -> float | None:
    value = constants[position] if position < len(constants) else None
    return float(value.item()) if value is not None and value.size == 1 and value.dtype == F32 else None


def _translate_clamp(attributes: Attributes, constants: Constants, ranks: Sequence[int | None]) -> Translation | None:
    with np.errstate(over="ignore"):
        low, high = float(np.float32(attributes["min"])), float(np.float32(attributes["max"]))
    return Translation("Clamp", (0,), (low, high), True) if low <= high else None


def _translate_elu(attributes: Attributes, constants: Constants, ranks: Sequence[int | None]) -> Translation | None:
    alpha = float(attributes["alpha"])
    return Translation("Elu", (0,), (alpha,)) if math.isfinite(alpha) else None


def _translate_gelu(attributes: Attributes, constants: Constants, ranks: Sequence[int | None]) -> Translation | None:
    is_tanh = attributes.get("approximation_mode", "ERF") == "TANH"
    return Translation("GeluTanh" if is_tanh else "Gelu", (0,))


def _translate_power(attributes: Attributes, constants: Constants, ranks: Sequence[int | None]) -> Translation | None:
    exponent = _get_number(constants, 1)
    rank = constants[1].ndim if exponent is not None else 0
    if exponent is None or (rank and (ranks[0] is None or rank > ranks[0])):
        return None
    return {2.0: Translation("Square", (0,), (), True)}.get(exponent)


def _translate_prelu(attributes: Attributes, constants: Constants, ranks: Sequence[int | None]) -> Translation | None:
    slope, rank = constants[1], ranks[0]
    if slope is None or slope.dtype != F32 or rank is None:
        return None
    if slope.size == 1:
        return Translation("PRelu", (0, slope.reshape(())))
    if slope.ndim == 1 and rank >= 2:
        return Translation("PRelu", (0, slope.reshape(-1, *(1,) * (rank - 2))))
    return Translation("PRelu", (0, slope)) if 1 < slope.ndim <= rank else None


def _translate_swish(attributes: Attributes, constants: Constants, ranks: Sequence[int | None]) -> Translation | None:
    beta = 1.0 if len(constants) < 2 else _get_number(constants, 1)
    return Translation("Swish", (0,), (beta,)) if beta is not None and math.isfinite(beta) else None


def _translate_fake_quantize(
    attributes: Attributes, constants: Constants, ranks: Sequence[int | None]
) -> Translation | None:
    """Translate where the general rule applies: the input range is not empty and everything is finite."""
    limits = constants[1:5]
    levels = int(attributes["levels"])
    if any(limit is None or limit.dtype != F32 for limit in limits) or levels < 2:
        return None
    if not _broadcasts_as_numpy(attributes, ranks):
        return None
    in_low, in_high, out_low, out_high = limits
    try:
        shape = np.broadcast_shapes(*(limit.shape for limit in limits))
    except ValueError:
        return None
    # Limits of different layouts would make a table.
    if math.prod(shape) > max(limit.size for limit in limits):
        return None
    with np.errstate(all="ignore"):
        width, out_width = np.asarray(in_high - in_low), np.asarray(out_high - out_low)
        if not (width > 0).all() or not np.isfinite(width).all() or not np.isfinite(out_width).all():
            return None
        correction = np.asarray(out_high - (out_width + out_low))
    operands = (0, in_low, in_high, width, out_width, out_low)
    extended = (*operands, correction) if correction.any() else operands
    return Translation("FakeQuantize", extended, (float(levels - 1),))


_FACTORIES: dict[str, Callable[[Attributes, Constants, Sequence[int | None]], Translation | None]] = {
    "Clamp": _translate_clamp,
    "Elu": _translate_elu,
    "FakeQuantize": _translate_fake_quantize,
    "Gelu": _translate_gelu,
    "PRelu": _translate_prelu,
    "Power": _translate_power,
    "Swish": _translate_swish,
}

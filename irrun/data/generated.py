"""Generated inputs: random numbers, zeros and ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.data.uses import IntegerUse
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ir.model import TensorSpec
from irrun.limits import check_allocation, check_empty
from irrun.numerals import is_decimal

__all__ = ["GeneratedInput", "parse_generated"]

Array = np.ndarray[Any, Any]

_GENERATED = re.compile(r"(random|zeros|ones)(?::(.*))?")
_MASK_NAME = re.compile(r"mask", re.IGNORECASE)
_RATE_NAME = re.compile(r"(^|[._/])(sr|sample_?rate|sampling_?rate)$", re.IGNORECASE)

#: Default limit of random integers.
INTEGER_LIMIT = 10
#: The number of samples per second of an input that states it.
SAMPLE_RATE = 16000


@dataclass(frozen=True)
class GeneratedInput:
    """An input that is generated.

    Attributes:
        kind: "random", "zeros" or "ones".
        shape_text: The text after the colon, or None.
    """

    kind: str
    shape_text: str | None = None

    def parse_shape(self, tensor: TensorSpec) -> tuple[int, ...] | None:
        """Return the shape that the text states, or None if it states none.

        Args:
            tensor: The input.

        Raises:
            InputError: The text is not a shape, or nothing can be generated in this shape.
        """
        if self.shape_text is None:
            return None
        sizes = [part for part in re.split(r"[,x ]+", self.shape_text.strip().strip("[]")) if part]
        if not all(is_decimal(size) for size in sizes):
            expected = f"{self.kind}:1,3,224,224"
            raise InputError(
                f"expected a shape such as {expected} for input {tensor}, found {self.kind}:{self.shape_text}"
            )
        return tuple(int(size[:19]) for size in sizes)  # 19 digits exceed any memory

    def generate(
        self, shape: tuple[int, ...], tensor: TensorSpec, seed: int, position: int = 0, use: IntegerUse | None = None
    ) -> Array:
        """Return the array.

        Args:
            shape: Its shape.
            tensor: The input.
            seed: Seed for random numbers.
            position: The position of the input. Inputs at different positions get different random numbers.
            use: How the model uses integers.

        Raises:
            InputError: The array is too large.
        """
        _check_shape(shape, tensor)
        element_type = tensor.element_type or ElementType.parse("f32")
        if element_type.kind == "string":
            return np.full(shape, "" if self.kind == "zeros" else "irrun", dtype=object)
        if self.kind != "random":
            array = np.full(shape, int(self.kind == "ones"), np.uint8)
        else:
            rng = np.random.default_rng((seed, position) if position else seed)
            array = _draw(rng, shape, tensor, element_type, use or IntegerUse())
        if element_type.dtype.fields:
            return array.astype(np.uint8).view(element_type.dtype)
        return array.astype(element_type.dtype)


def parse_generated(text: str) -> GeneratedInput | None:
    """Return the generated input that a text such as "random" or "zeros:1,3" describes; None for other texts.

    Args:
        text: The text.
    """
    match = _GENERATED.fullmatch(text.strip())
    return GeneratedInput(match[1], match[2]) if match else None


def _draw(
    rng: np.random.Generator, shape: tuple[int, ...], tensor: TensorSpec, element_type: ElementType, use: IntegerUse
) -> Array:
    """Return random numbers that suit the use of an input."""
    is_mask = any(_MASK_NAME.search(name) for name in tensor.names)
    is_float = element_type.is_float and not element_type.dtype.fields
    if is_mask and len(shape) in (2, 3) and (is_float or element_type.is_integer or element_type.kind == "boolean"):
        array = rng.integers(0, 2, shape)
        array[..., :1] = 1  # a mask without any 1 makes NaN of some attentions
        return array
    if is_float:
        return rng.standard_normal(shape, np.float32)
    if element_type.kind == "boolean" or element_type.bits < 8:
        return rng.integers(0, 2, shape)
    if use.cases and use.limit is None and np.prod(shape) == 1:
        return np.full(shape, _choose_case(tensor, use.cases, rng))
    if use.limit is None and np.prod(shape) == 1 and any(_RATE_NAME.search(name) for name in tensor.names):
        return np.full(shape, SAMPLE_RATE)
    largest = int(np.iinfo(element_type.dtype).max) if element_type.dtype.kind in "iu" else INTEGER_LIMIT
    limit = use.limit if use.limit is not None else 256 if element_type.name == "u8" else INTEGER_LIMIT
    low = min(use.minimum, limit - 1)
    return rng.integers(low, min(limit, largest + 1), shape)


def _choose_case(tensor: TensorSpec, cases: list[int], rng: np.random.Generator) -> int:
    """Return one of the constants that a value is compared with: a typical sample rate, or any constant."""
    if any(_RATE_NAME.search(name) for name in tensor.names) and SAMPLE_RATE in cases:
        return SAMPLE_RATE
    return cases[int(rng.integers(len(cases)))]


def _check_shape(shape: tuple[int, ...], tensor: TensorSpec) -> None:
    try:
        if 0 in shape:
            check_empty(shape)
        check_allocation((*shape, 8), np.dtype(np.uint8))
        np.broadcast_to(np.uint8(0), shape)  # fails if NumPy does not support this many dimensions
    except ValueError:
        raise InputError(f"shape {list(shape)} is too large to be generated, for input {tensor}") from None

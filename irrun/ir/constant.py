"""The value of a Constant layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.weights import MissingWeightsError, Weights

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Constant"]


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The value of a Constant layer, encoded as in the .bin file.

    Attributes:
        element_type: The type of the elements.
        shape: The static shape.
        data: The bytes of the elements, packed and little-endian; None if the weights file is missing.
        size: The number of bytes of the elements, also if the weights file is missing.
        offset: The position of the first byte in the weights; None for a constant that was created in memory.
    """

    element_type: ElementType
    shape: tuple[int, ...]
    data: memoryview | bytes | None
    size: int
    offset: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe the constant for pickle. Weights shared by several constants are written once."""
        weights = Weights.find(self.data) if isinstance(self.data, memoryview) and self.offset is not None else None
        if weights is not None:
            return Constant.from_weights, (weights, self.element_type, self.shape, self.offset, self.size)
        data = None if self.data is None else bytes(self.data)
        return Constant, (self.element_type, self.shape, data, self.size, self.offset)

    @staticmethod
    def from_array(array: np.ndarray[Any, Any], element_type: ElementType) -> Constant:
        """Return a constant with the elements of an array.

        Args:
            array: An array of `element_type.dtype`.
            element_type: The type of the elements.

        Raises:
            ValueError: The array is of another type.
        """
        from irrun.packing import pack

        data = pack(element_type, array)
        return Constant(element_type, tuple(array.shape), data, len(data))

    @staticmethod
    def from_weights(
        weights: Weights, element_type: ElementType, shape: tuple[int, ...], offset: int, size: int | None = None
    ) -> Constant:
        """Return a constant that is a view of the weights.

        Args:
            weights: The weights. If the file is missing, the constant has no data.
            element_type: The type of the elements.
            shape: The static shape.
            offset: The position of the first byte.
            size: The number of bytes; at least, and by default, the bytes that the elements need.

        Raises:
            ModelError: `size` is too small, or the bytes are outside of the weights.
        """
        required = element_type.get_byte_size(math.prod(shape))
        if size is None:
            size = required
        elif size < required:
            raise ModelError(
                f"expected at least {required} bytes for {element_type}{list(shape)}, found the size {size}"
            )
        used = size if element_type.kind == "string" else required
        try:
            data = weights.view(offset, size)[:used]
        except MissingWeightsError:
            return Constant(element_type, shape, None, used, offset)
        return Constant(element_type, shape, data, used, offset)

    def to_array(self) -> np.ndarray[Any, Any]:
        """Return the elements as a read-only array, which shares memory with `data` where the encoding allows it.

        Raises:
            ModelError: The data are missing, or the offsets of strings are invalid.
        """
        from irrun.packing import unpack

        if self.data is None:
            raise MissingWeightsError("the weights of a constant are missing")
        try:
            return unpack(self.element_type, self.data, self.shape)
        except ValueError as error:
            raise ModelError(str(error)) from error

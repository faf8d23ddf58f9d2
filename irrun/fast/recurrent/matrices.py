"""Matrices of recurrent weights, and the shapes of gates in workspaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PartedMatrix", "Product", "from_gate_shape", "to_gate_shape"]

Array = np.ndarray[Any, Any]
Product = Callable[[Array, Array], Any]

#: Maximum number of multiplications in the product of a part: OpenBLAS has kernels for small products, several times
#: faster than for large matrices.
MATRIX_PRODUCT_SIZE = 1 << 18
#: Minimum row length of a part for a call to pay.
MIN_PART_LENGTH = 16


class PartedMatrix:
    """A matrix of weights, `[gates * hidden, columns]`, prepared for products with a state.

    Args:
        matrix: The weights.
        gates: Number of gates.
    """

    def __init__(self, matrix: Array, gates: int) -> None:
        self.matrix = np.ascontiguousarray(matrix)
        self.gates = gates
        self.hidden = matrix.shape[0] // gates
        self._transposed: dict[int, Array] = {}

    def count_parts(self, batch: int) -> int:
        """Return the number of parts that each gate is divided into for a batch size."""
        columns = self.matrix.shape[1]
        parts = 1
        for divisor in range(1, self.hidden // MIN_PART_LENGTH + 1):
            if self.hidden % divisor == 0:
                parts = divisor
                if columns * (self.hidden // divisor) * batch <= MATRIX_PRODUCT_SIZE:
                    break
        return parts

    def allocate(self, batch: int, parts: int, extra_gates: int = 0) -> tuple[Array, Array]:
        """Return a workspace with the units of gates along its first axis, and the destination of the products in it.

        Args:
            batch: Batch size.
            parts: Number of parts of each gate.
            extra_gates: Number of gates before the gates of the products.
        """
        if batch > 1:
            values = np.empty(((extra_gates + self.gates) * parts, batch, self.hidden // parts), np.float32)
            return values, values[extra_gates * parts :]
        start = extra_gates * self.hidden
        values = np.empty(start + self.matrix.shape[0], np.float32)
        return values, values[start:]

    def make_product(self, batch: int, parts: int) -> Product:
        """Return a function that computes the product with a state.

        Args:
            batch: Batch size.
            parts: Number of parts of each gate.

        Returns:
            Takes a state, `[columns]` for a batch size of 1 or else `[batch, columns]`, and the destination.
        """
        if batch == 1:
            return self.matrix.dot
        weights = self._transposed.get(parts)
        if weights is None:
            by_part = self.matrix.reshape(self.gates * parts, -1, self.matrix.shape[1])
            weights = np.ascontiguousarray(by_part.transpose(0, 2, 1))
            self._transposed = {parts: weights}  # keep at most one for other batch sizes
        matmul = np.matmul
        return lambda state, out: matmul(state, weights, out=out)


def to_gate_shape(state: Array, parts: int) -> Array:
    """Return a view of a state, `[batch, hidden]` or `[hidden]`, in the shape of a gate."""
    if state.ndim == 1 or len(state) == 1:
        return np.asarray(state.reshape(-1))
    return np.asarray(state.reshape(len(state), parts, -1).transpose(1, 0, 2))


def from_gate_shape(gate: Array) -> Array:
    """Return a copy of a gate in the shape of a state, `[batch, hidden]`."""
    if gate.ndim == 1:
        return np.array(gate[np.newaxis])
    return np.asarray(gate.transpose(1, 0, 2).reshape(gate.shape[1], -1))

"""Eye: matrices with ones on one diagonal."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar, to_shape
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["eye_9"]


@op("Eye", since=9, kind="generation", shape="infer_eye", shaped_by=(0, 1, 3), flops=0)
def eye_9(
    num_rows: Array,
    num_columns: Array,
    diagonal_index: Array,
    batch_shape: Array | None = None,
    *,
    output_type: ElementType,
) -> Array:
    """Generate matrices of zeros with ones at `[i, i + diagonal_index]`.

    Args:
        num_rows: Integer scalar.
        num_columns: Integer scalar.
        diagonal_index: Integer scalar. Positive values select diagonals above the main one.
        batch_shape: Integer, 1D. Empty if omitted.
        output_type: Type of the result.

    Returns:
        Shape batch_shape + [num_rows, num_columns], the type `output_type`.

    Raises:
        InputError: A dimension is negative.

    Spec:
        Eye-9
    """
    batch = [] if batch_shape is None else to_shape(batch_shape, "batch_shape")
    rows, columns = to_scalar(num_rows, "num_rows"), to_scalar(num_columns, "num_columns")
    diagonal = to_scalar(diagonal_index, "diagonal_index")
    shape = (*batch, rows, columns)
    if min(shape) < 0:
        raise InputError(f"the shape is {list(shape)}, expected non-negative dimensions")
    check_allocation(shape, output_type.dtype)
    matrix = np.equal.outer(np.arange(rows) + diagonal, np.arange(columns))
    return np.broadcast_to(matrix.astype(output_type.dtype), shape)

"""Shapes of the results of operations on strings and ragged tensors."""

from __future__ import annotations

from irrun.ops.shape_rules.axes import get_dimension
from irrun.ops.shape_rules.dimensions import make_static
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []

#: The shape of a list with a length that depends on the data.
_LIST = PartialShape([UNBOUNDED])


@rule
def infer_normalized_strings(inputs: Inputs) -> Shapes:
    """Return the shape of the strings twice, [bytes], and the shape of what else each string has."""
    shape = inputs.get_shape(0)
    return [shape, shape, _LIST, *[inputs.get_shape(3)] * (inputs.output_count - 3)]


@rule
def infer_ragged_strings(inputs: Inputs) -> Shapes:
    """Return the shape of the rows twice, the number of strings twice, [bytes], and a flag for each string."""
    rows = inputs.get_shape(0)
    return [rows, rows, _LIST, _LIST, _LIST, *[_LIST] * (inputs.output_count - 5)]


@rule
def infer_combined_segments(inputs: Inputs) -> Shapes:
    """Return the shape of the rows of the last tensor that has several, and [elements], each twice."""
    shapes = inputs.get_shapes()[:-1:3]
    rows = next((shape for shape in reversed(shapes) if shape is None or len(shape)), PartialShape([]))
    return [rows, rows, _LIST] * 2


@rule
def infer_dense_rows(inputs: Inputs) -> Shapes:
    """Return the shape of the rows, their length, and the dimensions of elements, twice."""
    rows, data, size = inputs.get_shape(0), inputs.get_shape(2), inputs.get_dimensions(3)
    if rows is None or data is None:
        return [None, None]
    shape = PartialShape([*rows, UNBOUNDED if size is None else size[0], *data[1:]])
    return [shape, shape]


@rule
def infer_sparse_rows(inputs: Inputs) -> Shapes:
    """Return [elements, 2]."""
    return [PartialShape([UNBOUNDED, 2])]


@rule
def infer_rows_by_count(inputs: Inputs) -> Shapes:
    """Return the number of rows that the second input states, twice."""
    size = inputs.get_dimensions(1)
    shape = PartialShape([UNBOUNDED if size is None else size[0]])
    return [shape, shape]


@rule
def infer_decoded_tokens(inputs: Inputs) -> Shapes:
    """Return [batch] twice, the number of tokens twice, and [bytes]."""
    ids = inputs.get_shape(0)
    rows = _LIST if ids is None else PartialShape(ids[:1])
    return [rows, rows, _LIST, _LIST, _LIST]


@rule
def infer_ragged_tokens(inputs: Inputs) -> Shapes:
    """Return the shape of the rows twice, and [tokens]."""
    rows = inputs.get_shape(0)
    return [rows, rows, _LIST]


@rule
def infer_sparse_tokens(inputs: Inputs) -> Shapes:
    """Return [tokens, 2], [tokens] and [2]."""
    return [PartialShape([UNBOUNDED, 2]), _LIST, PartialShape([2])]


@rule
def infer_decoded_rows(inputs: Inputs) -> Shapes:
    """Return the number of rows of the second input twice, and [bytes]."""
    rows = PartialShape([get_dimension(inputs.get_shape(1), 0) or UNBOUNDED])
    return [rows, rows, _LIST]


@rule
def infer_flat_strings(inputs: Inputs) -> Shapes:
    """Return [strings]."""
    shape = inputs.get_shape(0)
    return [shape if shape is not None and len(shape) == 1 else _LIST]


@rule
def infer_extension_strings(inputs: Inputs) -> Shapes:
    """Return the shape of the strings twice (unknown if they may be packed), and [bytes]."""
    return [None, None, _LIST]


@rule
def infer_list(inputs: Inputs) -> Shapes:
    """Return [n]."""
    return [_LIST]


@rule
def infer_joined_strings(inputs: Inputs) -> Shapes:
    """Return the shape of the strings without an axis, twice, and [bytes]."""
    shape, axis = inputs.get_shape(0), inputs.get_array(4)
    if shape is None:
        return [None, None, _LIST]
    kept = [UNBOUNDED] * max(len(shape) - 1, 0)
    if axis is not None and axis.size == 1 and -len(shape) <= int(axis.reshape(-1)[0]) < len(shape):
        kept = [*shape]
        del kept[int(axis.reshape(-1)[0])]
    return [PartialShape(kept), PartialShape(kept), _LIST]


@rule
def infer_split_strings(inputs: Inputs) -> Shapes:
    """Return [parts, rank + 1], the number of parts twice, [bytes], and [rank + 1]."""
    shape = inputs.get_shape(0)
    rank = UNBOUNDED if shape is None else make_static(len(shape) + 1)
    return [PartialShape([UNBOUNDED, rank]), _LIST, _LIST, _LIST, PartialShape([rank])]

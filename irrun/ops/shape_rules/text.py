"""Shapes of the results of operations on strings and ragged tensors."""

from __future__ import annotations

from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []

#: The shape of a list whose length depends on the data.
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

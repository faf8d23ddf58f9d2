"""The shapes of repeated heads, which are read without repeating them."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.fast.attention import get_repeated_shape
from irrun.ir.graph import Layer
from irrun.ops._support import registry
from irrun.runtime.passes.grouped_attention import _replace_shape
from irrun.runtime.program import Instruction


def make_instruction(layer_type, inputs, output, opset="opset1", **attributes):
    operation = registry.find(layer_type, opset)
    return Instruction(
        operation.kernel, inputs, (output,), Layer(output, layer_type, layer_type), operation, attributes
    )


@pytest.mark.parametrize(
    ("attributes", "dtype"),
    [
        ({}, np.int64),
        ({"output_type": ELEMENT_TYPES["i32"]}, np.int32),
        ({"output_type": ELEMENT_TYPES["i64"]}, np.int64),
    ],
)
@pytest.mark.parametrize("special_zero", [False, True])
def test_shapes_of_repeated_heads_have_their_declared_type(attributes, dtype, special_zero):
    repetition = (
        make_instruction("Unsqueeze", (1, 2), 3),
        make_instruction("Broadcast", (3, 4), 5, "opset3"),
        make_instruction("Reshape", (5, 6), 7, special_zero=special_zero),
    )
    shape_of = make_instruction("ShapeOf", (7,), 8, "opset3", **attributes)
    replaced = _replace_shape(shape_of, repetition)
    assert replaced.kernel is get_repeated_shape
    assert replaced.attributes == {"special_zero": special_zero, "dtype": np.dtype(dtype)}
    assert (replaced.inputs, replaced.outputs) == ((1, 4, 6), (8,))
    assert replaced.plain == (*repetition, shape_of)

"""The operations that are part of the structure of a graph: Parameter, Constant, Result."""

from __future__ import annotations

from irrun.element_types import ElementType
from irrun.ops._support.attributes import Attribute
from irrun.ops._support.operation import Input, StructuralOperation
from irrun.ops._support.registry import register
from irrun.shapes import PartialShape

__all__: list[str] = []

# If a file omits these attributes, the output port declares them.
_ELEMENT_TYPE = Attribute("element_type", ElementType | None, None)
_SHAPE = Attribute("shape", PartialShape | None, None)

register(
    StructuralOperation(
        "Parameter", 1, "infrastructure", "Declare an input of the model.", attributes=[_SHAPE, _ELEMENT_TYPE]
    )
)

register(StructuralOperation("Result", 1, "infrastructure", "Declare an output of the model.", inputs=[Input("value")]))

register(
    StructuralOperation(
        "Constant",
        1,
        "infrastructure",
        "Return a value that is stored in the weights, in `size` bytes at `offset`.",
        attributes=[_ELEMENT_TYPE, _SHAPE, Attribute("offset", int, 0), Attribute("size", int | None, None)],
        aliases=("Const",),
    )
)

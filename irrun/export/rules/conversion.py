"""Export of conversions between element types."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, get_graph, has_type, op
from irrun.export.rules.helpers import gather
from irrun.export.site import Site, exports
from irrun.ops._support.conversion import convert as convert_array
from irrun.ops._support.numerics import Array
from irrun.shapes import PartialShape


def get_limits(element_type: ElementType) -> tuple[int, int]:
    """Return the lowest and the greatest integer of a type."""
    lowest = -(1 << element_type.bits - 1) if element_type.kind == "int" else 0
    return lowest, lowest + (1 << element_type.bits) - 1


@exports("Convert-1")
def export_convert(site: Site) -> Value:
    """Export Convert. Constants of types that the opset does not have become indices into a table of values."""
    data, target = site[0], site.destination_type
    if not has_type(data.type) and data.array is not None and target.is_float:
        return _look_up(data.array, data.type, target)
    return _widen_decompression(data, target) or convert(data, target)


def _look_up(array: Array, source: ElementType, target: ElementType) -> Value:
    """Return constant codes of 8 bits or less, converted to a float."""
    codes = np.arange(1 << source.bits, dtype=np.uint8)
    wide = target if target.bits > 32 else ELEMENT_TYPES["f32"]  # rounded after the scaling, if at all
    table = constant(convert_array(codes.view(array.dtype), wide), wide)
    kind = "u4" if source.bits <= 4 and get_graph().opset >= 21 else "u8"
    stored = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    result = gather(table, cast(constant(stored, kind), "i32"))
    result.shape = PartialShape(array.shape)
    return cast(result, target)


def _widen_decompression(data: Value, target: ElementType) -> Value | None:
    """Return weights decompressed directly in f32, instead of in f16 and then converted."""
    is_narrow = data.type.name == "f16" and target.name == "f32"
    return _widen(data, target) if is_narrow and data.is_derived else None


def _widen(value: Value, target: ElementType) -> Value | None:
    """Return a value computed in a wider type; None if a step does not belong to decompression."""
    node = value.node
    if node is None:
        return cast(value, target)
    first = node.inputs[0]
    assert first is not None
    if node.type == "Cast":
        # Integers of 16 bits or more are rounded before they are scaled.
        return cast(first if first.type.bits <= 8 or not first.is_constant else value, target)
    if node.type == "DequantizeLinear":
        inputs: list[Value | None] = [first, cast_constant(node.inputs[1], target), *node.inputs[2:]]
    elif node.type in ("Mul", "Sub", "Add"):
        inputs = [None if v is None else _widen(v, target) for v in node.inputs]
    elif node.type in ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Gather", "Identity"):
        inputs = [_widen(first, target), *node.inputs[1:]]
    else:
        return None
    if inputs[0] is None or inputs[1:2] == [None]:
        return None
    (result,) = get_graph().add(node.type, inputs, [target], node.attributes)
    result.shape = value.shape
    return result


def cast_constant(value: Value | None, target: ElementType) -> Value | None:
    """Convert a constant of any size."""
    array = None if value is None else value.read()
    return None if array is None else constant(array.astype(target.dtype), target)


@exports("ConvertLike-1")
def export_convert_like(site: Site) -> Value:
    """Export ConvertLike."""
    return convert(site[0], site[1].type)


@exports("ConvertPromoteTypes-14")
def export_promote(site: Site) -> tuple[Value, Value]:
    """Export ConvertPromoteTypes: conversions to the declared type."""
    target = site.types[0]
    if target is None:
        raise UnsupportedError("the element type of the output is dynamic")
    return convert(site[0], target), convert(site[1], target)


def convert(data: Value, target: ElementType) -> Value:
    """Convert a value, as OpenVINO's Convert does."""
    if data.type is target:
        return data
    if data.type.kind == "string" or target.kind == "string":
        raise UnsupportedError(f"{data.type} cannot be converted to {target}")
    if target.kind == "boolean":
        return ~op("Equal", data, 0) if data.type.name not in ("i4", "u4") else ~op("Equal", cast(data, "i32"), 0)
    if data.type.is_float and target.is_integer and target.bits < 64:
        wide = cast(data, "i64" if target.bits == 32 else "i32")
        return cast(wide, target)
    if target.name == "f16" and data.type.name == "i32":
        return cast(op("Clip", cast(data, "f32"), constant(-65504.0), constant(65504.0)), "f16")
    if target.name in ("f8e4m3", "f8e5m2"):
        return cast(cast(data, "f16"), target)
    if target.is_packed and target.is_integer and data.type.bits > 8:
        return cast(cast(data, "u8" if target.kind == "uint" else "i8"), target)
    return cast(data, target)

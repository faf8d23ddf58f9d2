"""Compression of constants to f16, and of quantized weights to integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.ir.constant import Constant
from irrun.openvino.factories import create_node, make_constant
from irrun.openvino.inference import compute_node
from irrun.openvino.model import Model
from irrun.openvino.node import Node
from irrun.openvino.ports import Output
from irrun.ops._support import registry

__all__ = ["compress_constants", "compress_quantized_weights", "compress_to_f16"]

Array = np.ndarray[Any, Any]

_DECOMPRESSION = '<rt_info><attribute name="decompression" version="0" /></rt_info>'
_LARGEST = float(np.finfo(np.float16).max)

#: The largest numbers of levels of bits, which are not compressed, and of integers of 4 and 8 bits.
_BINARY_LEVELS, _INT4_LEVELS, _INT8_LEVELS = 2, 16, 256

#: Smaller zero points are rounding errors of symmetric ranges.
_SMALLEST_ZERO_POINT = 1e-4

#: Values are inexact if the relative error of rounding is larger than that of f16 within its normal range.
_MAX_ERROR = 1e-3

#: Constants with this share of inexact values and values out of range, or more, are not compressed.
_MAX_INEXACT = 0.75


def compress_to_f16(model: Model) -> Model:
    """Return a copy of a model with f32 and f64 constants stored in f16 and converted back."""
    copied = model.clone()
    compress_constants(copied)
    return copied


def compress_constants(model: Model) -> None:
    """Store the constants of f32 and f64 of a model in f16, and convert them back."""
    for node in model.get_ordered_ops():
        constant = node._constant
        if constant is not None and constant.element_type.name in ("f32", "f64") and _is_compressible(constant):
            _compress(node, constant)


def _is_compressible(constant: Constant) -> bool:
    values = np.abs(constant.to_array())
    if values.size == 0:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.abs(values - values.astype(np.float16))
    inexact = (values > _LARGEST) | (errors > _MAX_ERROR * values)
    return float(inexact.mean()) < _MAX_INEXACT


def _compress(node: Node, constant: Constant) -> None:
    values = np.clip(constant.to_array(), -_LARGEST, _LARGEST).astype(np.float16)
    small = make_constant(values, name=f"{node.get_friendly_name()}_compressed")
    convert = create_node("Convert", "opset1", [small], {"destination_type": constant.element_type.name})
    targets = Output(node, 0).get_target_inputs()
    convert._rt_info_text = _DECOMPRESSION
    convert._friendly_name = node.get_friendly_name()
    convert._ports[0].names = set(node._ports[0].names)
    for target in targets:
        target.replace_source_output(Output(convert, 0))


def compress_quantized_weights(model: Model) -> None:
    """Store the quantized weights of a model as integers, with the operations that restore their values.

    A FakeQuantize of a Constant becomes Convert, Subtract of a zero point where it is not 0, and Multiply by a scale.

    Args:
        model: The model. It is modified.
    """
    for node in model.get_ordered_ops():
        has_levels = registry.get_card(node._type, node._version).has_levels
        if has_levels and _BINARY_LEVELS < int(node._attributes["levels"]) <= _INT8_LEVELS:
            arguments = [_find_value(source) for source in node._sources if source is not None]
            known = [argument for argument in arguments if argument is not None]
            if len(known) == len(arguments):
                _store_as_integers(node, known)


def _find_value(output: Output, depth: int = 3) -> Array | None:
    """Return the value of a Constant, also after conversions and a few other operations."""
    node = output._node
    if node._constant is not None:
        return node._constant.to_array()
    is_fixed = registry.get_card(node._type, node._version).kind not in ("random", "state", "control")
    if not is_fixed or depth == 0 or not node._sources or len(node._ports) != 1 or node._implementation is not None:
        return None
    arguments = [_find_value(source, depth - 1) for source in node._sources if source is not None]
    return None if any(argument is None for argument in arguments) else compute_node(node, arguments)[0]


def _store_as_integers(node: Node, arguments: list[Array]) -> None:
    weights, _, _, low, high = arguments
    levels = int(node._attributes["levels"])
    lowest = np.float32(-(levels // 2))
    limits = [np.full((), limit, weights.dtype) for limit in (lowest, lowest + levels - 1)]
    codes = np.rint(compute_node(node, [*arguments[:3], *limits])[0])
    scale = (high.astype(np.float32) - low.astype(np.float32)) / np.float32(levels - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero_point = np.where(scale == 0, 0, lowest - low.astype(np.float32) / scale)
    width = 4 if levels <= _INT4_LEVELS else 8
    if low.any():
        integers = make_constant(codes.astype(np.int8), f"i{width}")
    else:  # the codes are not negative
        integers = make_constant((codes - lowest).astype(np.uint8), f"u{width}")
        zero_point = np.zeros_like(zero_point)
    element_type = ElementType.of(weights.dtype)
    value = create_node("Convert", "opset1", [integers], {"destination_type": element_type.name})
    if np.abs(zero_point).max(initial=0) > _SMALLEST_ZERO_POINT:
        value = create_node("Subtract", "opset1", [value, make_constant(zero_point.astype(weights.dtype))])
    value = create_node("Multiply", "opset1", [value, make_constant(scale.astype(weights.dtype))])
    value.set_friendly_name(node.get_friendly_name())
    Output(node, 0).replace(Output(value, 0))

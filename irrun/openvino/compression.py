"""Compression of constants to f16."""

from __future__ import annotations

import numpy as np

from irrun.ir.constant import Constant
from irrun.openvino.factories import create_node, make_constant
from irrun.openvino.model import Model
from irrun.openvino.node import Node, Output

__all__ = ["compress_constants", "compress_to_f16"]

_DECOMPRESSION = '<rt_info><attribute name="decompression" version="0" /></rt_info>'
_LARGEST = float(np.finfo(np.float16).max)
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)

#: Constants with more than this share of values out of range are not compressed.
_MAX_OUT_OF_RANGE = 0.75


def compress_to_f16(model: Model) -> Model:
    """Return a copy of a model whose constants of f32 and f64 are stored in f16 and converted back."""
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
    out_of_range = (values > _LARGEST) | ((values < _SMALLEST) & (values != 0))
    return float(out_of_range.mean()) <= _MAX_OUT_OF_RANGE


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

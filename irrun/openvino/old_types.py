"""Element types of the inputs and outputs of files of IR v10, as OpenVINO's first API declared them."""

from __future__ import annotations

from irrun.openvino.element_type import Type
from irrun.openvino.model import Model

__all__ = ["use_old_types"]


def use_old_types(model: Model) -> Model:
    """Convert inputs in f16 to f32, outputs in integers of 32 and 64 bits to i32, and other outputs to f32.

    Args:
        model: A model that was read from a file of IR v10.

    Returns:
        The same model.
    """
    from irrun.openvino.preprocess import PrePostProcessor

    is_changed = any(port.element_type == Type.f16 for port in model.inputs)
    if is_changed:  # outputs declared as f32 may be f16, which OpenVINO infers
        model.validate_nodes_and_infer_types()
    processor = PrePostProcessor(model)
    for i, port in enumerate(model.inputs):
        if port.element_type == Type.f16:
            processor.input(i).tensor().set_element_type(Type.f32)
    for i, port in enumerate(model.outputs):
        is_integer = port.element_type in (Type.i32, Type.i64, Type.u32, Type.u64)
        old_type = Type.i32 if is_integer else Type.f32
        if port.element_type not in (old_type, Type.dynamic, Type.string):
            processor.output(i).tensor().set_element_type(old_type)
            is_changed = True
    return processor.build() if is_changed else model

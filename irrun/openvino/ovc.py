"""The converter of models, which programs import as `openvino.tools.ovc`. irrun converts ONNX models only."""

from __future__ import annotations

import os
from typing import Any

from irrun.errors import IrrunError
from irrun.openvino.model import Model

__all__ = ["convert_model"]


def convert_model(input_model: Any = None, *, input: Any = None, **options: Any) -> Model:
    """Convert an ONNX model.

    Args:
        input_model: The path of an .onnx, or an `onnx.ModelProto`.
        input: New shapes of the inputs, as a list, or as a mapping by the names of the inputs.
        options: `verbose` and `share_weights`, which have no effect.

    Raises:
        RuntimeError: The model is of another framework or invalid, or an option is not supported.
    """
    from irrun.ir.reader import read_model

    unknown = [
        name for name, value in options.items() if name not in ("verbose", "share_weights") and value is not None
    ]
    if unknown:
        raise RuntimeError(f"irrun's convert_model does not support the options {', '.join(unknown)}")
    if isinstance(input_model, (list, tuple)) and len(input_model) == 1:
        input_model = input_model[0]
    is_path = isinstance(input_model, (str, os.PathLike)) and str(input_model).lower().endswith(".onnx")
    if not is_path and type(input_model).__name__ != "ModelProto":
        raise RuntimeError(
            "irrun converts ONNX models only. Install openvino, convert the model with openvino.convert_model and "
            "openvino.save_model, and read the .xml"
        )
    try:
        model = read_model(input_model if is_path else input_model.SerializeToString())
        if input is not None:
            model.reshape(_to_shapes(input))
    except IrrunError as error:
        raise RuntimeError(str(error)) from error
    return Model._from_ir(model)


def _to_shapes(shapes: Any) -> Any:
    """Return the argument of `reshape`: shapes by name, or by position in a list."""
    if isinstance(shapes, dict):
        return {name: list(shape) for name, shape in shapes.items()}
    if shapes and all(isinstance(d, int) for d in shapes):
        return list(shapes)
    return {i: list(shape) for i, shape in enumerate(shapes)}

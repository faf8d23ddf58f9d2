"""The converter of models, which programs import as `openvino.tools.ovc`: of ONNX, and of PyTorch through ONNX."""

from __future__ import annotations

import os
from typing import Any

from irrun.errors import IrrunError
from irrun.openvino.model import Model
from irrun.openvino.torch_modules import export_module, is_module

__all__ = ["convert_model"]


def convert_model(input_model: Any = None, *, input: Any = None, example_input: Any = None, **options: Any) -> Model:
    """Convert an ONNX model or a PyTorch module.

    Args:
        input_model: The path of an .onnx, an `onnx.ModelProto`, or a module, which PyTorch exports to ONNX.
        example_input: The inputs of a run of the module: a tensor, several, or tensors by the names of arguments.
        input: New shapes of the inputs, as a list, or as a mapping by the names of the inputs.
        options: `verbose` and `share_weights`, which have no effect.

    Raises:
        RuntimeError: The model is of another framework or invalid, or an option is not supported.
    """
    unknown = [
        name for name, value in options.items() if name not in ("verbose", "share_weights") and value is not None
    ]
    if unknown:
        raise RuntimeError(f"irrun's convert_model does not support the options {', '.join(unknown)}")
    if isinstance(input_model, (list, tuple)) and len(input_model) == 1:
        input_model = input_model[0]
    if is_module(input_model):
        return _read(export_module(input_model, example_input), input)
    if example_input is not None:
        raise RuntimeError("example_input is for PyTorch modules only")
    is_path = isinstance(input_model, (str, os.PathLike)) and str(input_model).lower().endswith(".onnx")
    if not is_path and type(input_model).__name__ != "ModelProto":
        raise RuntimeError(
            "irrun converts ONNX models and PyTorch modules only. Install openvino, convert the model with "
            "openvino.convert_model and openvino.save_model, and read the .xml"
        )
    return _read(input_model if is_path else input_model.SerializeToString(), input)


def _read(source: str | os.PathLike[str] | bytes, shapes: Any) -> Model:
    """Return an ONNX model with new shapes of its inputs."""
    from irrun.ir.reader import read_model

    try:
        model = read_model(source)
        if shapes is not None:
            model.reshape(_to_shapes(shapes))
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

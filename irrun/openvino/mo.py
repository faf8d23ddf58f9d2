"""The converter of models of releases up to 2024, which programs import as `openvino.tools.mo`."""

from __future__ import annotations

from typing import Any

from irrun.openvino import ovc
from irrun.openvino.model import Model

__all__ = ["convert_model"]


def convert_model(
    input_model: Any = None,
    *,
    input: Any = None,
    input_shape: Any = None,
    compress_to_fp16: bool = False,
    **options: Any,
) -> Model:
    """Convert an ONNX model or a PyTorch module.

    Args:
        input_model: What `openvino.convert_model` accepts.
        input: Names and shapes of the inputs, as `openvino.convert_model` accepts them.
        input_shape: The new shape of the only input, or a list of shapes, in place of `input`.
        compress_to_fp16: Whether constants of f32 are stored in f16.
        options: Other options of `openvino.convert_model`.

    Raises:
        RuntimeError: The model is of another framework or invalid, or an option is not supported.
    """
    if input is not None and input_shape is not None:
        raise RuntimeError("irrun's convert_model expects input or input_shape, found both")
    model = ovc.convert_model(input_model, input=input_shape if input is None else input, **options)
    if compress_to_fp16:
        from irrun.openvino.compression import compress_to_f16

        return compress_to_f16(model)
    return model

"""RMS, GLU and the elementwise operations of the CPU plugin."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.output_type import convert_to_output_type
from irrun.ops._support.registry import op
from irrun.ops.activation.elementwise import gelu_7, swish_4

__all__ = ["glu", "leaky_relu", "power_static", "rms", "swish_cpu"]


@op("RMS", opset="ie_internal_opset")
def rms(
    data: Array,
    gamma: Array | None = None,
    *,
    epsilon: float,
    output_type: str = "dynamic",
    elementwise_affine: bool = True,
) -> Array:
    """`data / sqrt(mean(data^2, last axis) + epsilon) * gamma`.

    data: float, [..., n]; gamma: broadcast to data, 1 where left out.
    Returns the shape of data, in output_type or the type of data.
    Defined by ov_ops/rms.hpp; the pattern it replaces is in rms_fusion.cpp.
    """
    x = upcast(data)
    scale = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + x.dtype.type(epsilon))
    result = x / scale
    if gamma is not None and elementwise_affine:
        result = result * upcast(gamma)
    return convert_to_output_type(result, output_type, data)


#: Numbers are those of the enumeration GLU::GluType.
GluType = Literal["swish", "gelu", "gelu_tanh", "0", "1", "2"]


@op("GLU", opset="ie_internal_opset")
@op("SwiGLU", opset="ie_internal_opset")
@op("SwiGLU", opset="gpu_opset")
def glu(
    data: Array,
    *,
    axis: int,
    split_lengths: int,
    glu_type: GluType = "swish",
    split_to_glu_idx: int = 0,
    output_type: str = "dynamic",
) -> Array:
    """Splits `data` in two along `axis`, and multiplies one part by the activation of the other.

    data: float; the first part has split_lengths elements along `axis`, the second the rest; the part
    split_to_glu_idx goes through Swish or Gelu.
    Returns the product, in output_type or the type of data.
    Raises InputError where the parts differ in length.
    Files hold neither glu_type nor split_to_glu_idx, which stay at their defaults.
    Defined by ov_ops/glu.hpp (before 2024.5 swiglu.hpp); the pattern it replaces is in glu_fusion.cpp.
    """
    axis = normalize_axis(axis, data.ndim)
    if 2 * split_lengths != data.shape[axis]:
        raise InputError(
            f"split_lengths is {split_lengths}, expected half of the {data.shape[axis]} elements along axis {axis}"
        )
    parts: list[Array] = np.split(upcast(data), [split_lengths], axis=axis)
    gate, value = parts[split_to_glu_idx], parts[1 - split_to_glu_idx]
    if glu_type in ("swish", "0"):
        gate = swish_4(gate)
    else:
        gate = gelu_7(gate, approximation_mode="ERF" if glu_type in ("gelu", "1") else "TANH")
    return convert_to_output_type(gate * value, output_type, data)


@op("SwishCPU", opset="cpu_plugin_opset")
def swish_cpu(data: Array, *, alpha: float = 1.0) -> Array:
    """`data * sigmoid(alpha * data)`.

    data: float, any shape.
    Returns the type and shape of data.
    Defined by the CPU plugin's swish_cpu.hpp, which stands for Swish-4 with a constant beta.
    """
    return swish_4(data, np.array(alpha, data.dtype))


@op("PowerStatic", opset="cpu_plugin_opset")
def power_static(
    data: Array, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0, out_type: str = "dynamic"
) -> Array:
    """`(data * scale + shift) ^ power`.

    data: any numeric type and shape.
    Returns the shape of data, in the type that the attribute out-type names or that of data.
    Defined by the CPU plugin's power_static.hpp, which stands for Add, Multiply, Power ... with a constant.
    """
    x = _in_float(data)
    result = x * x.dtype.type(scale) + x.dtype.type(shift)
    if power != 1:
        result = result ** x.dtype.type(power)
    return convert_to_output_type(result, out_type, data)


@op("LeakyRelu", opset="cpu_plugin_opset")
def leaky_relu(data: Array, *, negative_slope: float = 0.0, out_type: str = "dynamic") -> Array:
    """`data` where it is positive, `data * negative_slope` elsewhere.

    data: float, any shape.
    Returns the shape of data, in the type that the attribute out-type names or that of data.
    Defined by the CPU plugin's leaky_relu.hpp, which stands for PRelu-1 with one constant slope.
    """
    x = _in_float(data)
    return convert_to_output_type(np.where(x < 0, x * x.dtype.type(negative_slope), x), out_type, data)


def _in_float(data: Array) -> np.ndarray[Any, Any]:
    """`data` in f32, or in f64 where it is that."""
    return data if data.dtype == np.float64 else data.astype(np.float32)

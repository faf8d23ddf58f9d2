"""RMS, RMSNorm, GLU and elementwise operations of the CPU plugin."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.output_type import convert_to_output_type
from irrun.ops._support.registry import op
from irrun.ops.activation.elementwise import gelu_7, swish_4

__all__ = ["glu", "leaky_relu", "power_static", "rms", "rms_norm", "swish_cpu"]

#: The numbers follow the enumeration GLU::GluType.
GluType = Literal["swish", "gelu", "gelu_tanh", "0", "1", "2"]


@op("RMS", opset="ie_internal_opset", kind="rowwise", flops=4)
def rms(
    data: Array,
    gamma: Array | None = None,
    *,
    epsilon: float,
    output_type: str = "dynamic",
    elementwise_affine: bool = True,
) -> Array:
    """Compute `data / sqrt(mean(data^2, last axis) + epsilon) * gamma`.

    Args:
        data: Floating-point, shape [..., n].
        gamma: Floating-point, broadcast to `data`; 1 if omitted.
        epsilon: A small number that avoids a division by zero.
        output_type: Type of the result; "dynamic" for the type of `data`.
        elementwise_affine: Whether to multiply by `gamma`.

    Returns:
        The shape of `data`, the type `output_type`.

    Spec:
        Defined by ov_ops/rms.hpp; the pattern that it replaces is in rms_fusion.cpp
    """
    x = upcast(data)
    scale = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + x.dtype.type(epsilon))
    result = x / scale
    if gamma is not None and elementwise_affine:
        result = result * upcast(gamma)
    return convert_to_output_type(result, output_type, data)


@op("RMSNorm", opset="extension", kind="rowwise", flops=4)
def rms_norm(
    data: Array, axes: Array, scale: Array | None = None, *, epsilon: float, compute_type: str = "undefined"
) -> Array:
    """Compute `data / sqrt(mean(data^2, axes) + epsilon) * scale`.

    The reference implementation rounds every step to the type of `data`; here the result is rounded once.

    Args:
        data: Floating-point, any shape.
        axes: Integer scalar or [n]: the axes of the mean.
        scale: The type of `data`, broadcast to it; 1 if omitted.
        epsilon: A small number that avoids a division by zero.
        compute_type: The type that plugins compute in. Ignored.

    Returns:
        The shape and the type of `data`.

    Raises:
        InputError: An axis is out of range.

    Spec:
        Defined by openvino/reference/rms_norm.hpp
    """
    x = upcast(data)
    normalized = tuple(normalize_axis(int(axis), x.ndim) for axis in np.atleast_1d(axes))
    result = x / np.sqrt(np.square(x).mean(axis=normalized, keepdims=True) + x.dtype.type(epsilon))
    if scale is not None:
        result = result * upcast(scale)
    return np.asarray(result.astype(data.dtype))


@op("GLU", opset="ie_internal_opset", shape="infer_gated_unit", flops=3)
@op("SwiGLU", opset="ie_internal_opset", shape="infer_gated_unit", flops=3)
@op("SwiGLU", opset="gpu_opset", shape="infer_gated_unit", flops=3)
def glu(
    data: Array,
    *,
    axis: int,
    split_lengths: int,
    glu_type: GluType = "swish",
    split_to_glu_idx: int = 0,
    output_type: str = "dynamic",
) -> Array:
    """Split `data` into two parts, and multiply one part by the activation of the other.

    Args:
        data: Floating-point, any shape.
        axis: The axis to split.
        split_lengths: Length of the first part; the second part has the remaining elements.
        glu_type: The activation. OpenVINO does not write it to files, so they use the default.
        split_to_glu_idx: Index of the part to which the activation is applied. OpenVINO does not write it to files
            either.
        output_type: Type of the result; "dynamic" for the type of `data`.

    Returns:
        The shape of one part, the type `output_type`.

    Raises:
        InputError: The parts differ in length.

    Spec:
        Defined by ov_ops/glu.hpp (before 2024.5 swiglu.hpp); the pattern that it replaces is in glu_fusion.cpp
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


@op("SwishCPU", opset="cpu_plugin_opset", kind="elementwise", shape="keep_shape", flops=2)
def swish_cpu(data: Array, *, alpha: float = 1.0) -> Array:
    """Compute `data * sigmoid(alpha * data)`.

    Args:
        data: Floating-point, any shape.
        alpha: The factor.

    Returns:
        The shape and type of `data`.

    Spec:
        Defined by the CPU plugin's swish_cpu.hpp, which replaces Swish-4 with a constant beta
    """
    return swish_4(data, np.array(alpha, data.dtype))


@op("PowerStatic", opset="cpu_plugin_opset", scratch=4.25, kind="elementwise", shape="keep_shape", flops=3)
def power_static(
    data: Array, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0, out_type: str = "dynamic"
) -> Array:
    """Compute `(data * scale + shift) ^ power`.

    Args:
        data: Numeric, any shape.
        power: The exponent.
        scale: The factor.
        shift: The summand.
        out_type: Type of the result, from the attribute out-type; "dynamic" for the type of `data`.

    Returns:
        The shape of `data`, the type `out_type`.

    Spec:
        Defined by the CPU plugin's power_static.hpp, which replaces Add, Multiply, Power, ... with a constant
    """
    x = _convert_to_float(data)
    result = x * x.dtype.type(scale) + x.dtype.type(shift)
    if power != 1:
        result = result ** x.dtype.type(power)
    return convert_to_output_type(result, out_type, data)


@op("LeakyRelu", opset="cpu_plugin_opset", scratch=4.25, kind="elementwise", shape="keep_shape", flops=2)
def leaky_relu(data: Array, *, negative_slope: float = 0.0, out_type: str = "dynamic") -> Array:
    """Multiply negative elements by `negative_slope`.

    Args:
        data: Floating-point, any shape.
        negative_slope: The factor.
        out_type: Type of the result, from the attribute out-type; "dynamic" for the type of `data`.

    Returns:
        The shape of `data`, the type `out_type`.

    Spec:
        Defined by the CPU plugin's leaky_relu.hpp, which replaces PRelu-1 with one constant slope
    """
    x = _convert_to_float(data)
    return convert_to_output_type(np.where(x < 0, x * x.dtype.type(negative_slope), x), out_type, data)


def _convert_to_float(data: Array) -> Array:
    """Return `data` in f64 if it has that type, else in f32."""
    return data if data.dtype == np.float64 else data.astype(np.float32)

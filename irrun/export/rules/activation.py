"""Export of activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, get_graph, op
from irrun.export.rules.conversion import get_limits
from irrun.export.rules.helpers import reshape, scalar_like, where
from irrun.export.site import Site, exports, round_to


@exports("PRelu-1")
def export_prelu(site: Site) -> Value:
    """Export PRelu: the slope has one value per channel, or broadcasts."""
    data, slope = site[0], site[1]
    rank, shape = site.get_rank(0), site.get_shape(0)
    axis = 1 if rank > 1 else 0
    slopes = site.get_shape(1)
    is_own = slopes[:1] == [shape[axis]] if rank and shape[axis] else slopes[:1] not in ([1], shape[-1:])
    if rank and len(slopes) == 1 and is_own:
        slope = reshape(slope, [-1, *[1] * (rank - axis - 1)])
    elif len(slopes) > rank:
        slope = reshape(slope, [0 if d is None else d for d in slopes[len(slopes) - rank :]])
    if data.type.is_float or data.type.name in ("i32", "i64", "u32", "u64"):
        return op("PRelu", data, slope)
    zero = scalar_like(data, 0)
    return where(data < zero, data * slope, data)


@exports("Clamp-1")
def export_clamp(site: Site) -> Value:
    """Export Clamp."""
    data, low, high = site[0], float(site.min), float(site.max)
    if low > high:
        raise UnsupportedError(f"min {low} is greater than max {high}")
    if not data.type.is_float:
        low, high = _round_limits(data.type, low, high)
        low, high = int(low), int(high)
    else:
        wide = data.type.dtype if data.type.bits >= 16 else np.float32
        with np.errstate(all="ignore"):
            low, high = float(np.asarray(low, wide)), float(np.asarray(high, wide))
    return op("Clip", data, scalar_like(data, low), scalar_like(data, high))


def _round_limits(element_type: ElementType, low: float, high: float) -> tuple[int, int]:
    lowest, greatest = get_limits(element_type)
    return math.ceil(min(max(low, lowest), greatest)), math.floor(min(max(high, lowest), greatest))


def _in_floats(function: Callable[[Value], Value], data: Value, *, truncate: bool) -> Value:
    """Apply a function of floats, also to integers."""
    if data.type.is_float:
        return function(data)
    result = function(cast(data, "f64"))
    return cast(result, data.type) if truncate else round_to(result, data.type)


@exports("Elu-1", compute="f32")
def export_elu(site: Site) -> Value:
    """Export Elu, which onnxruntime supports for f32."""
    return _in_floats(lambda x: op("Elu", x, alpha=float(site.alpha)), site[0], truncate=True)


@exports("Selu-1", compute="f32")
def export_selu(site: Site) -> Value:
    """Export Selu."""
    alpha, scale = site.get(1), site.get(2)
    if alpha is None or scale is None:
        raise UnsupportedError("alpha or lambda is not connected")

    factors = [reshape(value, []) for value in (alpha, scale)]

    def selu(x: Value) -> Value:
        low = op("Min", x, scalar_like(x, 0.0))
        a, b = (cast(factor, x.type) for factor in factors)
        return b * (op("Relu", x) + a * (op("Exp", low) - 1.0))

    return _in_floats(selu, site[0], truncate=False)


@exports("Gelu-2", "Gelu-7", compute="f32")
def export_gelu(site: Site) -> Value:
    """Export Gelu, which ONNX has since opset 20."""
    data, is_tanh = site[0], site.attributes.get("approximation_mode", "ERF") == "TANH"
    if get_graph().opset >= 20 and data.type.name == "f32":
        return op("Gelu", data, approximate="tanh" if is_tanh else "none")
    if is_tanh:
        z = (data + data * data * data * 0.044715) * math.sqrt(2 / math.pi)
        return data * 0.5 * (op("Tanh", z) + 1.0)
    return data * 0.5 * (op("Erf", data * math.sqrt(0.5)) + 1.0)


@exports("Sigmoid-1")
def export_sigmoid(site: Site) -> Value:
    """Export Sigmoid. Its results for integers are 0 and 1."""
    data = site[0]
    if data.type.is_float:
        return op("Sigmoid", data)
    signed = cast(data, f"i{data.type.bits}") if data.type.kind == "uint" else data
    is_lowest = op("Equal", signed, get_limits(signed.type)[0])  # its negation is itself
    return cast((signed > 0) | is_lowest, data.type)


@exports("Swish-4", "SwishCPU-cpu_plugin_opset", compute="f32")
def export_swish(site: Site) -> Value:
    """Export Swish."""
    data, beta = site[0], site.get(1)
    factor = site.attributes.get("alpha", 1.0)
    if beta is not None:
        scaled = data * cast(reshape(beta, []), data.type)
    else:
        scaled = data if factor == 1.0 else data * factor
    return data * op("Sigmoid", scaled)


@exports("Mish-4", compute="f32")
def export_mish(site: Site) -> Value:
    """Export Mish."""
    return site[0] * op("Tanh", op("Softplus", site[0]))


@exports("HSigmoid-5", compute="f32")
def export_hsigmoid(site: Site) -> Value:
    """Export HSigmoid."""
    data = site[0]
    return op("Clip", data + 3.0, scalar_like(data, 0.0), scalar_like(data, 6.0)) / 6.0


@exports("HSwish-4", compute="f32")
def export_hswish(site: Site) -> Value:
    """Export HSwish."""
    data = site[0]
    return data * op("Clip", data + 3.0, scalar_like(data, 0.0), scalar_like(data, 6.0)) / 6.0


@exports("HardSigmoid-1", compute="f32")
def export_hard_sigmoid(site: Site) -> Value:
    """Export HardSigmoid. NaN becomes 1."""
    data = site[0]
    alpha, beta = (cast(reshape(site[i], []), data.type) for i in (1, 2))
    line = data * alpha + beta
    clipped = op("Clip", line, scalar_like(data, 0.0), scalar_like(data, 1.0))
    return where(op("IsNaN", line), 1.0, clipped)


@exports("ErfInv-17", compute="f32")
def export_erf_inv(site: Site) -> Value:
    """Export ErfInv: an approximation by polynomials for the center and the ends, computed in f64."""
    data = site[0]
    x = cast(data, "f64")
    inside = op("Clip", x, scalar_like(x, -1 + 1e-15), scalar_like(x, 1 - 1e-15))
    w = -op("Log", (1.0 - inside) * (1.0 + inside))
    center, tail = w - 2.5, op("Sqrt", w) - 3.0
    low = _evaluate(
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
         -0.00417768164, 0.246640727, 1.50140941], center)  # fmt: skip
    high = _evaluate(
        [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
         0.00943887047, 1.00167406, 2.83297682], tail)  # fmt: skip
    result = where(w < 5.0, low, high) * inside
    magnitude = op("Abs", x)
    result = where(op("Equal", magnitude, 1.0), x * math.inf, result)
    return cast(where(magnitude > 1.0, math.nan, result), data.type)


def _evaluate(coefficients: list[float], x: Value) -> Value:
    """Evaluate a polynomial; the coefficient of the highest power is the first."""
    result: Value = constant(coefficients[0], x.type)
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


@exports("LeakyRelu-cpu_plugin_opset", compute="f32")
def export_leaky_relu(site: Site) -> Value:
    """Export LeakyRelu."""
    return op("LeakyRelu", site[0], alpha=float(site.negative_slope))

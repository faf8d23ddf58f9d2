"""OpenVINO's devices and precisions, as requested and as used."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from irrun.inspection.rounding import get_epsilon

__all__ = ["Target", "count_precisions", "format_type", "get_precision", "get_precision_epsilon", "parse_target"]

#: OpenVINO's names for precisions.
PRECISIONS = {"f32": "f32", "bf16": "bf16", "f16": "f16", "fp32": "f32", "fp16": "f16"}


@dataclass(frozen=True)
class Target:
    """A device and a precision.

    Attributes:
        device: The device.
        precision: The requested precision; "" for the default of the device.
        keeps_quantizers: Whether FakeQuantize runs in floating point, without int8 kernels.
    """

    device: str = "CPU"
    precision: str = "f32"
    keeps_quantizers: bool = False


def parse_target(text: str) -> Target:
    """Return the device and precision of a text such as "openvino", "openvino:bf16" or "openvino:GPU:f16".

    The default precision is f32. "default" is the precision of the device, and "float" is f32
    without int8 kernels on the CPU.

    Args:
        text: The text.
    """
    parts = [part for part in text.split(":")[1:] if part]
    precision = "f32"
    if [part.lower() for part in parts] in (["float"], ["cpu", "float"]):
        return Target(keeps_quantizers=True)
    if parts and parts[-1].lower() in (*PRECISIONS, "default"):
        precision = PRECISIONS.get(parts.pop().lower(), "")
    return Target(":".join(parts) or "CPU", precision)


def get_precision_epsilon(precision: str) -> float:
    """Return the epsilon of a precision in which devices compute, even for f64 values; 0 for other precisions.

    Args:
        precision: "f32", "bf16", "f16", ...
    """
    types = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
    return get_epsilon(types[precision]) if precision in types else 0.0


def get_precision(compiled: Any) -> str:
    """Return the precision that a compiled model actually uses, or "unknown".

    Args:
        compiled: The compiled model of OpenVINO.
    """
    try:
        return format_type(compiled.get_property("INFERENCE_PRECISION_HINT"))
    except RuntimeError:
        return "unknown"


def count_precisions(compiled: Any) -> Counter[str]:
    """Return the number of kernels of a compiled model per compute type.

    Args:
        compiled: The compiled model of OpenVINO.
    """
    counts: Counter[str] = Counter()
    try:
        nodes = compiled.get_runtime_model().get_ordered_ops()
    except RuntimeError:
        return counts
    for node in nodes:
        info = node.get_rt_info()
        if "runtimePrecision" not in info or "layerType" not in info:
            continue
        if str(info["layerType"].astype(str)) in ("Input", "Output", "Const", "Reorder"):
            continue
        counts[str(info["runtimePrecision"].astype(str))] += 1
    return counts


def format_type(element_type: Any) -> str:
    """Return irrun's name of an OpenVINO type.

    Args:
        element_type: The type.
    """
    name = element_type.get_type_name() if hasattr(element_type, "get_type_name") else str(element_type)
    match = re.fullmatch(r"<Type: '(\w+)'>", name)
    return {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}.get(match[1] if match else name, name)

"""Range: evenly spaced numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array, is_float, is_low_precision
from irrun.ops._support.registry import op

__all__ = ["range_1", "range_4"]

#: OpenVINO counts the elements in 32 bits.
MAX_COUNT = 2**32 - 1


@op("Range", since=1, folding="linear")
def range_1(start: Array, stop: Array, step: Array) -> Array:
    """Numbers from `start` (included) to `stop` (excluded) in steps of `step`.

    start, stop, step: one element each, all of one numeric type.
    Returns [max(0, ceil((stop - start) / step))] of that type.
    Raises InputError where a value is not finite or the step is 0.
    Spec: Range-1.
    """
    return _range(start, stop, step, start.dtype)


@op("Range", since=4, folding="linear")
def range_4(start: Array, stop: Array, step: Array, *, output_type: ElementType) -> Array:
    """Numbers from `start` (included) to `stop` (excluded) in steps of `step`, in the type `output_type`.

    start, stop, step: one element each, of any numeric types; for an integer `output_type` their fractions
    are cut off first.
    Returns [max(0, ceil((stop - start) / step))] of type output_type.
    Raises InputError where a value is not finite or the step is 0.
    Spec: Range-4.
    """
    return _range(start, stop, step, output_type.dtype)


def _range(start: Array, stop: Array, step: Array, dtype: np.dtype[Any]) -> Array:
    whole = not is_float(dtype)
    first, last, stride = (
        _number(value, name, whole) for value, name in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    if stride == 0:
        raise InputError("step is 0" + (" after its fraction was cut off" if to_scalar(step, "step") else ""))
    count = max(0, math.ceil((last - first) / stride))
    if count > MAX_COUNT:
        raise InputError(f"a range from {first} to {last} by {stride} has {count} elements")
    check_allocation([count], np.dtype(np.uint64))  # what it is computed in
    if whole:
        wrapped = [np.array(value % 2**64, np.uint64) for value in (first, stride)]
        return (wrapped[0] + np.arange(count, dtype=np.uint64) * wrapped[1]).astype(dtype)
    wide = np.dtype(np.float32) if is_low_precision(dtype) else dtype
    index = np.arange(count).astype(wide)
    result: Array = start.reshape(()).astype(wide) + index * step.reshape(()).astype(wide)
    return result.astype(dtype, copy=False)


def _number(value: Array, name: str, whole: bool) -> Any:
    number = to_scalar(value if value.dtype.kind != "V" else value.astype(np.float64), name)
    if not math.isfinite(number):
        raise InputError(f"{name} is {number}, expected a finite number")
    return int(number) if whole else number

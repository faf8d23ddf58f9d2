"""Range: evenly spaced numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array, is_float, is_low_precision, to_native
from irrun.ops._support.registry import op

__all__ = ["range_1", "range_4"]

#: OpenVINO counts the elements in 32 bits.
MAX_COUNT = 2**32 - 1


@op(
    "Range",
    since=1,
    scratch=2,
    kind="generation",
    shape="infer_range",
    shaped_by=(0, 1, 2),
    checks_size=True,
    folding="linear",
    flops=1,
)
def range_1(start: Array, stop: Array, step: Array) -> Array:
    """Generate the numbers in [start, stop) at intervals of `step`.

    Args:
        start: Numeric scalar.
        stop: The type of `start`, scalar.
        step: The type of `start`, scalar.

    Returns:
        Shape [max(0, ceil((stop - start) / step))], the type of `start`.

    Raises:
        InputError: An input is not finite, `step` is 0, or the result is too large.

    Spec:
        Range-1
    """
    return _generate_range(start, stop, step, start.dtype)


@op(
    "Range",
    since=4,
    scratch=2,
    kind="generation",
    shape="infer_range",
    shaped_by=(0, 1, 2),
    checks_size=True,
    folding="linear",
    flops=1,
)
def range_4(start: Array, stop: Array, step: Array, *, output_type: ElementType) -> Array:
    """Generate the numbers in [start, stop) at intervals of `step`, in the type `output_type`.

    Args:
        start: Numeric scalar. For an integer `output_type`, the inputs are truncated first, as in the
            reference implementation. The CPU plugin rounds the results of the computation in floats instead.
        stop: Numeric scalar.
        step: Numeric scalar.
        output_type: Type of the result.

    Returns:
        Shape [max(0, ceil((stop - start) / step))], the type `output_type`. Empty if truncation makes `step` 0.

    Raises:
        InputError: An input is not finite, `step` is 0, or the result is too large.

    Spec:
        Range-4
    """
    return _generate_range(start, stop, step, output_type.dtype)


def _generate_range(start: Array, stop: Array, step: Array, dtype: np.dtype[Any]) -> Array:
    is_whole = not is_float(dtype)
    first, last, interval = (
        _read_number(value, name, is_whole) for value, name in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    if interval == 0:
        if to_scalar(step, "step"):
            return np.empty(0, dtype)  # a fraction that was truncated
        raise InputError("step is 0")
    count = max(0, math.ceil((last - first) / interval))
    if count > MAX_COUNT:
        raise InputError(f"a range from {first} to {last} by {interval} has {count} elements")
    check_allocation([count], np.dtype(np.uint64))  # the intermediate result
    if is_whole:
        wrapped_first, wrapped_interval = (np.array(value % 2**64, np.uint64) for value in (first, interval))
        return (wrapped_first + np.arange(count, dtype=np.uint64) * wrapped_interval).astype(dtype)
    wide = np.dtype(np.float32) if is_low_precision(dtype) else dtype
    index = np.arange(count).astype(wide)
    result: Array = start.reshape(()).astype(wide) + index * step.reshape(()).astype(wide)
    return result.astype(dtype, copy=False)


def _read_number(value: Array, name: str, is_whole: bool) -> Any:
    number = to_scalar(to_native(value), name)
    if not math.isfinite(number):
        raise InputError(f"{name} is {number}, expected a finite number")
    return int(number) if is_whole else number

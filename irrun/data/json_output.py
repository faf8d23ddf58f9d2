"""Values as JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.data.storable import to_storable
from irrun.element_types import ElementType

__all__ = ["FIRST_ELEMENTS", "MAX_OUTPUT_ELEMENTS", "describe_tensor"]

Array = np.ndarray[Any, Any]

#: Maximum number of elements of an intermediate value, and of an output, that JSON contains in full.
MAX_ELEMENTS = 1000
MAX_OUTPUT_ELEMENTS = 20_000_000
#: Number of elements that a summary shows.
FIRST_ELEMENTS = 6


def describe_tensor(name: str, value: Array, limit: int = MAX_ELEMENTS) -> dict[str, Any]:
    """Return the JSON object of a tensor.

    Args:
        name: The name of the tensor.
        value: The tensor.
        limit: Maximum number of elements of the key "values". Larger tensors have the key "omitted" instead, which
            says how to get the values.
    """
    array = to_storable(value)
    result: dict[str, Any] = {"name": name, "type": str(ElementType.of(value.dtype)), "shape": list(value.shape)}
    if array.dtype.kind in "iuf" and array.size:
        with np.errstate(all="ignore"):  # the mean of infinities is undefined
            statistics = {"min": array.min(), "max": array.max(), "mean": array.mean(dtype=np.float64)}
        result.update((key, _to_json(number.item())) for key, number in statistics.items())
    result["first"] = _to_json(array.reshape(-1)[:FIRST_ELEMENTS].tolist())
    if math.prod(max(n, 1) for n in array.shape) <= limit:  # [1000000,0] is empty, but long as nested lists
        result["values"] = _to_json(array.tolist())
    elif array.size:
        result["omitted"] = f"{array.size} values; --show NAME prints them, --output and --dump save them"
    return result


def _to_json(value: Any) -> Any:
    """Replace the floats that JSON does not have (NaN, infinities) by strings."""
    if isinstance(value, list):
        return [_to_json(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

"""Shape operations: ShapeOf, Reshape, Squeeze, Unsqueeze."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.elements import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops.common import Array, int_list, normalize_axes, normalize_axis
from irrun.ops.registry import op

__all__ = ["reshape_1", "shape_of_1", "shape_of_3", "squeeze_1", "squeeze_15", "unsqueeze_1"]


@op("ShapeOf", since=1)
def shape_of_1(data: Array) -> Array:
    """The shape of `data`.

    data: any type and shape.
    Returns i64 [rank of data].
    Spec: ShapeOf-1.
    """
    return np.array(data.shape, np.int64)


@op("ShapeOf", since=3)
def shape_of_3(data: Array, *, output_type: ElementType = ELEMENT_TYPES["i64"]) -> Array:
    """The shape of `data` in the type `output_type`.

    data: any type and shape.
    Returns i64 or i32 [rank of data].
    Spec: ShapeOf-3.
    """
    return np.array(data.shape, output_type.dtype)

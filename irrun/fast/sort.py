"""TopK of short rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, NATIVE_INTEGERS, Array, Memo, freeze, has_nan

__all__: list[str] = []

#: For longer rows, sorting is slower than the plain kernel's selection.
MAX_LENGTH = 512


@specializes("TopK-1", "TopK-3", "TopK-11")
def specialize_topk(site: CallSite) -> SpecializedKernel | None:
    """Sort short rows completely, or find their extrema."""
    k = site.get_constant(1)
    if k is None or k.size != 1 or k.dtype.kind not in "iu":
        return None
    count, axis, is_max = int(k.item()), int(site.attributes["axis"]), site.attributes["mode"] == "max"
    by_index, call_plain = site.attributes.get("sort") == "index", site.call_plain
    index_dtype = site.attributes.get("index_element_type", ELEMENT_TYPES["i32"]).dtype

    @Memo
    def offsets(shape: tuple[int, ...]) -> Array:
        """Return the position of the first element of each row."""
        return freeze(np.arange(0, math.prod(shape), shape[-1]).reshape(*shape[:-1], 1))

    def compute(x: Array) -> Any:
        if axis not in (-1, x.ndim - 1) or not x.ndim:
            return call_plain(x)
        length = x.shape[-1]
        is_float = x.dtype is F32
        if not (is_float or x.dtype in NATIVE_INTEGERS) or not 0 < count <= length:
            return call_plain(x)
        if not x.size or (count > 1 and length > MAX_LENGTH):
            return call_plain(x)
        if count == 1:
            if is_float and has_nan(x):
                return call_plain(x)
            indices = (x.argmax(-1) if is_max else x.argmin(-1)).reshape(*x.shape[:-1], 1)
        else:
            keys = (np.negative(x) if is_float else np.invert(x)) if is_max else x
            indices = keys.argsort(-1, "stable")[..., :count]
            if by_index:
                indices.sort(-1)
        return x.reshape(-1).take(indices + offsets[x.shape]), indices.astype(index_dtype)

    return compute

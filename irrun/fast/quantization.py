"""FakeQuantize of f32 with constant limits: in place, tile by tile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.fast.functions import create_fake_quantize, find_function
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, TILE, Array, apply_in_tiles
from irrun.threads import run_parallel

__all__: list[str] = []


@specializes("FakeQuantize-1")
def specialize_fake_quantize(site: CallSite) -> SpecializedKernel | None:
    """Compute in place with the limits of the whole array, or of each position of one axis."""
    limits = site.constants[1:]
    if site.attributes.get("auto_broadcast", "numpy") != "numpy":
        return None
    if len(limits) != 4 or any(value is None or value.dtype != F32 for value in limits):
        return None
    values = [value for value in limits if value is not None]
    rank = max(value.ndim for value in values)
    function = find_function(str(site.operation), site.attributes, site.constants)
    if function is None:
        return _specialize_per_channel(site, values, rank)
    call_plain = site.call_plain

    def compute(x: Array) -> Any:
        return apply_in_tiles(function, x) if x.dtype is F32 and x.ndim >= rank else call_plain(x)

    return compute


def _specialize_per_channel(site: CallSite, values: list[Array], rank: int) -> SpecializedKernel | None:
    """Apply the limits of each position of one axis to blocks of positions."""
    shape = np.broadcast_shapes(*(value.shape for value in values))
    axes = [axis - rank for axis, length in enumerate(shape) if length > 1]
    if len(axes) != 1 or 0 in shape:
        return None
    axis, count = axes[0], shape[axes[0]]
    columns = [np.array(np.broadcast_to(value.reshape(-1), count))[:, np.newaxis] for value in values]
    levels, call_plain = int(site.attributes["levels"]), site.call_plain
    if create_fake_quantize(*columns, levels=levels) is None:
        return None
    functions: dict[int, list[Any]] = {}

    def compute(x: Array) -> Any:
        if x.dtype is not F32 or x.ndim < rank or x.shape[axis] != count or not x.size:
            return call_plain(x)
        inner = math.prod(x.shape[x.ndim + axis + 1 :])
        rows = max(1, min(count, TILE // inner))
        blocks = functions.get(rows)
        if blocks is None:
            starts = range(0, count, rows)
            blocks = functions[rows] = [
                create_fake_quantize(*(c[i : i + rows] for c in columns), levels=levels) for i in starts
            ]
        source = np.ascontiguousarray(x).reshape(-1, count, inner)
        result = np.empty(source.shape, F32)

        def compute_block(number: int) -> None:
            outer, block = divmod(number, len(blocks))
            section = slice(block * rows, (block + 1) * rows)
            blocks[block](source[outer, section], result[outer, section])

        run_parallel(compute_block, len(source) * len(blocks))
        return result.reshape(x.shape)

    return compute

"""FakeQuantize of f32 with constant limits: in place, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.expressions.numpy import Arrays, compile_expression
from irrun.fast.expressions.table import find_call
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, TILE, Array, apply_in_tiles
from irrun.shapes import get_broadcast_shape
from irrun.threads import run_parallel

__all__: list[str] = []


@specializes("FakeQuantize-1")
def specialize_fake_quantize(site: CallSite) -> SpecializedKernel | None:
    """Compute in place with the limits of the whole array, or of each position of one axis."""
    rank = max((value.ndim for value in site.constants[1:] if value is not None), default=0)
    call = find_call(Arrays, str(site.operation), site.attributes, site.constants, rank)
    if call is None:
        return None
    quantize = compile_expression(call.name, len(call.operands), call.parameters, reuses_operands=False).compute
    values = [value for value in call.operands if not isinstance(value, int)]
    call_plain = site.call_plain
    if any(value.ndim for value in values):
        return _specialize_per_channel(site, quantize, values, rank)

    def quantize_tile(x: Array, out: Array) -> None:
        quantize(x, *values, out)

    def compute(x: Array) -> Any:
        return apply_in_tiles(quantize_tile, x) if x.dtype is F32 and x.ndim >= rank else call_plain(x)

    return compute


def _specialize_per_channel(
    site: CallSite, quantize: Callable[..., Any], values: list[Array], rank: int
) -> SpecializedKernel | None:
    """Apply the values of each position of one axis to blocks of positions."""
    shape = get_broadcast_shape(*(value.shape for value in values))
    axes = [axis - len(shape) for axis, length in enumerate(shape) if length > 1]
    if len(axes) != 1 or 0 in shape:
        return None
    axis, count, call_plain = axes[0], shape[axes[0]], site.call_plain
    columns = [np.array(np.broadcast_to(value.reshape(-1), count))[:, np.newaxis] for value in values]

    def compute(x: Array) -> Any:
        if x.dtype is not F32 or x.ndim < rank or x.shape[axis] != count or not x.size:
            return call_plain(x)
        inner = math.prod(x.shape[x.ndim + axis + 1 :])
        rows = max(1, min(count, TILE // inner))
        block_count = -(-count // rows)
        source = np.ascontiguousarray(x).reshape(-1, count, inner)
        result = np.empty(source.shape, F32)

        def compute_block(number: int) -> None:
            outer, block = divmod(number, block_count)
            section = slice(block * rows, (block + 1) * rows)
            quantize(source[outer, section], *(column[section] for column in columns), result[outer, section])

        run_parallel(compute_block, len(source) * block_count)
        return result.reshape(x.shape)

    return compute

"""GroupNormalization: each group is read while it is in the processor's cache."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row, make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.reductions import standardize_row
from irrun.fast.jit.tasks import Task, make_base, make_range_task

__all__ = ["GroupNormalizationKernel", "compile_group_normalization"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 15, 16


@cache_kernel
def compile_group_normalization() -> Kernel:
    """Return the kernel that normalizes the groups from `first` to `last` of all images."""
    pointers = ("data", "result", "scale", "bias")
    integers = ("first", "last", "groups", "channels", "plane")  # channels of a group, and elements of a channel
    parameters = [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers), ("epsilon", "float")]
    f = Function("normalize_groups", parameters, get_lanes())
    p = f.parameters
    length = p["channels"] * p["plane"]
    with f.loop(p["first"], p["last"]) as group:
        source, target = (f.offset(p[name], group * length) for name in ("data", "result"))

        def load(position: Value, mask: Value | None, source: Value = source) -> Value:
            return f.load(f.offset(source, position), f.vector, mask)

        mean, factor = standardize_row(f, length, load, is_scaled=True, is_inside=True)
        number = f.emit("i64", f"srem i64 {group}, {p['groups']}") * p["channels"]
        with f.loop(0, p["channels"]) as channel:
            start = channel * p["plane"]
            scale = f.splat(f.load(f.offset(p["scale"], number + channel)) * factor, f.vector)
            bias = f.splat(f.load(f.offset(p["bias"], number + channel)), f.vector)

            def complete(
                position: Value,
                mask: Value | None,
                start: Value = start,
                mean: Value = mean,
                scale: Value = scale,
                bias: Value = bias,
                load: Any = load,
                target: Value = target,
            ) -> None:
                value = f.multiply_add(load(start + position, mask) - mean, scale, bias)
                f.store(value, f.offset(target, start + position), mask)

            apply_to_row(f, p["plane"], complete)
    return compile_function(f)


class GroupNormalizationKernel(CompiledKernel):
    """The kernel of GroupNormalization with constant scales and biases.

    Args:
        rank: The rank of the data.
        groups: The attribute.
        epsilon: The attribute.
        scale: f32, shape [C].
        bias: f32, shape [C].
    """

    description = "compiled: normalization, one group at a time"

    def __init__(self, rank: int, groups: int, epsilon: float, scale: Array, bias: Array) -> None:
        self._rank, self._groups, self._epsilon = rank, groups, epsilon
        self._scale, self._bias = make_contiguous(scale), make_contiguous(bias)
        compile_group_normalization()

    def __call__(self, data: Array) -> Array:
        """Normalize."""
        channels = len(self._scale)
        if data.dtype != F32 or data.ndim != self._rank or data.shape[1] != channels or not data.size:
            raise NoKernelError("expected f32 of the declared rank and channels")
        data = make_contiguous(data)
        result = np.empty(data.shape, F32)
        sizes = self._groups, channels // self._groups, math.prod(data.shape[2:])
        task = _make_task(data.shape[0], sizes, self._epsilon)
        task.run(*map(get_address, (data, result, self._scale, self._bias)))
        return result


@functools.lru_cache(maxsize=256)
def _make_task(images: int, sizes: tuple[int, int, int], epsilon: float) -> Task:
    """Return the task for the addresses of the data, the result, the scales and the biases."""
    rows = images * sizes[0]
    count = max(1, min(MAX_PARTS, rows, images * math.prod(sizes) // MIN_PART_SIZE))
    addresses = [make_base(i) for i in range(4)]
    return make_range_task(compile_group_normalization(), addresses, rows, count, (*sizes, epsilon))

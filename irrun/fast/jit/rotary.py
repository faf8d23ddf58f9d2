"""Rotary position embeddings: both halves of each row are rotated in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import RESULT, Binding, Layout, get_layout, keep_binding
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row, make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import make_base, make_range_task

__all__ = ["RotaryKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 14, 16
#: Axes of the data, without which leading axes of size 1 are added.
RANK = 4


@cache_kernel
def compile_rotary() -> Kernel:
    """Return the kernel that computes x * cosine + [-second, first] * sine for rows x = [first, second]."""
    pointers = ("data", "cosine", "sine", "result")
    sizes = ("first", "last", "half", "middle", "inner")
    strides = [f"{name}_{axis}" for name in pointers[:3] for axis in ("outer", "middle", "inner")]
    f = Function("rotate_halves", [*((n, "ptr") for n in pointers), *((n, "i64") for n in (*sizes, *strides))],
                 get_lanes())  # fmt: skip
    p = f.parameters
    half = p["half"]

    with f.loop(p["first"], p["last"]) as row:
        rest = f.emit("i64", f"udiv i64 {row}, {p['inner']}")
        outer = f.emit("i64", f"udiv i64 {rest}, {p['middle']}")
        numbers = {"outer": outer, "middle": rest - outer * p["middle"], "inner": row - rest * p["inner"]}

        def find(name: str, numbers: dict[str, Value] = numbers) -> Value:
            outer, middle, inner = (numbers[axis] * p[f"{name}_{axis}"] for axis in numbers)
            return f.offset(p[name], outer + middle + inner)

        places = {name: find(name) for name in pointers[:3]}
        target = f.offset(p["result"], row * half * 2)

        def rotate(
            position: Value, mask: Value | None, places: dict[str, Value] = places, target: Value = target
        ) -> None:
            (first, second), (cosine, cosine_2), (sine, sine_2) = (
                [f.load(f.offset(place, start), f.vector, mask) for start in (position, half + position)]
                for place in places.values()
            )
            f.store(f.multiply_add(-second, sine, first * cosine), f.offset(target, position), mask)
            f.store(f.multiply_add(first, sine_2, second * cosine_2), f.offset(target, half + position), mask)

        apply_to_row(f, half, rotate)
    return compile_function(f)


class RotaryKernel(CompiledKernel):
    """The kernel of rotary position embeddings.

    Args:
        rank: The declared rank of the data, 2 to 4.
    """

    description = "compiled: rotary position embedding, one pass over the data"
    reads_layouts = True

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._bindings: dict[tuple[tuple[int, ...], ...], Binding] = {}

    def __call__(self, data: Array, cosine: Array, sine: Array) -> Array:
        """Rotate rows.

        Args:
            data: f32, shape [..., 2 * H].
            cosine: f32, broadcasts to the shape of `data`, whose last dimension it has.
            sine: Like `cosine`.
        """
        if not data.dtype == cosine.dtype == sine.dtype == F32:
            raise NoKernelError("expected f32")
        inputs = [x if _has_rows(x) else make_contiguous(x) for x in (data, cosine, sine)]
        data, cosine, sine = inputs
        key = data.shape, data.strides, cosine.shape, cosine.strides, sine.shape, sine.strides
        binding = self._bindings.get(key)
        if binding is None:
            binding = keep_binding(self._bindings, key, self.bind([get_layout(x) for x in inputs]))
        return binding.run(inputs)

    def prepare(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Compile the kernel, which does not depend on shapes."""
        compile_rotary()

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the rotation for layouts with contiguous rows.

        Raises:
            NoKernelError: An operand does not broadcast to the data, or rows are odd, empty or not contiguous.
        """
        shape = layouts[0].shape
        if len(shape) != self._rank or not math.prod(shape) or shape[-1] % 2:
            raise NoKernelError("expected data of the declared rank with even rows")
        strides = [stride for layout in layouts for stride in _broadcast_strides(layout, shape)]
        _, middle, inner, length = (1,) * (RANK - self._rank) + shape
        rows = math.prod(shape) // length
        parts = max(1, min(MAX_PARTS, rows, rows * length // MIN_PART_SIZE))
        more = (length // 2, middle, inner, *strides)
        task = make_range_task(compile_rotary(), [make_base(i) for i in range(RANK)], rows, parts, more)
        return Binding(shape, [task], (0, 1, 2, RESULT))


def _has_rows(operand: Array) -> bool:
    """Return whether an operand is aligned, and the elements along its last axis follow each other."""
    return operand.strides[-1:] == (F32.itemsize,) and operand.flags.aligned


def _broadcast_strides(layout: Layout, shape: tuple[int, ...]) -> list[int]:
    """Return the strides in elements of the three axes before the last, 0 where the operand is repeated.

    Raises:
        NoKernelError: The operand does not broadcast to the shape, or its rows are not contiguous.
    """
    missing = len(shape) - len(layout.shape)
    if missing < 0 or layout.shape[-1:] != shape[-1:] or layout.strides[-1] != F32.itemsize:
        raise NoKernelError("expected operands with contiguous rows as long as those of the data")
    strides = [0] * missing
    for size, stride, expected in zip(layout.shape, layout.strides, shape[missing:], strict=True):
        if size not in (1, expected) or stride % F32.itemsize:
            raise NoKernelError("an operand does not broadcast to the data")
        strides.append(stride // F32.itemsize if size > 1 else 0)
    return [0] * (RANK - len(shape)) + strides[:-1]

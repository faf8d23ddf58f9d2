"""DetectionOutput: the suppression of overlapping boxes is compiled, all else are calls of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.deadlines import within_time
from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import Shape
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.protocol import CompiledKernel
from irrun.ops.detection.detection_output import DetectionSettings, compute_detections

__all__ = ["DetectionKernel", "suppress_overlapping"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Maximum number of pairs of boxes that are compared between checks of the time limit.
MAX_PAIRS = 1 << 24


@cache_kernel
def compile_suppression() -> Kernel:
    """Return the kernel in which each box that is not suppressed suppresses later boxes that overlap it.

    `planes` contains one row for each corner coordinate and one for the areas. `marks` has an i32 for each box.
    """
    pointers = [("planes", "ptr"), ("marks", "ptr")]
    integers = [(name, "i64") for name in ("count", "first", "last")]
    f = Function("suppress", [*pointers, *integers, ("limit", "float")], get_lanes())
    p = f.parameters
    count = p["count"]
    planes = [f.offset(p["planes"], count * i) for i in range(5)]
    limit = f.splat(p["limit"], f.vector)

    def compare(box: Value) -> None:
        selected = [f.splat(f.load(f.offset(plane, box)), f.vector) for plane in planes]
        start = box + 1

        def mark(position: Value, mask: Value | None) -> None:
            place = start + position
            others = [f.load(f.offset(plane, place), f.vector, mask) for plane in planes]
            overlap = _compute_overlap(f, selected, others)
            marks = f.offset(p["marks"], place)
            known = f.load(marks, f.integers(), mask)
            f.store(f.select(f.compare("ogt", overlap, limit), known | 1, known), marks, mask)

        apply_to_row(f, count - start, mark)

    with f.loop(p["first"], p["last"]) as box, f.when(f.compare("eq", f.load(f.offset(p["marks"], box), "i32"), 0)):
        compare(box)
    return compile_function(f)


def _compute_overlap(f: Function, a: Sequence[Value], b: Sequence[Value]) -> Value:
    """Return the intersection over union of boxes, with the roundings of the definition; 0 for NaN."""
    sides = []
    for low, high in ((0, 2), (1, 3)):
        side = f.call_math("minimum", a[high], b[high]) - f.call_math("maximum", a[low], b[low])
        sides.append(f.call_math("maximum", side, 0.0))
    intersection = sides[0] * sides[1]
    union = a[4] + b[4] - intersection
    return f.select(f.compare("ogt", intersection, 0.0), intersection / union, 0.0)


def suppress_overlapping(boxes: Array, areas: Array, threshold: np.floating[Any]) -> Array:
    """Select boxes that do not overlap a selected box by more than a threshold.

    Args:
        boxes: f32, shape [n, 4], in descending order of score.
        areas: Areas of the boxes, f32, [n].
        threshold: Intersection over union above which a box is suppressed.

    Returns:
        The positions of the selected boxes, i64.
    """
    count = len(boxes)
    planes = np.empty((5, count), F32)
    planes[:4], planes[4] = boxes.T, areas
    marks = np.zeros(count, np.int32)
    step = max(1, MAX_PAIRS // max(1, count))
    suppress = compile_suppression()
    for first in within_time(range(0, count, step)):
        last = min(first + step, count)
        suppress(get_address(planes), get_address(marks), count, first, last, float(threshold))
    return np.flatnonzero(marks == 0)


class DetectionKernel(CompiledKernel):
    """The kernel of DetectionOutput in f32.

    Args:
        settings: The attributes.
        constants: The value of each input if it is constant, or None.
        is_absent: Whether each input is an optional one that is not connected.
    """

    description = "compiled: suppression of overlapping boxes"

    def __init__(
        self, settings: DetectionSettings, constants: Sequence[Array | None], is_absent: Sequence[bool]
    ) -> None:
        self._settings, self._constants, self._is_absent = settings, constants, is_absent

    def __call__(self, *variables: Array) -> Array:
        """Compute the detections.

        Raises:
            NoKernelError: An input is not f32.
        """
        remaining = iter(variables)
        inputs = [
            constant if constant is not None or absent else next(remaining)
            for constant, absent in zip(self._constants, self._is_absent, strict=True)
        ]
        if any(x is not None and x.dtype != F32 for x in inputs):
            raise NoKernelError("expected f32")
        inputs += [None] * (5 - len(inputs))
        return compute_detections(inputs, self._settings, suppress_overlapping)

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the suppression."""
        compile_suppression()

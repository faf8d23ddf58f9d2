"""Numbers of arithmetic operations, which `@op(..., flops=...)` declares for each kernel.

A multiply-add counts as two operations. Each addition, multiplication, comparison and division counts as one, and so
does each value of an elementary function (exp, tanh, erf, sqrt, a power). Terms that do not grow with the number of
elements, such as one square root per row, are neglected. Pure data movement counts as 0.

A declaration is a number of operations per element of the first output, a function of a call, or None if no such number
exists, because the work depends on the values (sorting, suppression of boxes) or is not arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.shapes import get_broadcast_shape

__all__ = [
    "Call",
    "Flops",
    "count_attention",
    "count_convolution",
    "count_einsum",
    "count_fourier_transform",
    "count_inputs",
    "count_interpolation",
    "count_matmul",
    "count_recurrent",
    "count_taps",
    "count_transposed_convolution",
]

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    """One call of a kernel, which determines the number of operations and the range of indices.

    Attributes:
        inputs: The inputs; None where not connected. Counters use shapes, and the values of axes and sizes.
        outputs: The outputs.
        attributes: The attributes, with their default values.
    """

    inputs: Sequence[Array | None]
    outputs: Sequence[Array]
    attributes: Mapping[str, Any]

    def get_shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of an input that is connected."""
        value = self.inputs[position]
        assert value is not None
        shape: tuple[int, ...] = value.shape
        return shape

    def has_input(self, position: int) -> bool:
        """Return whether an input is connected."""
        return position < len(self.inputs) and self.inputs[position] is not None


Counter = Callable[[Call], int | None]
#: Operations per element of the first output, a function of the call, or None if the number is unknown.
Flops = int | Counter | None


def count_inputs(operations: int) -> Counter:
    """Return a counter of a number of operations for each element of the first input, as for reductions.

    Args:
        operations: The number of operations per element.
    """

    def count(call: Call) -> int:
        return operations * math.prod(call.get_shape(0))

    return count


def count_matmul(call: Call) -> int:
    """Count a matrix product: two operations for each element of the result and of the summed axis."""
    shape = call.get_shape(0)
    axis = -2 if call.attributes.get("transpose_a") and len(shape) > 1 else -1
    return 2 * int(call.outputs[0].size) * shape[axis]


def count_convolution(leading: int = 1) -> Counter:
    """Return a counter for convolutions: two operations for each element of the output and of one filter.

    Args:
        leading: The number of axes of the filters before the input channels.
    """

    def count(call: Call) -> int:
        return 2 * call.outputs[0].size * math.prod(call.get_shape(1)[leading:])

    return count


def count_transposed_convolution(leading: int = 1) -> Counter:
    """Return a counter for transposed convolutions: two operations for each element of the input and of one filter.

    Args:
        leading: The number of axes of the filters before the output channels.
    """

    def count(call: Call) -> int:
        return 2 * math.prod(call.get_shape(0)) * math.prod(call.get_shape(1)[leading:])

    return count


def count_taps(call: Call) -> int:
    """Count windows: one operation for each element of the output and of the window."""
    return int(call.outputs[0].size * math.prod(call.attributes["kernel"]))


def count_recurrent(pointwise: int, weights: int) -> Counter:
    """Return a counter for recurrent cells and sequences.

    Args:
        pointwise: The number of other operations for each element of the hidden state: biases, activations, products.
        weights: The position of the weights of the input, of shape [..., gates * hidden, input].
    """

    def count(call: Call) -> int:
        hidden, (rows, size) = int(call.attributes["hidden_size"]), call.get_shape(weights)[-2:]
        shape = call.get_shape(0)
        directions = 2 if call.attributes.get("direction") == "bidirectional" else 1
        steps = math.prod(shape[:-1]) * directions
        extra = int(pointwise + bool(call.attributes.get("linear_before_reset")))
        return steps * (2 * rows * (size + hidden) + hidden * extra)

    return count


def count_attention(call: Call) -> int:
    """Count attention: two products, and scaling, mask and softmax of the scores."""
    rows, keys = math.prod(call.outputs[0].shape[:-1]), call.get_shape(1)[-2]
    width = call.get_shape(0)[-1] + call.outputs[0].shape[-1]
    return int(rows * keys * (2 * width + 6 + call.has_input(3)))


def count_einsum(call: Call) -> int:
    """Count the products of Einsum from left to right, each with the sum over labels that occur nowhere else."""
    left, _, output = "".join(call.attributes["equation"].split()).partition("->")
    terms = left.split(",")
    if not output and "->" not in call.attributes["equation"]:
        output = "".join(c for c in left if c.isalpha() and left.count(c) == 1) + "."
    sizes: dict[str, int] = {}
    broadcast: list[tuple[int, ...]] = []
    for position, term in enumerate(terms):
        before, ellipsis, after = term.partition("...")
        shape = call.get_shape(position)
        end = len(shape) - len(after)
        for label, n in (*zip(before, shape, strict=False), *zip(after, shape[end:], strict=True)):
            sizes[label] = max(n, sizes.get(label, 1))
        if ellipsis:
            broadcast.append(shape[len(before) : end])
    sizes["."] = math.prod(get_broadcast_shape(*broadcast))
    current, total = set(terms[0]), 0
    for position, term in enumerate(terms[1:], 1):
        labels = current | set(term)
        current = labels & set(output).union(*terms[position + 1 :])
        total += math.prod(sizes[label] for label in labels) * (1 + (labels != current))
    if len(terms) == 1 and not current <= set(output):
        total = math.prod(sizes[label] for label in current)
    return total


def count_fourier_transform(is_real: bool = False, is_inverse: bool = False) -> Counter:
    """Return a counter for Fourier transforms: 5 N log2 N operations, half of that if one side is real.

    Args:
        is_real: Whether the input, or the output of an inverse transform, is real.
        is_inverse: Whether it is an inverse transform.
    """

    def count(call: Call) -> int:
        axes, sizes = call.inputs[1], call.inputs[2] if call.has_input(2) else None
        assert axes is not None
        # The side without an axis of real and imaginary parts, with all elements of the signal.
        if is_real:
            shape = call.outputs[0].shape if is_inverse else call.get_shape(0)
        else:
            shape = call.outputs[0].shape[:-1]
        lengths = list(shape)
        positions = [int(axis) % max(len(shape), 1) for axis in axes.reshape(-1)]
        if sizes is not None:
            for axis, n in zip(positions, sizes.reshape(-1).tolist(), strict=False):
                lengths[axis] = n if n >= 0 else lengths[axis]
        points = math.prod(lengths[axis] for axis in positions)
        return _count_transforms(math.prod(lengths), points, is_real)

    return count


def count_frames(frame_size: int, frames: int) -> int:
    """Count real Fourier transforms of frames that are multiplied by a window.

    Args:
        frame_size: The length of a frame.
        frames: The number of frames.
    """
    return _count_transforms(frame_size * frames, frame_size, True) + frame_size * frames


def count_interpolation(call: Call) -> int:
    """Count interpolation: two operations for each tap of each element; sizes that do not change count as 0."""
    mode, source = str(call.attributes["mode"]), call.get_shape(0)
    target: tuple[int, ...] = call.outputs[0].shape
    resized = [(n, m) for n, m in zip(source, target, strict=True) if n != m]
    if mode == "nearest" or not resized:
        return 0
    if not mode.endswith("_pillow"):
        return int(2 * math.prod(target) * (4 if mode == "cubic" else 2) ** len(resized))
    # One axis after the other, the last one first, with as many taps as the support of the filter covers.
    support = 1 if mode == "bilinear_pillow" else 2
    shape, total = list(source), 0
    for axis in reversed(range(len(source))):
        if source[axis] != target[axis]:
            shape[axis] = target[axis]
            total += 2 * math.prod(shape) * math.ceil(2 * support * max(source[axis] / max(target[axis], 1), 1))
    return total


def _count_transforms(elements: int, points: int, is_real: bool) -> int:
    """Count Fourier transforms of a number of points each, of a number of elements in total."""
    return round((2.5 if is_real else 5) * elements * math.log2(points)) if points > 1 else 0

"""Softmax and normalization along the last axis: each row is read while it is in the processor's cache."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.tasks import Task, make_base, make_range_task
from irrun.fast.jit.vectors import MIN_EXPONENT, Vectors

__all__ = [
    "add",
    "compile_normalization",
    "compile_softmax",
    "compute_softmax",
    "fold",
    "make_normalization_task",
    "make_row_task",
    "make_softmax_task",
    "reduce_row",
    "sum_row",
    "take_larger",
]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 15, 16
#: Number of independent sums, since each addition waits for the previous one.
SUMS = 4


def reduce_row(
    f: Function,
    length: Value,
    identity: float,
    compute: Callable[[Value, Value | None], Value],
    combine: Callable[[Value, Value], Value],
    reduce: Callable[[Value], Value],
) -> Value:
    """Append the reduction of a row to a scalar.

    Args:
        f: The function.
        length: The number of elements.
        identity: The initial value, which does not change the result.
        compute: Returns the vector at a position; elements outside the mask are ignored.
        combine: Combines two vectors.
        reduce: Reduces a vector to a scalar.
    """
    sums: list[Variable] = [f.variable(f.vector, identity) for _ in range(SUMS)]
    for total in sums:
        total.set(identity)
    block = SUMS * f.lanes
    whole = length & -block
    with f.loop(0, whole, block) as start:
        for i, total in enumerate(sums):
            total.set(combine(total.get(), compute(start + i * f.lanes, None)))
    rest = length & -f.lanes
    with f.loop(whole, rest, f.lanes) as start:
        sums[0].set(combine(sums[0].get(), compute(start, None)))
    with f.when(f.compare("slt", rest, length)):
        mask = f.mask_range(0, length - rest)
        value = f.select(mask, compute(rest, mask), identity)
        sums[1].set(combine(sums[1].get(), value))
    left, right = combine(sums[0].get(), sums[1].get()), combine(sums[2].get(), sums[3].get())
    return reduce(combine(left, right))


def add(a: Value, b: Value) -> Value:
    """Return the sum."""
    return a + b


def fold(f: Function, vector: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Append the reduction of a vector by halves, and return a scalar."""
    lanes = f.lanes
    width = lanes // 2
    while width:
        order = ", ".join(f"i32 {(i + width) % lanes}" for i in range(lanes))
        text = f"shufflevector {vector.type} {vector}, {vector.type} poison, <{lanes} x i32> <{order}>"
        vector = combine(vector, f.emit(vector.type, text))
        width //= 2
    return f.emit("float", f"extractelement {vector.type} {vector}, i32 0")


def take_larger(f: Function, a: Value, b: Value) -> Value:
    """Append the choice of the larger of two values."""
    return f.select(f.compare("ogt", a, b), a, b)


def sum_row(f: Function, length: Value, compute: Callable[[Value, Value | None], Value]) -> Value:
    """Append the sum of a row; `compute` returns the vector at a position."""
    return reduce_row(f, length, 0.0, compute, add, lambda x: fold(f, x, add))


@cache_kernel
def compile_softmax(keeps_subnormal: bool = True) -> Kernel:
    """Return the kernel that computes the softmax of rows, possibly in place.

    Args:
        keeps_subnormal: Whether exponentials below the smallest normal number are kept instead of set to 0. Products
            with them take a hundred times as long.
    """
    integers = ("first", "last", "length")
    name = "softmax" if keeps_subnormal else "attention_softmax"
    f = Function(name, [("data", "ptr"), ("result", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    length = p["length"]

    def choose(a: Value, b: Value) -> Value:
        return take_larger(f, a, b)

    with f.loop(p["first"], p["last"]) as row:
        source, target = f.offset(p["data"], row * length), f.offset(p["result"], row * length)

        def load(position: Value, mask: Value | None, source: Value = source) -> Value:
            return f.load(f.offset(source, position), f.vector, mask)

        largest = reduce_row(f, length, -np.inf, load, choose, lambda x: fold(f, x, choose))

        def exponentiate(
            position: Value, mask: Value | None, target: Value = target, largest: Value = largest
        ) -> Value:
            exponent = load(position, mask) - largest
            if keeps_subnormal:
                value = Vectors(f).exp(exponent)
            else:
                value = Vectors(f).exp_normal(exponent)
                value = f.select(f.compare("olt", exponent, MIN_EXPONENT), f.coerce(0.0, f.vector), value)
            f.store(value, f.offset(target, position), mask)
            return value

        factor = 1.0 / sum_row(f, length, exponentiate)

        def scale(position: Value, mask: Value | None, target: Value = target, factor: Value = factor) -> None:
            pointer = f.offset(target, position)
            f.store(f.load(pointer, f.vector, mask) * factor, pointer, mask)

        apply_to_row(f, length, scale)
    return compile_function(f)


@functools.lru_cache(maxsize=256)
def make_row_task(kernel: Kernel, pointers: int, rows: int, *arguments: int | float) -> Task:
    """Return the task of a kernel on rows. Its first parameters are the addresses of arrays."""
    parts = max(1, min(MAX_PARTS, rows, rows * int(arguments[0]) // MIN_PART_SIZE))
    return make_range_task(kernel, [make_base(i) for i in range(pointers)], rows, parts, arguments)


def make_softmax_task(rows: int, length: int) -> Task:
    """Return the task that computes the softmax of rows, for the addresses of the data and of the result."""
    return make_row_task(compile_softmax(), 2, rows, length)


def compute_softmax(data: Array) -> Array:
    """Compute the softmax along the last axis of contiguous f32."""
    result = np.empty(data.shape, F32)
    length = data.shape[-1]
    if data.size:
        make_softmax_task(data.size // length, length).run(get_address(data), get_address(result))
    return result


def standardize_row(
    f: Function,
    length: Value,
    load: Callable[[Value, Value | None], Value],
    is_scaled: bool,
    is_inside: bool,
    is_centered: bool = True,
) -> tuple[Value, Value]:
    """Append the mean of a row, and the factor for its deviations.

    Args:
        f: A function with the parameter `epsilon`.
        length: The number of elements.
        load: Returns the vector at a position.
        is_scaled: Whether to divide by the deviation.
        is_inside: Whether `epsilon` is added to the variance instead of the deviation.
        is_centered: Whether deviations are from the mean of the row instead of from 0.
    """
    epsilon, count = f.parameters["epsilon"], f.convert("sitofp", length, "float")
    mean = sum_row(f, length, load) / count if is_centered else f.coerce(0.0, "float")
    if not is_scaled:
        return mean, f.coerce(1.0, "float")

    def square(position: Value, mask: Value | None) -> Value:
        difference = load(position, mask) - mean if is_centered else load(position, mask)
        return difference * difference

    variance = sum_row(f, length, square) / count
    if is_inside:
        return mean, 1.0 / f.call_math("sqrt", variance + epsilon)
    return mean, 1.0 / (f.call_math("sqrt", variance) + epsilon)


@cache_kernel
def compile_normalization(expression: Expression, is_scaled: bool, is_inside: bool, is_centered: bool) -> Kernel:
    """Return the kernel that subtracts the mean of rows, divides by the deviation and computes an expression.

    Without the subtraction, rows are divided by their root mean square.

    "row" operands have the length of a row, "full" operands the shape of the data, and "scalar" operands one element.
    """
    pointers = [("data", "ptr"), ("result", "ptr"), ("operands", "ptr")]
    more = [("first", "i64"), ("last", "i64"), ("length", "i64"), ("epsilon", "float")]
    f = Function("normalize", [*pointers, *more], get_lanes())
    p = f.parameters
    length = p["length"]
    kinds = expression.kinds
    bases = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(kinds))]
    scalars = [
        f.splat(f.load(base), f.vector) if kind == "scalar" else None for base, kind in zip(bases, kinds, strict=True)
    ]
    with f.loop(p["first"], p["last"]) as row:
        start = row * length
        source, target = f.offset(p["data"], start), f.offset(p["result"], start)

        def load(position: Value, mask: Value | None, source: Value = source) -> Value:
            return f.load(f.offset(source, position), f.vector, mask)

        mean, factor = standardize_row(f, length, load, is_scaled, is_inside, is_centered)

        def complete(
            position: Value,
            mask: Value | None,
            target: Value = target,
            start: Value = start,
            mean: Value = mean,
            factor: Value = factor,
        ) -> None:
            value = (load(position, mask) - mean if is_centered else load(position, mask)) * factor
            places = {"row": position, "full": start + position}
            operands = [
                f.load(f.offset(base, places[kind]), f.vector, mask) if scalar is None else scalar
                for base, kind, scalar in zip(bases, kinds, scalars, strict=True)
            ]
            f.store(evaluate(f, expression, value, operands), f.offset(target, position), mask)

        apply_to_row(f, length, complete)
    return compile_function(f)


def make_normalization_task(
    rows: int, length: int, epsilon: float, expression: Expression, modes: tuple[bool, bool, bool]
) -> Task:
    """Return the task that normalizes rows of contiguous f32.

    Args:
        rows: The number of rows.
        length: Elements of a row.
        epsilon: Added to the variance or the deviation.
        expression: The expression of the result.
        modes: Whether to divide by the deviation, whether `epsilon` is added to the variance, and whether to subtract
            the mean.

    Returns:
        The task for the addresses of the data, of the result, and of a table of operand addresses.
    """
    return make_row_task(compile_normalization(expression, *modes), 3, rows, length, epsilon)

"""Kernels on rows for bodies of loops: Gather, TopK, LogSoftmax and small matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.reductions import fold, reduce_row, sum_row, take_larger
from irrun.fast.jit.vectors import Vectors

__all__ = [
    "compile_gather",
    "compile_log_softmax",
    "compile_reduction",
    "compile_scatter",
    "compile_small_product",
    "compile_top_k",
]

Array = np.ndarray[Any, Any]


@cache_kernel
def compile_gather(unit: str, index_type: str) -> Kernel:
    """Return the kernel that copies slices by their indices; slices at indices out of range are zeros.

    Args:
        unit: The type of the units that slices consist of: "float" for any 32 bits, or "i8".
        index_type: "i32" or "i64".
    """
    integers = ("batches", "middle", "size", "count", "inner")
    f = Function("gather", [*((n, "ptr") for n in ("data", "indices", "result")), *((n, "i64") for n in integers)],
                 get_lanes())  # fmt: skip
    p = f.parameters
    inner = p["inner"]
    with f.loop(0, p["batches"]) as batch, f.loop(0, p["middle"]) as middle:
        outer = batch * p["middle"] + middle
        with f.loop(0, p["count"]) as number:
            index = f.load(f.offset(p["indices"], batch * p["count"] + number, index_type), index_type)
            if index_type != "i64":
                index = f.convert("sext", index, "i64")
            index = f.select(f.compare("slt", index, 0), index + p["size"], index)
            is_inside = f.compare("sge", index, 0) & f.compare("slt", index, p["size"])
            source = f.offset(p["data"], (outer * p["size"] + index) * inner, unit)
            target = f.offset(p["result"], (outer * p["count"] + number) * inner, unit)
            f.choose(
                is_inside,
                lambda: _fill(f, inner, unit, target, source),
                lambda: _fill(f, inner, unit, target, None),
            )
    return compile_function(f)


@cache_kernel
def compile_scatter(unit: str, index_type: str) -> Kernel:
    """Return the kernel that copies slices to their indices, and sets a status if an index is out of range.

    Args:
        unit: See `compile_gather`.
        index_type: "i32" or "i64".
    """
    pointers, integers = ("updates", "indices", "result", "status"), ("outer", "size", "count", "inner")
    f = Function("scatter", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    inner = p["inner"]
    with f.loop(0, p["outer"]) as outer, f.loop(0, p["count"]) as number:
        index = f.load(f.offset(p["indices"], number, index_type), index_type)
        if index_type != "i64":
            index = f.convert("sext", index, "i64")
        is_inside = f.compare("sge", index, 0) & f.compare("slt", index, p["size"])
        source = f.offset(p["updates"], (outer * p["count"] + number) * inner, unit)
        target = f.offset(p["result"], (outer * p["size"] + index) * inner, unit)
        f.choose(
            is_inside,
            lambda: _fill(f, inner, unit, target, source),
            lambda: f.store(f.integer(1), p["status"]),
        )
    return compile_function(f)


def _fill(f: Function, length: Value, unit: str, target: Value, source: Value | None) -> None:
    """Append a copy of units, or of zeros if there is no source."""
    if unit != "float":
        with f.loop(0, length) as i:
            value = f.coerce(0, unit) if source is None else f.load(f.offset(source, i, unit), unit)
            f.store(value, f.offset(target, i, unit))
        return

    def copy(position: Value, mask: Value | None) -> None:
        value = f.coerce(0.0, f.vector) if source is None else f.load(f.offset(source, position), f.vector, mask)
        f.store(value, f.offset(target, position), mask)

    apply_to_row(f, length, copy)


@cache_kernel
def compile_top_k(type_: str, index_type: str, is_max: bool) -> Kernel:
    """Return the kernel that selects the best elements of rows in order; equal elements are in order of index.

    NaN comes after all other elements. The results contain the best elements so far; each better element is inserted.
    """
    pointers, integers = ("data", "values", "indices"), ("rows", "length", "count")
    f = Function("top_k", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    condition = ("ogt" if is_max else "olt") if type_ == "float" else ("sgt" if is_max else "slt")

    def is_better(a: Value, b: Value) -> Value:
        better = f.compare(condition, a, b)
        return better | (f.compare("uno", b, b) & f.compare("ord", a, a)) if type_ == "float" else better

    place = f.variable("i64", 0)
    with f.loop(0, p["rows"]) as row:
        data = f.offset(p["data"], row * p["length"], type_)
        values = f.offset(p["values"], row * p["count"], type_)
        indices = f.offset(p["indices"], row * p["count"], index_type)
        with f.loop(0, p["length"]) as number:
            value = f.load(f.offset(data, number, type_), type_)
            last = f.min(number, p["count"]) - 1
            worst = f.load(f.offset(values, f.max(last, 0), type_), type_)
            is_free = f.compare("slt", number, p["count"])
            with f.when(is_free | is_better(value, worst)):
                place.set(f.select(is_free, number, last))

                def goes_before(value: Value = value, values: Value = values) -> Value:
                    before = f.max(place.get() - 1, 0)
                    is_first = f.compare("sgt", place.get(), 0)
                    return is_first & is_better(value, f.load(f.offset(values, before, type_), type_))

                with f.repeat(goes_before):
                    here, before = place.get(), place.get() - 1
                    f.store(f.load(f.offset(values, before, type_), type_), f.offset(values, here, type_))
                    f.store(f.load(f.offset(indices, before, index_type), index_type),
                            f.offset(indices, here, index_type))  # fmt: skip
                    place.set(before)
                f.store(value, f.offset(values, place.get(), type_))
                index = number if index_type == "i64" else f.convert("trunc", number, index_type)
                f.store(index, f.offset(indices, place.get(), index_type))
    return compile_function(f)


@cache_kernel
def compile_log_softmax() -> Kernel:
    """Return the kernel that computes the logarithms of the softmax of rows."""
    integers = ("first", "last", "length")
    f = Function("log_softmax", [("data", "ptr"), ("result", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    length = p["length"]

    def choose(a: Value, b: Value) -> Value:
        return take_larger(f, a, b)

    with f.loop(p["first"], p["last"]) as row:
        source, target = f.offset(p["data"], row * length), f.offset(p["result"], row * length)

        def load(position: Value, mask: Value | None, source: Value = source) -> Value:
            return f.load(f.offset(source, position), f.vector, mask)

        def exponentiate(position: Value, mask: Value | None) -> Value:
            return Vectors(f).exp(load(position, mask) - largest)

        largest = reduce_row(f, length, -np.inf, load, choose, lambda x: fold(f, x, choose))
        total = sum_row(f, length, exponentiate)
        logarithm = Vectors(f).log(f.splat(total, f.vector))

        def subtract(position: Value, mask: Value | None) -> None:
            f.store((load(position, mask) - largest) - logarithm, f.offset(target, position), mask)

        apply_to_row(f, length, subtract)
    return compile_function(f)


#: The largest finite f32.
MAX_F32 = float(np.finfo(np.float32).max)


class _Reduction(NamedTuple):
    """A reduction of rows.

    Attributes:
        initial: The result for no elements, for floats and for integers.
        combine: Combines a value with an element; NaN does not change extrema.
    """

    initial: tuple[float, int]
    combine: Callable[[Function, Value, Value], Value]


def _choose(condition: str) -> Callable[[Function, Value, Value], Value]:
    """Return the choice of an element where it compares with a value."""

    def combine(f: Function, value: Value, element: Value) -> Value:
        own = f"o{condition}" if element.is_float else f"s{condition}"
        return f.select(f.compare(own, element, value), element, value)

    return combine


_REDUCTIONS = {
    "sum": _Reduction((0.0, 0), lambda f, a, b: a + b),
    "product": _Reduction((1.0, 1), lambda f, a, b: a * b),
    "maximum": _Reduction((-MAX_F32, -(1 << 63)), _choose("gt")),
    "minimum": _Reduction((np.inf, (1 << 63) - 1), _choose("lt")),
    "all": _Reduction((1.0, 1), lambda f, a, b: a & b),
    "any": _Reduction((0.0, 0), lambda f, a, b: a | b),
}


@cache_kernel
def compile_reduction(name: str, type_: str, before: str, after: str) -> Kernel:
    """Return the kernel that reduces contiguous rows.

    Args:
        name: "sum", "product", "maximum", "minimum", or "all" and "any" of booleans, which are bytes of 0 and 1.
        type_: The type of the elements.
        before: The function of each f32 before the reduction: "abs" or "square".
        after: The function of the result: "mean" or "root".
    """
    f = Function("reduce", [("data", "ptr"), ("result", "ptr"), ("rows", "i64"), ("length", "i64")], get_lanes())
    p = f.parameters
    reduction, length = _REDUCTIONS[name], p["length"]
    with f.loop(0, p["rows"]) as row:
        source, target = f.offset(p["data"], row * length, type_), f.offset(p["result"], row, type_)
        if type_ == "float":

            def load(position: Value, mask: Value | None, source: Value = source) -> Value:
                value = f.load(f.offset(source, position), f.vector, mask)
                if before == "abs":
                    return f.call_math("fabs", value)
                return value * value if before == "square" else value

            def combine(a: Value, b: Value) -> Value:
                return reduction.combine(f, a, b)

            result = reduce_row(f, length, reduction.initial[0], load, combine, lambda x: fold(f, x, combine))
            if after == "mean":
                result = result / f.convert("sitofp", length, "float")
            elif after == "root":
                result = f.call_math("sqrt", result)
            f.store(result, target)
        else:
            limit = 1 << (int(type_[1:]) - 1)
            total = f.variable(type_, 0)
            total.set(max(-limit, min(reduction.initial[1], limit - 1)))
            with f.loop(0, length) as number:
                total.set(reduction.combine(f, total.get(), f.load(f.offset(source, number, type_), type_)))
            f.store(total.get(), target)
    return compile_function(f)


#: Number of rows that are multiplied by a vector of columns at once.
TILE_ROWS = 4


@cache_kernel
def compile_small_product(is_transposed: bool) -> Kernel:
    """Return the kernel that multiplies two matrices with contiguous rows.

    Args:
        is_transposed: Whether the second matrix is stored as its transpose, so that elements are dot products of rows.
    """
    pointers = ("left", "right", "result")
    integers = ("rows", "inner", "columns", "left_stride", "right_stride")
    f = Function("small_product", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters

    if is_transposed:
        with f.loop(0, p["rows"]) as row, f.loop(0, p["columns"]) as column:
            a, b = f.offset(p["left"], row * p["left_stride"]), f.offset(p["right"], column * p["right_stride"])

            def multiply(position: Value, mask: Value | None, a: Value = a, b: Value = b) -> Value:
                left, right = (f.load(f.offset(x, position), f.vector, mask) for x in (a, b))
                return left * right

            f.store(sum_row(f, p["inner"], multiply), f.offset(p["result"], row * p["columns"] + column))
        return compile_function(f)

    sums = [f.variable(f.vector, 0.0) for _ in range(TILE_ROWS)]

    def compute_tile(row: Value, height: int, column: Value, mask: Value | None) -> None:
        for total in sums[:height]:
            total.set(0.0)
        with f.loop(0, p["inner"]) as k:
            right = f.load(f.offset(p["right"], k * p["right_stride"] + column), f.vector, mask)
            for i, total in enumerate(sums[:height]):
                left = f.load(f.offset(p["left"], (row + i) * p["left_stride"] + k))
                total.set(f.multiply_add(right, f.splat(left, f.vector), total.get()))
        for i, total in enumerate(sums[:height]):
            f.store(total.get(), f.offset(p["result"], (row + i) * p["columns"] + column), mask)

    whole = p["rows"] & -TILE_ROWS
    for start, stop, height in ((f.integer(0), whole, TILE_ROWS), (whole, p["rows"], 1)):
        with f.loop(start, stop, height) as row:
            apply_to_row(
                f, p["columns"],
                lambda column, mask, row=row, height=height: compute_tile(row, height, column, mask),  # type: ignore[misc]
            )  # fmt: skip
    return compile_function(f)

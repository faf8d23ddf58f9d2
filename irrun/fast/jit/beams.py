"""GatherTree: the paths of all beams, followed backward step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.specialization import CallSite, specialize

__all__ = ["ELEMENT_BITS", "GatherTreeKernel"]

Array = np.ndarray[Any, Any]

#: The supported types of ids, and their bits.
ELEMENT_BITS = {np.dtype(np.int32): 32, np.dtype(np.int64): 64}
I64 = np.dtype(np.int64)


@cache_kernel
def compile_paths(bits: int) -> Kernel:
    """Return the kernel that follows all beams of ids with a number of bits.

    The first element of `beams` becomes 1 if a parent on the path of a beam is out of range, else 0. The others hold
    the current beam of each path.
    """
    pointers = ("ids", "parents", "lengths", "end", "result", "beams")
    integers = ("steps", "batches", "width")
    parameters = [*((name, "ptr") for name in pointers), *((name, "i64") for name in integers)]
    f = Function(f"gather_tree_{bits}", parameters, lanes=4)
    p, element = f.parameters, f"i{bits}"
    width, count = p["width"], p["batches"] * p["width"]
    end = f.load(p["end"], element)
    beams = f.offset(p["beams"], 1, "i64")
    has_end, is_invalid = f.variable("i1", 0), f.variable("i1", 0)
    with f.loop(0, p["batches"]) as batch, f.loop(0, width) as beam:
        f.store(beam, f.offset(beams, batch * width + beam, "i64"))

    def load(name: str, index: Value) -> Value:
        return f.load(f.offset(p[name], index, element), element)

    def extend(value: Value) -> Value:
        return value if bits == 64 else f.convert("sext", value, "i64")

    def store(value: Value, index: Value) -> None:
        f.store(value, f.offset(p["result"], index, element))

    with f.loop(0, p["steps"]) as number:
        time = p["steps"] - 1 - number
        row = time * count
        is_last = f.compare("eq", time, 0)
        with f.loop(0, p["batches"]) as batch:
            first = batch * width
            start = row + first

            def follow(first: Value = first, start: Value = start, is_last: Value = is_last) -> None:
                with f.loop(0, width) as beam:
                    place = f.offset(beams, first + beam, "i64")
                    source = start + f.load(place, "i64")
                    value = load("ids", source)
                    store(value, start + beam)
                    has_end.set(has_end.get() | f.compare("eq", value, end))
                    parent = extend(load("parents", source))
                    is_valid = f.compare("ult", parent, width) | is_last
                    is_invalid.set(is_invalid.get() | (is_valid ^ 1))
                    f.store(f.select(f.compare("ult", parent, width), parent, 0), place)

            def fill(start: Value = start) -> None:
                with f.loop(0, width) as beam:
                    store(end, start + beam)

            f.choose(f.compare("slt", time, extend(load("lengths", batch))), follow, fill)
    with f.when(has_end.get()), f.loop(count, p["steps"] * count) as index:
        has_ended = f.compare("eq", load("result", index - count), end)
        store(f.select(has_ended, end, load("result", index)), index)
    f.store(f.convert("zext", is_invalid.get(), "i64"), p["beams"])
    return compile_function(f)


class GatherTreeKernel(CompiledKernel):
    """The kernel of GatherTree.

    Args:
        site: The call site.

    Raises:
        NoKernelError: A constant has another type.
    """

    description = "compiled: paths of all beams"

    def __init__(self, site: CallSite) -> None:
        self._site = site
        self._other = specialize(site) or site.call_plain
        dtypes = {x.dtype for x in site.constants if x is not None}
        if len(dtypes) > 1 or not dtypes <= ELEMENT_BITS.keys():
            raise NoKernelError("expected ids of one type, i32 or i64")

    def __call__(self, *inputs: Array) -> Any:
        """Follow the beams. Other types, and parents out of range, are left to the kernel on NumPy."""
        arguments: list[Any] = list(self._site.constants)
        for position, value in zip(self._site.variable_inputs, inputs, strict=True):
            arguments[position] = value
        ids, parents, lengths, end = arguments
        dtype, shape = ids.dtype, ids.shape
        bits = ELEMENT_BITS.get(dtype)
        if bits is None or not parents.dtype == lengths.dtype == end.dtype == dtype or not ids.size:
            return self._other(*inputs)
        if len(shape) != 3 or parents.shape != shape or lengths.shape != shape[1:2] or end.size != 1:
            return self._other(*inputs)
        held = [_make_contiguous(x) for x in arguments]
        result, beams = np.empty(shape, dtype), np.empty(1 + shape[1] * shape[2], I64)
        compile_paths(bits)(*[get_address(x) for x in (*held, result, beams)], *shape)
        return self._other(*inputs) if beams[0] else result


def _make_contiguous(x: Array) -> Array:
    return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")

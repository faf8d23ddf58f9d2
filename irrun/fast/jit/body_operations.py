"""The operations of bodies of loops: how a planner adds each of them to its plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import irrun.fast.jit.body_cells  # noqa: F401  (registers cells)
from irrun.element_types import ELEMENT_TYPES
from irrun.fast.errors import NoKernelError
from irrun.fast.expressions.table import Step, evaluate_steps, find_call
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.body_plans import EMITTERS, BodyPlanner, BodyStep, BodyValue, count_strides, emits
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.kernels import NormalizationKernel
from irrun.fast.jit.nests import LLVM_TYPES, Copy
from irrun.fast.jit.product_kernels import VariableProductKernel
from irrun.fast.jit.reductions import compile_softmax, make_row_task
from irrun.fast.jit.row_kernels import (
    compile_gather,
    compile_log_softmax,
    compile_reduction,
    compile_scatter,
    compile_small_product,
    compile_top_k,
)
from irrun.fast.jit.scalar_functions import find_scalar_function
from irrun.fast.jit.tasks import Call, Task, make_base
from irrun.fast.jit.vectors import Vectors
from irrun.ops._support.axes import normalize_axis, read_axis
from irrun.shapes import get_broadcast_shape

__all__ = ["add_step", "can_compile"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
#: Maximum number of products of two variable matrices: each needs its own arguments.
MAX_ITEMS = 1 << 8


def can_compile(step: BodyStep) -> str:
    """Return why an operation cannot be compiled for any shapes, or an empty text."""
    operation = step.site.operation
    if operation.is_custom:
        return f"{operation.type} is a custom operation"
    if operation.views or operation.concatenates or operation.kind == "elementwise" or EMITTERS.get(operation.type):
        return ""
    return f"{operation} has no compiled form"


def add_step(planner: BodyPlanner, step: BodyStep) -> None:
    """Add an operation to a plan. Its outputs become known if all inputs are known.

    Raises:
        NoKernelError: The operation cannot be compiled for these shapes and types.
        Exception: The plain kernel refuses known inputs.
    """
    site, operation = step.site, step.site.operation
    connected = [slot for slot, absent in zip(step.inputs, site.is_absent, strict=True) if not absent]
    if operation.gives_shape:
        shape = np.array(planner.get_shape(step.inputs[0]), np.int64)
        planner.known[step.outputs[0]] = shape.astype(site.attributes.get("output_type", ELEMENT_TYPES["i64"]).dtype)
        return
    if all(slot in planner.known for slot in connected) and operation.folding != "never":
        results = operation.kernel(*_list_known(planner, step), **site.attributes)
        for slot, result in zip(step.outputs, results if isinstance(results, tuple) else (results,), strict=False):
            planner.known[slot] = np.asarray(result)
        return
    outputs: Sequence[BodyValue]
    if operation.views:
        outputs = _add_views(planner, step)
    elif operation.concatenates:
        outputs = _concatenate(planner, step)
    elif emit := EMITTERS.get(operation.type):
        outputs = emit(planner, step)
    else:
        outputs = [_add_elementwise(planner, step)]
    planner.values.update(zip(step.outputs, outputs, strict=False))


def _list_known(planner: BodyPlanner, step: BodyStep) -> list[Array | None]:
    """Return the values of known inputs, and None for all others."""
    return [planner.known.get(slot) for slot in step.inputs]


def _get_known(planner: BodyPlanner, step: BodyStep, position: int) -> Array:
    """Return the value of an input that must be known."""
    value = planner.known.get(step.inputs[position]) if position < len(step.inputs) else None
    if value is None:
        raise NoKernelError(f"input {position} of {step.site.operation.type} is not constant")
    return value


# Movement


def _add_views(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    value = planner.get(step.inputs[0])
    known = _list_known(planner, step)[1:]
    if any(x is None and not absent for x, absent in zip(known, step.site.is_absent[1:], strict=True)):
        raise NoKernelError(f"{step.site.operation.type} depends on values that are not constant")

    def view(data: Array) -> Any:
        return step.site.operation.kernel(data, *known, **step.site.attributes)

    views = _find_views(view, value)
    if views is None:
        value = planner.make_contiguous(value)
        views = _find_views(view, value)
    if views is None:
        raise NoKernelError(f"{step.site.operation.type} does not return views")
    return views


def _find_views(view: Callable[[Array], Any], value: BodyValue) -> list[BodyValue] | None:
    """Return views of a value, or None if they are copies."""
    shifts = [(d - 1) * s for d, s in zip(value.shape, value.strides, strict=True)]
    first = -sum(min(shift, 0) for shift in shifts)
    memory = np.empty(first + sum(max(shift, 0) for shift in shifts) + value.dtype.itemsize, np.uint8)  # is not read
    data: Array = np.ndarray(value.shape, value.dtype, memory, first, value.strides)
    results = view(data)
    views: Sequence[Array] = results if isinstance(results, (tuple, list)) else (results,)
    if not all(x.size for x in views):
        raise NoKernelError("a value is empty")
    if not all(np.may_share_memory(x, memory) for x in views):
        return None
    return [
        BodyValue(x.shape, x.strides, value.dtype, value.block, value.offset + get_address(x) - get_address(data))
        for x in views
    ]


def _concatenate(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    inputs = [planner.get(slot) for slot in step.inputs if math.prod(planner.get_shape(slot))]
    shapes = [value.shape for value in inputs]
    axis = normalize_axis(int(step.site.attributes["axis"]), len(shapes[0]))
    if len({(*s[:axis], *s[axis + 1 :]) for s in shapes}) != 1 or len({v.dtype for v in inputs}) != 1:
        raise NoKernelError("expected inputs of the same type, and of the same shape apart from the axis")
    size = sum(shape[axis] for shape in shapes)
    result = planner.add_value((*shapes[0][:axis], size, *shapes[0][axis + 1 :]), inputs[0].dtype)
    _copy_parts(planner, result, inputs, axis)
    return [result]


def _copy_parts(planner: BodyPlanner, result: BodyValue, parts: Sequence[BodyValue], axis: int) -> None:
    """Copy values to their positions in a result."""
    start = 0
    for part in parts:
        place = replace(result, shape=part.shape, offset=result.offset + start * result.strides[axis])
        planner.add_nest(Copy(), [place], [part])
        start += part.shape[axis]


@emits("Broadcast")
def _broadcast(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    value = planner.get(step.inputs[0])
    target = _get_known(planner, step, 1)
    mode = str(step.site.attributes.get("mode", "numpy")).lower()
    shape = tuple(int(d) for d in target)
    if mode == "bidirectional":
        shape = get_broadcast_shape(shape, value.shape)
    elif mode != "numpy":
        raise NoKernelError(f"Broadcast has the mode {mode}")
    missing = len(shape) - len(value.shape)
    own = (1,) * missing + value.shape
    if missing < 0 or any(d not in (1, n) for d, n in zip(own, shape, strict=True)):
        raise NoKernelError("the value does not broadcast to the shape")
    steps = zip(own, shape, (0,) * missing + value.strides, strict=True)
    return [replace(value, shape=shape, strides=tuple(0 if d != n else s for d, n, s in steps))]


@emits("Tile")
def _tile(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    value = planner.make_contiguous(planner.get(step.inputs[0]))
    counts = [int(n) for n in _get_known(planner, step, 1).reshape(-1)]
    rank = max(len(value.shape), len(counts))
    counts = [1] * (rank - len(counts)) + counts
    shape = (1,) * (rank - len(value.shape)) + value.shape
    strides = count_strides(shape, value.dtype)
    pairs = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    steps = tuple(n for stride in strides for n in (0, stride))
    if min(counts) < 1:
        raise NoKernelError("a value is empty")
    copy = planner.copy(replace(value, shape=pairs, strides=steps))
    result = tuple(a * b for a, b in zip(counts, shape, strict=True))
    return [replace(copy, shape=result, strides=count_strides(result, value.dtype))]


@emits("ScatterUpdate")
def _scatter(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    data = planner.get(step.inputs[0])
    indices, updates = (planner.make_contiguous(planner.get(slot)) for slot in step.inputs[1:3])
    axis = read_axis(_get_known(planner, step, 3), len(data.shape))
    index_type = LLVM_TYPES.get(indices.dtype)
    expected = data.shape[:axis] + indices.shape + data.shape[axis + 1 :]
    if index_type not in ("i32", "i64") or updates.dtype != data.dtype:
        raise NoKernelError("ScatterUpdate has no compiled form for these element types")
    if [d for d in updates.shape if d != 1] != [d for d in expected if d != 1]:
        raise NoKernelError("the shape of the updates does not match")
    result = planner.copy(data)
    unit, unit_size = ("float", 4) if data.dtype.itemsize % 4 == 0 else ("i8", 1)
    inner = data.dtype.itemsize * math.prod(data.shape[axis + 1 :]) // unit_size
    sizes = math.prod(data.shape[:axis]), data.shape[axis], math.prod(indices.shape), inner
    places = [make_base(i) for i in range(4)]
    task = Task([[Call(compile_scatter(unit, index_type), (*places, *sizes))]])
    planner.add_task(task, [updates, indices, result, planner.get_status()])
    return [result]


@emits("Gather")
def _gather(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    data, indices = (planner.make_contiguous(planner.get(slot)) for slot in step.inputs[:2])
    axis = read_axis(_get_known(planner, step, 2), len(data.shape))
    batch_rank = int(step.site.attributes.get("batch_dims", 0))
    batch_rank += len(indices.shape) if batch_rank < 0 else 0
    if not 0 <= batch_rank <= min(axis, len(indices.shape)) or data.shape[:batch_rank] != indices.shape[:batch_rank]:
        raise NoKernelError("the batch dimensions differ")
    index_type = LLVM_TYPES.get(indices.dtype)
    if index_type not in ("i32", "i64"):
        raise NoKernelError(f"the indices have type {indices.dtype}")
    result = planner.add_value(data.shape[:axis] + indices.shape[batch_rank:] + data.shape[axis + 1 :], data.dtype)
    inner = data.dtype.itemsize * math.prod(data.shape[axis + 1 :])
    unit, unit_size = ("float", 4) if data.dtype.itemsize % 4 == 0 else ("i8", 1)
    sizes = (
        math.prod(data.shape[:batch_rank]),
        math.prod(data.shape[batch_rank:axis]),
        data.shape[axis],
        math.prod(indices.shape[batch_rank:]),
        inner // unit_size,
    )
    places = [make_base(i) for i in range(3)]
    planner.add_task(Task([[Call(compile_gather(unit, index_type), (*places, *sizes))]]), [data, indices, result])
    return [result]


# Elementwise


class _Expression(NamedTuple):
    """An expression of the table as an elementwise function."""

    step: Step
    result_count: int = 1
    is_vector: bool = True

    def emit(self, function: Function, values: Sequence[Value]) -> Sequence[Value]:
        """Append the instructions."""
        return [evaluate_steps(Vectors(function), [self.step], values)]


def _add_elementwise(planner: BodyPlanner, step: BodyStep) -> BodyValue:
    site = step.site
    if site.operation.kind != "elementwise":
        raise NoKernelError(f"{site.operation} has no compiled form")
    if step.inputs and planner.get_dtype(step.inputs[0]) == F32:
        rank = len(planner.get_shape(step.inputs[0]))
        call = find_call(Vectors, str(site.operation), site.attributes, _list_known(planner, step), rank)
        if call is not None:
            operands = [
                planner.get(step.inputs[o]) if isinstance(o, int) else planner.add_constant(o) for o in call.operands
            ]
            if any(value.dtype != F32 for value in operands):
                raise NoKernelError("expected f32")
            own = Step(call.name, tuple(range(len(operands))), call.parameters)
            return planner.add_elementwise(_Expression(own), operands)
    operands = [planner.get(slot) for slot in step.inputs]
    function, dtype = find_scalar_function(str(site.operation), site.attributes, [value.dtype for value in operands])
    return planner.add_elementwise(function, operands, dtype)


# Rows


def _add_rows(planner: BodyPlanner, value: BodyValue, axis: int, make_task: Callable[[int, int], Task]) -> BodyValue:
    """Add a kernel that computes rows of f32 along an axis."""
    if value.dtype != F32:
        raise NoKernelError("expected f32")
    axis = normalize_axis(axis, len(value.shape))
    data = planner.make_contiguous(_swap_axes(value, axis))
    result = planner.add_value(data.shape)
    length = data.shape[-1]
    planner.add_task(make_task(math.prod(data.shape) // length, length), [data, result])
    return _swap_axes(result, axis)


def _swap_axes(value: BodyValue, axis: int) -> BodyValue:
    """Return a view with an axis and the last axis exchanged."""
    shape, strides = list(value.shape), list(value.strides)
    for own in (shape, strides):
        own[axis], own[-1] = own[-1], own[axis]
    return replace(value, shape=tuple(shape), strides=tuple(strides))


@emits("Softmax", "SoftMax")
def _softmax(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    return [
        _add_rows(
            planner,
            planner.get(step.inputs[0]),
            step.site.attributes.get("axis", 1),
            lambda rows, length: make_row_task(compile_softmax(), 2, rows, length),
        )
    ]


@emits("LogSoftmax")
def _log_softmax(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    return [
        _add_rows(
            planner,
            planner.get(step.inputs[0]),
            step.site.attributes.get("axis", 1),
            lambda rows, length: make_row_task(compile_log_softmax(), 2, rows, length),
        )
    ]


@emits("MVN")
def _normalize(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    """Add MVN-6 along the last axes."""
    data = planner.get(step.inputs[0])
    rank = len(data.shape)
    if step.site.operation.since != 6:
        raise NoKernelError(f"{step.site.operation} has no compiled form")
    numbers = sorted(normalize_axis(int(n), rank) for n in _get_known(planner, step, 1).reshape(-1))
    if not numbers or numbers != list(range(rank - len(numbers), rank)):
        raise NoKernelError("MVN has no compiled form for these axes")
    kernel = NormalizationKernel(rank, len(numbers), step.site.attributes, (), ())
    return [planner.add_kernel(kernel, [data])]


@emits("TopK")
def _top_k(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    attributes = step.site.attributes
    data = planner.get(step.inputs[0])
    count = int(_get_known(planner, step, 1).item())
    axis = normalize_axis(attributes["axis"], len(data.shape))
    data = planner.make_contiguous(_swap_axes(data, axis))
    index_dtype = np.dtype(attributes.get("index_element_type", ELEMENT_TYPES["i32"]).dtype)
    types = LLVM_TYPES.get(data.dtype, ""), LLVM_TYPES.get(index_dtype, "")
    if types[0] not in ("float", "i32", "i64") or types[1] not in ("i32", "i64"):
        raise NoKernelError("TopK has no compiled form for these element types")
    length = data.shape[-1]
    if not 0 < count <= length or (attributes.get("sort") == "index" and count > 1):
        raise NoKernelError("TopK has no compiled form in order of indices")
    shape = (*data.shape[:-1], count)
    values, indices = planner.add_value(shape, data.dtype), planner.add_value(shape, index_dtype)
    kernel = compile_top_k(types[0], types[1], attributes["mode"] == "max")
    places = [make_base(i) for i in range(3)]
    task = Task([[Call(kernel, (*places, math.prod(shape[:-1]), length, count))]])
    planner.add_task(task, [data, values, indices])
    return [_swap_axes(values, axis), _swap_axes(indices, axis)]


def _reduces(operation_type: str, name: str, kinds: str, before: str = "", after: str = "") -> None:
    """Register the emitter of a reduction, for element types of some kinds; see `compile_reduction`."""

    @emits(operation_type)
    def reduce(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
        return [_reduce(planner, step, kinds, (name, before, after))]


_reduces("ReduceSum", "sum", "fi")
_reduces("ReduceMean", "sum", "f", after="mean")
_reduces("ReduceProd", "product", "fi")
_reduces("ReduceMax", "maximum", "fi")
_reduces("ReduceMin", "minimum", "fi")
_reduces("ReduceL1", "sum", "f", before="abs")
_reduces("ReduceL2", "sum", "f", before="square", after="root")
_reduces("ReduceLogicalAnd", "all", "b")
_reduces("ReduceLogicalOr", "any", "b")


def _reduce(planner: BodyPlanner, step: BodyStep, kinds: str, reduction: tuple[str, str, str]) -> BodyValue:
    """Add a reduction: its name, and the functions before and after it."""
    data = planner.get(step.inputs[0])
    rank = len(data.shape)
    axes = list(dict.fromkeys(normalize_axis(int(n), rank) for n in _get_known(planner, step, 1).reshape(-1)))
    type_ = LLVM_TYPES.get(data.dtype, "")
    if data.dtype.kind not in kinds or not type_ or not axes:
        raise NoKernelError(f"{step.site.operation} has no compiled form for these axes and types")
    kept = [axis for axis in range(rank) if axis not in axes]
    order = [*kept, *axes]
    turned = replace(
        data, shape=tuple(data.shape[i] for i in order), strides=tuple(data.strides[i] for i in order)
    )  # fmt: skip
    shape = tuple(data.shape[i] for i in kept)
    if step.site.attributes.get("keep_dims", False):
        shape = tuple(1 if i in axes else d for i, d in enumerate(data.shape))
    result = planner.add_value(shape, data.dtype)
    rows = math.prod(shape)
    name, before, after = reduction
    kernel = compile_reduction(name, type_, before, after)
    task = Task([[Call(kernel, (make_base(0), make_base(1), rows, math.prod(data.shape) // rows))]])
    planner.add_task(task, [planner.make_contiguous(turned), result])
    return result


# Products


@emits("MatMul")
def _multiply(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    left, right = (planner.get_shape(slot) for slot in step.inputs[:2])
    if min(len(left), len(right)) < 2 or any(planner.get_dtype(slot) != F32 for slot in step.inputs[:2]):
        raise NoKernelError("expected matrices of f32")
    transposes = [bool(step.site.attributes.get(name, False)) for name in ("transpose_a", "transpose_b")]
    weights = step.site.get_constant(1)
    if weights is not None and weights.ndim == 2 and not transposes[0]:
        own: Array = weights.T if transposes[1] else weights
        return [planner.multiply(step, "weights", planner.get(step.inputs[0]), lambda: own)]
    a, b = (
        _swap_axes(value, len(value.shape) - 2) if transposed else value
        for value, transposed in zip((planner.get(slot) for slot in step.inputs[:2]), transposes, strict=True)
    )
    return [_multiply_matrices(planner, a, b)]


def _multiply_matrices(planner: BodyPlanner, a: BodyValue, b: BodyValue) -> BodyValue:
    """Add matrix products."""
    if a.shape[-1] != b.shape[-2]:
        raise NoKernelError("the shapes do not match")
    if a.strides[-1] != F32.itemsize and a.shape[-1] > 1:
        a = planner.make_contiguous(a)
    try:
        return planner.add_kernel(VariableProductKernel((False, False), (), ()), [a, b])
    except NoKernelError:
        pass
    is_transposed = b.strides[-1] != F32.itemsize and b.strides[-2] == F32.itemsize
    if not is_transposed and b.strides[-1] != F32.itemsize:
        b = planner.make_contiguous(b)
    lead = get_broadcast_shape(a.shape[:-2], b.shape[:-2])
    if math.prod(lead) > MAX_ITEMS or any(s % F32.itemsize for s in (*a.strides, *b.strides)):
        raise NoKernelError("the product is too large")
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    result = planner.add_value((*lead, rows, columns))
    kernel = compile_small_product(is_transposed)
    strides = a.strides[-2] // F32.itemsize, b.strides[-1 if is_transposed else -2] // F32.itemsize
    steps = [_broadcast_strides(x, lead) for x in (a, b, result)]
    calls = []
    for index in np.ndindex(*lead):
        places = [make_base(i).move(sum(map(int.__mul__, index, own))) for i, own in enumerate(steps)]
        calls.append([Call(kernel, (*places, rows, inner, columns, *strides))])
    planner.add_task(Task([[call for part in calls for call in part]]), [a, b, result])
    return result


def _broadcast_strides(value: BodyValue, lead: tuple[int, ...]) -> list[int]:
    """Return the strides of the axes before the last two, 0 where the value is repeated."""
    own, missing = value.shape[:-2], len(lead) - len(value.shape) + 2
    return [0] * missing + [0 if d == 1 else s for d, s in zip(own, value.strides, strict=False)]

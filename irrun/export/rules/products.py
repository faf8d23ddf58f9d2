"""Export of reductions, matrix products and normalizations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import (
    flatten,
    reshape,
    shape_of,
    slice_axis,
    squeeze,
    to_axes,
    transpose,
    unsqueeze,
    where,
)
from irrun.export.site import RULES, Site, exports, round_to
from irrun.shapes import PartialShape

__all__: list[str] = []

#: Reductions that exist in ONNX.
REDUCTIONS = {
    "ReduceSum-1": "ReduceSum",
    "ReduceProd-1": "ReduceProd",
    "ReduceMax-1": "ReduceMax",
    "ReduceMin-1": "ReduceMin",
    "ReduceMean-1": "ReduceMean",
    "ReduceL1-4": "ReduceL1",
    "ReduceL2-4": "ReduceL2",
    "ReduceLogicalAnd-1": "ReduceMin",
    "ReduceLogicalOr-1": "ReduceMax",
}


def _export_reduction(operation: str, site: Site) -> Value:
    data, axes = site[0], flatten(site[1])
    options: dict[str, Any] = {"keepdims": int(site.keep_dims), "noop_with_empty_axes": 1}
    known = axes.read()
    if data.rank == 0 or (known is not None and known.size == 0):
        return data if operation not in ("ReduceL1", "ReduceL2") else op("Abs", data)
    if known is not None:
        axes = constant(sorted({int(a) % data.rank if data.rank else int(a) for a in known}))
    elif data.rank is not None and site.get_rank(1) < 2 and site.outputs[:1] == [None]:
        (length,) = site.get_shape(1) or (1,)
        if length is not None:
            site.outputs[0] = PartialShape([-1] * (data.rank - (0 if site.keep_dims else length)))
    target = data.type
    if site.layer.type.startswith("ReduceLogical"):
        return cast(op(operation, cast(cast(data, "boolean"), "i32"), axes, **options), target)
    if target.kind == "boolean":
        data = cast(data, "i32")
    elif target.is_integer:
        if operation == "ReduceMean":
            total = op("ReduceSum", cast(data, "i64"), axes, **options)
            count = op("ReduceSum", op("Expand", constant(1), op("Shape", data, result="i64")), axes, **options)
            return cast(total / op("Max", count, constant(1)), target)
        if operation == "ReduceL2":
            squares = cast(data, "f64") * cast(data, "f64")
            return round_to(op("Sqrt", op("ReduceSum", squares, axes, **options)), target)
        data = cast(data, "i64") if target.bits != 32 or target.kind == "uint" else data
        if operation == "ReduceL1":
            return cast(op("ReduceSum", op("Abs", data), axes, **options), target)
    elif operation == "ReduceL2":
        narrow = cast(data, "f32") if target.bits < 32 else data
        return cast(op("Sqrt", op("ReduceSum", narrow * narrow, axes, **options)), target)
    elif operation == "ReduceL1":
        narrow = cast(data, "f32") if target.bits < 32 else data
        return cast(op("ReduceSum", op("Abs", narrow), axes, **options), target)
    return cast(op(operation, data, axes, **options), target)


for _name, _operation in REDUCTIONS.items():
    RULES[_name] = partial(_export_reduction, _operation)


@exports("CumSum-3")
def export_cum_sum(site: Site) -> Value:
    """Export CumSum."""
    data, axis = site[0], site.get(1)
    if data.rank == 0:
        return data if not site.exclusive else data - data
    position = constant(0) if axis is None else axis
    if position.rank != 0:
        position = reshape(position, [])
    wide = cast(data, "f32") if data.type.is_float and data.type.bits < 32 else data
    if position.type.name not in ("i32", "i64"):
        position = cast(position, "i64")
    result = op("CumSum", wide, position, exclusive=int(site.exclusive), reverse=int(site.reverse))
    return cast(result, data.type)


def _swap_last_axes(value: Value, rank: int) -> Value:
    return transpose(value, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else value


@exports("MatMul-1")
def export_matmul(site: Site) -> Value:
    """Export MatMul."""
    a, b = site[0], site[1]
    if site.transpose_a and b.rank == 1 and site.get_rank(0) > 1:
        # onnxruntime fuses a Transpose into the product with a vector, and reads the matrix in the wrong order.
        return squeeze(op("MatMul", unsqueeze(b, [0]), a), [-2])
    if site.transpose_a:
        a = _swap_last_axes(a, site.get_rank(0))
    if site.transpose_b:
        b = _swap_last_axes(b, site.get_rank(1))
    return op("MatMul", a, b)


@exports("FullyConnected-ie_internal_opset")
def export_fully_connected(site: Site) -> Value:
    """Export FullyConnected: a product with transposed weights, and a bias."""
    result = op("MatMul", site[0], cast(_swap_last_axes(site[1], site.get_rank(1)), site[0].type))
    bias = site.get(2)
    if bias is not None and bias.rank is not None and 0 not in (bias.shape or ()):
        result = result + cast(bias, result.type)
    return _cast_declared(result, site)


def _cast_declared(value: Value, site: Site) -> Value:
    declared: ElementType | None = site.types[0] if site.types else None
    return value if declared is None else cast(value, declared)


@exports("GroupedMatMul-17")
def export_grouped_matmul(site: Site) -> Value:
    """Export GroupedMatMul: for groups of rows, products with all matrices, then a selection of one per row."""
    a, weights = site[0], _swap_last_axes(site[1], 3)
    if site.get_rank(0) == 3:
        return op("MatMul", a, weights)
    ends = unsqueeze(cast(site[2], "i64"), [1, 2])
    count = op("Shape", ends, result="i64", end=1)
    starts = op("Concat", constant(np.zeros((1, 1, 1), np.int64)), slice_axis(ends, 0, count - 1), axis=0)
    rows = op("Range", constant(0), reshape(op("Shape", a, result="i64", end=1), []), constant(1))
    rows = reshape(rows, [1, -1, 1])
    belongs = (rows >= starts) & (rows < ends)
    products = op("MatMul", unsqueeze(a, [0]), weights)
    kept = where(belongs, products, constant(0, products.type))
    return cast(op("ReduceSum", kept, constant([0]), keepdims=0), a.type)


@exports("Einsum-7")
def export_einsum(site: Site) -> Value:
    """Export Einsum. If the ellipsis of an operand covers fewer axes, axes of length 1 are added."""
    equation = site.equation.replace(" ", "")
    values = [site[i] for i in range(len(site))]
    if "..." in equation and all(value.rank is not None for value in values):
        parts = equation.partition("->")[0].split(",")
        counts = [(v.rank or 0) - len(p) + 3 if "..." in p else 0 for v, p in zip(values, parts, strict=True)]
        for i, (part, count) in enumerate(zip(parts, counts, strict=True)):
            first = part.find("...")
            if first >= 0 and count < max(counts):
                values[i] = unsqueeze(values[i], list(range(first, first + max(counts) - count)))
    return op("Einsum", *values, equation=equation)


@exports("Inverse-14", compute="f32")
def export_inverse(site: Site) -> Value:
    """Export Inverse: Gaussian elimination with pivots, unrolled over the rows."""
    data = site[0]
    n = site.get_shape(0)[-1]
    if n is None or n > 64:
        raise UnsupportedError(f"matrices of {n or 'a dynamic number of'} rows")
    kind = data.type
    joined = reshape(data, [-1, n, n])
    eye = op("Expand", constant(np.eye(n, dtype=kind.dtype)[np.newaxis]), shape_of_batch(joined, n))
    matrix = op("Concat", joined, eye, axis=2)
    rows = constant(np.arange(n).reshape(1, n, 1))
    for k in range(n):
        column = op("Abs", slice_axis(slice_axis(matrix, k, n, 1), k, k + 1, 2))
        pivot = op("ArgMax", column, axis=1, keepdims=1, result="i64") + k
        hit = op("Equal", rows, pivot)
        pivot_row = op("ReduceSum", where(hit, matrix, constant(0, kind)), constant([1]), keepdims=1)
        current = slice_axis(matrix, k, k + 1, 1)
        matrix = where(op("Equal", rows, constant(k)), pivot_row, where(hit, current, matrix))
        scaled = pivot_row / slice_axis(pivot_row, k, k + 1, 2)
        factors = slice_axis(matrix, k, k + 1, 2)
        eliminated = matrix - factors * scaled
        matrix = where(op("Equal", rows, constant(k)), scaled, eliminated)
    result = slice_axis(matrix, n, 2 * n, 2)
    if site.adjoint:
        result = op("Transpose", result, perm=[0, 2, 1])
    return op("Reshape", result, shape_of(data))


def shape_of_batch(value: Value, n: int) -> Value:
    """Return the shape [batch, n, n] of matrices."""
    return op("Concat", op("Shape", value, result="i64", end=1), constant([n, n]), axis=0)


@exports("Softmax-1", "Softmax-8", compute="f32")
def export_softmax(site: Site) -> Value:
    """Export Softmax."""
    return _export_along(site, "Softmax")


@exports("LogSoftmax-5", compute="f32")
def export_log_softmax(site: Site) -> Value:
    """Export LogSoftmax."""
    return _export_along(site, "LogSoftmax")


def _export_along(site: Site, operation: str) -> Value:
    if site[0].rank == 0:
        return reshape(op(operation, reshape(site[0], [1]), axis=0), [])
    return op(operation, site[0], axis=int(site.axis))


@exports("BatchNormInference-1", "BatchNormInference-5")
def export_batch_norm(site: Site) -> Value:
    """Export BatchNormInference. The data is the third input in version 1."""
    inputs = [site[i] for i in range(5)]
    if site.layer.version in ("opset1", "opset2", "opset3", "opset4"):
        inputs = [inputs[2], inputs[0], inputs[1], *inputs[3:]]
    data, *others = inputs
    return op("BatchNormalization", data, *(cast(v, data.type) for v in others), epsilon=float(site.epsilon))


def normalize(data: Value, axes: list[int] | Value, eps: float, *, variance: bool = True, inside: bool = True) -> Value:
    """Subtract the mean along axes, and divide by the standard deviation."""
    reduced = axes if isinstance(axes, Value) else constant(axes)
    if not isinstance(axes, Value) and not axes:
        centered = data - data
    else:
        centered = data - op("ReduceMean", data, reduced, keepdims=1)
    if not variance:
        return centered
    squares = centered * centered
    mean = squares if not isinstance(axes, Value) and not axes else op("ReduceMean", squares, reduced, keepdims=1)
    deviation = op("Sqrt", mean + eps) if inside else op("Sqrt", mean) + eps
    return centered / deviation


@exports("MVN-2", compute="f32")
def export_mvn_2(site: Site) -> Value:
    """Export MVN of version 1, in opset 2."""
    axes = list(site.reduction_axes or range(1 if site.across_channels else 2, site.get_rank(0)))
    return normalize(site[0], axes, float(site.eps), variance=site.normalize_variance)


@exports("MVN-6", compute="f32")
def export_mvn_6(site: Site) -> Value:
    """Export MVN."""
    known = site[1].read()
    axes: list[int] | Value = flatten(site[1]) if known is None else [int(a) for a in known.reshape(-1)]
    return normalize(
        site[0], axes, float(site.eps), variance=site.normalize_variance, inside=site.eps_mode == "inside_sqrt"
    )


@exports("GroupNormalization-12", compute="f32")
def export_group_norm(site: Site) -> Value:
    """Export GroupNormalization."""
    data, rank = site[0], site.get_rank(0)
    grouped = reshape(data, [0, site.num_groups, -1])
    standard = op("Reshape", normalize(grouped, [2], float(site.epsilon)), shape_of(data))
    scale, bias = (reshape(cast(site[i], data.type), [-1, *[1] * (rank - 2)]) for i in (1, 2))
    return standard * scale + bias


@exports("GRN-1", compute="f32")
def export_grn(site: Site) -> Value:
    """Export GRN."""
    squares = op("ReduceSum", site[0] * site[0], constant([1]), keepdims=1)
    return site[0] / op("Sqrt", squares + float(site.bias))


@exports("NormalizeL2-1", compute="f32")
def export_normalize_l2(site: Site) -> Value:
    """Export NormalizeL2."""
    data = site[0]
    known = site[1].read()
    if known is not None and known.size == 0:
        return cast(~op("Equal", data, 0.0), data.type)
    squares = op("ReduceSum", data * data, flatten(site[1]), keepdims=1)
    eps = constant(float(site.eps), data.type)
    return data / op("Sqrt", squares + eps if site.eps_mode == "add" else op("Max", squares, eps))


@exports("LRN-1", compute="f32")
def export_lrn(site: Site) -> Value:
    """Export LRN. Along axes other than the channels, it is a sum of shifted squares."""
    data, rank = site[0], site.get_rank(0)
    axes = to_axes(site, 1, rank)
    half = (site.size - 1) // 2
    if axes == [1] and site.size % 2 and rank == 4 and data.type.name == "f32":
        return op("LRN", data, alpha=site.alpha, beta=site.beta, bias=site.bias, size=site.size)
    sums = data * data
    for axis in axes:
        pads = [0] * (2 * rank)
        pads[axis] = pads[rank + axis] = half
        padded = op("Pad", sums, constant(pads)) if half else sums
        length = op("Shape", data, result="i64", start=axis, end=axis + 1)
        parts = [slice_axis(padded, i, length + i, axis) for i in range(2 * half + 1)]
        sums = op("Sum", *parts) if len(parts) > 1 else parts[0]
    scale = float(site.alpha) / site.size ** len(axes)
    return data / op("Pow", sums * scale + float(site.bias), constant(float(site.beta), data.type))


@exports("RMS-ie_internal_opset", compute="f32")
def export_rms(site: Site) -> Value:
    """Export RMS: a division by the root mean square of the last axis."""
    data = site[0]
    result = data / op("Sqrt", op("ReduceMean", data * data, constant([-1]), keepdims=1) + float(site.epsilon))
    gamma = site.get(1)
    if gamma is not None:
        result = result * cast(gamma, data.type)
    return result if site.attributes.get("output_type") in ("dynamic", None, "") else _cast_declared(result, site)


@exports("RMSNorm-extension", compute="f32")
def export_rms_norm(site: Site) -> Value:
    """Export RMSNorm: a division by the root mean square of some axes."""
    data, scale = site[0], site.get(2)
    squares = op("ReduceMean", data * data, flatten(site[1]), keepdims=1)
    result = data / op("Sqrt", squares + float(site.epsilon))
    return result if scale is None else result * cast(scale, data.type)
